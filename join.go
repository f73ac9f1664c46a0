package replicator

import (
	"encoding/json"
	"slices"
	"time"
)

// Join adds rows of another table to a view's entries: an order's customer, or its items. It is an outer join: if no
// row is found, its paths are missing.
//
// A view with joins is made only by re-reads. Whenever the cell's row or a joined row changes, the cell and its joined
// rows are read from the source again, as of a log position taken before. So State.Next need not know about joins, and
// sinks store nothing about them (docs/adr/0022-joins-are-looks.md).
type Join struct {
	Name   string   // the first part of paths that lead into it
	Table  string   // the joined table's name in the configuration
	On     []JoinOn // at least one
	Many   bool     // all rows, as a list; otherwise the first one, if any
	Fields []Field  // the fields of the list's objects; empty: all fields of the row
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

// Lookup is a join as a source reads it: the rows of another table that a row carries. Lookups that read the same rows
// of one table in the same order are merged, whichever views name them and under whatever names.
type Lookup struct {
	ID    string // the key of Row.Joined; made of all the fields below
	Table string
	On    []JoinOn // From is a Lookup's ID
	Many  bool
	Order []string
	Limit int // 0: all
}

// MaxJoined is the number of rows that a Lookup may find for one row. A row with more becomes a dead letter, unless the
// view limits how many it wants.
const MaxJoined = 10_000

// Lookups are the lookups that a view's joins need for each row of the view's own table. Each follows the lookups that
// it starts from. names are the joins' names in the same order.
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
			break // joins that begin at each other; loading the configuration refuses them
		}
	}
	return lookups, names
}

func (l Lookup) identity() string {
	text, _ := json.Marshal([]any{l.Table, l.On, l.Many, l.Order, l.Limit}) // texts, numbers and lists of them always marshal
	return string(text)
}

// Reference says that a joined row was changed. It concerns the rows of Table whose Lookup finds rows with the Values
// in the columns of its On: views may show them with outdated joined rows.
type Reference struct {
	Table  string // that has the Lookup
	Lookup string // its ID
	Values Key    // of the columns of its On, in their order
	Order  int64
	Time   time.Time // when it was committed at the source
}

// Joined reports whether any view joins rows of the table.
func (v *View) Joined(table string) bool {
	return slices.ContainsFunc(v.Joins, func(j Join) bool { return j.Table == table })
}
