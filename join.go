package replicator

import (
	"encoding/json"
	"slices"
	"time"
)

// Join is another table's rows that a view's entries are made with: an order's customer, or its items. It is an outer
// join: where no row is found, its paths are missing.
//
// A view with joins is made by looks alone: whenever a row that an entry is made with changes, the cell and its joined
// rows are read from the source again, as of a place that was taken before. So State.Next needs to know nothing of
// joins, and no sink remembers anything of them (docs/adr/0022-joins-are-looks.md).
type Join struct {
	Name   string   // what paths begin with that lead into it
	Table  string   // the joined table's name in the configuration
	On     []JoinOn // at least one
	Many   bool     // all rows, as a list; else the first one, if there is one
	Fields []Field  // what the list's objects hold; empty: all fields of the row
	Where  string   // expression over the joined row; "": all rows count
	Order  []string // columns of the joined table, with "-" before one that falls; its key follows
	Limit  int      // how many rows count; 0: all
}

// JoinOn is one condition of a join: a column of the joined table equals a column on the other side.
type JoinOn struct {
	Column string // of the joined table
	From   string // the join whose row has the other column; "": the view's own row
	Path   string // the other column
}

// Lookup is a join as a source reads it: which rows of another table a row carries. Lookups of one table that read the
// same rows in the same order are one, whichever views name them, and whatever these call them.
type Lookup struct {
	ID    string // where a Row has its rows; made of all that follows
	Table string
	On    []JoinOn // From is a Lookup's ID
	Many  bool
	Order []string
	Limit int // 0: all
}

// MaxJoined is how many rows a Lookup may find for one row. A row that has more is a dead letter, or the view says how
// many it wants.
const MaxJoined = 10_000

// Lookups are what a view's joins have the source read for each row of the view's own table, in an order in which each
// stands behind those that it begins at. The join's names are theirs in the same order.
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
			if j.Where != "" { // it is applied to rows that were read
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
			break // joins that begin at each other: who reads the configuration refuses them
		}
	}
	return lookups, names
}

func (l Lookup) identity() string {
	text, _ := json.Marshal([]any{l.Table, l.On, l.Many, l.Order, l.Limit}) // texts, numbers and lists of them always marshal
	return string(text)
}

// Reference says that a row which others are joined with was changed: the rows of Table whose Lookup finds rows with
// the Values in the columns of its On are no longer what views hold.
type Reference struct {
	Table  string // that has the Lookup
	Lookup string // its ID
	Values Key    // of the columns of its On, in their order
	Order  int64
	Time   time.Time // when it was committed at the source
}

// Joined reports whether views are made with the rows of a table, beside those that it feeds.
func (v *View) Joined(table string) bool {
	return slices.ContainsFunc(v.Joins, func(j Join) bool { return j.Table == table })
}
