package replicator

import (
	"encoding/json"
	"slices"
	"time"
)

// Join adds rows of another table to a view's entries: an order's customer, or its items. It is an outer join: if no
// row is found, the paths into the join have no value.
//
// Whenever a cell's row or a joined row changes, the cell and its joined rows are read from the source again. So
// neither State.Next nor a sink needs to know about joins (docs/adr/0022-joins-are-looks.md).
type Join struct {
	Name   string // first part of the paths that lead to the joined row
	Table  string
	On     []JoinOn // the join's conditions, at least one
	Many   bool     // true: all rows are joined, as a list; false: only the first row, if there is one
	Fields []Field  // with Many: the fields of each joined row in the list; empty: all its fields
	Where  string   // expression over the joined row; "": every row
	Order  []string // columns to sort by ("-NAME": descending); rows with equal values are in the order of their keys
	Limit  int      // the maximum number of rows; 0: no limit
}

// JoinOn is one condition of a join: a column of the joined table equals a column on the other side.
type JoinOn struct {
	Column string // a column of the joined table
	From   string // the other side: the row of the join with this name; "": the view's own row
	Path   string // a column of the other side
}

// Lookup is a join as the source reads it: the rows of another table that a row carries. Joins that read the same rows
// in the same order become one Lookup, whatever their views and names are.
type Lookup struct {
	ID    string // the key of Row.Joined; made of all the fields below
	Table string
	On    []JoinOn // with JoinOn.From being the ID of another Lookup instead of the name of a join
	Many  bool
	Order []string
	Limit int // the maximum number of rows; 0: no limit
}

// MaxJoined is the most rows that a Lookup may find for one row. A row with more becomes a dead letter, unless the join
// has a Limit.
const MaxJoined = 10_000

// Lookups returns the lookups that the view's joins need, and the joins' names in the same order. A join comes after
// the joins whose rows its conditions use (JoinOn.From).
func (v *View) Lookups() (lookups []Lookup, names []string) {
	ids := map[string]string{"": ""}
	for len(names) < len(v.Joins) {
		before := len(names)
		for _, j := range v.Joins {
			if slices.Contains(names, j.Name) || slices.ContainsFunc(j.On, func(on JoinOn) bool {
				_, known := ids[on.From]
				return !known
			}) {
				continue
			}
			l := Lookup{Table: j.Table, Many: j.Many, Order: j.Order, Limit: j.Limit}
			if j.Where != "" { // the view applies Where after reading, so the lookup must find all rows
				l.Limit = 0
			}
			for _, on := range j.On {
				l.On = append(l.On, JoinOn{Column: on.Column, From: ids[on.From], Path: on.Path})
			}
			l.ID = l.identity()
			lookups, names = append(lookups, l), append(names, j.Name)
			ids[j.Name] = l.ID
		}
		if len(names) == before {
			break // a cycle of joins, each of which needs the row of the next; the configuration refuses it
		}
	}
	return lookups, names
}

func (l Lookup) identity() string {
	text, _ := json.Marshal([]any{l.Table, l.On, l.Many, l.Order, l.Limit}) // texts, numbers and lists always marshal
	return string(text)
}

// Reference says that a joined row changed, so entries made with that row may show old values. It identifies the rows
// of Table with which the Lookup joins the changed row.
type Reference struct {
	Table  string // the table that has the Lookup
	Lookup string // the Lookup's ID
	Values Key    // the changed row's values of the columns JoinOn.Column, in the order of the Lookup's On
	Order  int64
	Time   time.Time // when the change was committed at the source
}

// Joined reports whether the view joins rows of the table.
func (v *View) Joined(table string) bool {
	return slices.ContainsFunc(v.Joins, func(j Join) bool { return j.Table == table })
}
