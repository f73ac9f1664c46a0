package replicator

import (
	"encoding/json"
	"slices"
)

// Feed is what a view is made from: the cells of a table, or only those of one column value.
type Feed struct {
	Table  string // the table's name in the configuration
	Column string // "": every cell of the table
}

// Matches reports whether the cell feeds the view.
func (f Feed) Matches(c Cell) bool {
	return f.Table == c.Table && (f.Column == "" || f.Column == c.Column)
}

// View is a view's definition: what the configuration says, complete. The core uses Name to Fields; package view
// compiles Key to Sum into contributions; the rest is for the view's sink.
type View struct {
	Name   string
	Sink   string
	Kind   string  // index, row, counter, hash, json, ranking, document, changelog
	From   []Feed  // one, or several that are merged: a field's value comes from the first feed that has it
	Fields []Field // in the order of Entry.Fields; for a counter the group's columns, then the sum

	Key    string // template of what Entry.Key holds; "": nothing
	Member string // template of what Entry.Member holds; "": nothing
	Where  string // expression; "": every cell
	Sum    string // counter, ranking: path of the amount; "": cells are counted

	Joins []Join // in the order of the file

	// Settings is everything else that the sink must know: a value of a type of the sink's package, plain data that
	// never changes. As JSON it is an object whose members are part of the fingerprint. Their names and order must
	// stay, and later members must be left out when empty. nil: there are none.
	Settings any

	Shadows string // the view that this one stands in for while that is rebuilt; "": it is no shadow

	OnChange string // what to do when the definition changed: "refuse" or "rebuild"

	// Fingerprint is a hash of the view's definition: everything above except OnChange, with the roles of its tables.
	// Views with different fingerprints have different contents.
	Fingerprint string
}

// Field is one value that a view holds: its name at the target and where it comes from. Path is a path into the body
// ("address.city", "tags[]"), "$name" for one of the row's own columns, or "=" and an expression.
type Field struct {
	Name string
	Path string
}

// MarshalJSON writes a field as [NAME, PATH], as fingerprints have it.
func (f Field) MarshalJSON() ([]byte, error) { return json.Marshal([2]string{f.Name, f.Path}) }

// ShownAs is the view's name in metrics. A shadow uses the name of the view that it stands in for.
func (v *View) ShownAs() string {
	if v.Shadows != "" {
		return v.Shadows
	}
	return v.Name
}

// Spread reports whether the settings keep the view in several databases. A database that doesn't know the view has
// lost it, or never had it.
func (v *View) Spread() bool {
	s, is := v.Settings.(interface{ Spread() bool })
	return is && s.Spread()
}

// Feeds reports whether the cell feeds the view.
func (v *View) Feeds(c Cell) bool { return v.Feed(c) >= 0 }

// Feed is the index in From of the feed that the cell belongs to; -1 if the cell does not feed the view.
func (v *View) Feed(c Cell) int {
	for i, f := range v.From {
		if f.Matches(c) {
			return i
		}
	}
	return -1
}

// Value is what one cell contributes to one view of a target: no entries, one (a row, a hash, a document, an amount),
// or several (an index over a list).
type Value struct {
	View    int // the view's place in Target.Views
	Entries []Entry
	Err     error // why the contribution could not be computed; the cell then contributes nothing and is a dead letter
}

// valueOverhead estimates, in bytes, what a contribution costs besides its texts: the Value, its Entry, and the sink's
// copies in flight. Without it 500 views took 434 MiB instead of 143 (`go run ./bench bounds -only views`), because
// their texts are so short.
const valueOverhead = 300

// Size estimates the memory of a contribution, in bytes. A repeated value counts each time, because a sink writes it
// each time.
func (v *Value) Size() int64 {
	n := int64(valueOverhead)
	for i := range v.Entries {
		e := &v.Entries[i]
		n += int64(len(e.Key) + len(e.Member))
		for _, f := range e.Fields {
			n += sizeOf(f)
		}
		if e.Row != nil {
			n += e.Row.Size()
		}
	}
	return n
}

func sizeOf(value any) (n int64) {
	const header = 16 // of an interface
	const slice = 24  // that it refers to
	switch v := value.(type) {
	case string:
		return header + int64(len(v))
	case []byte:
		return header + int64(len(v))
	case Number:
		return header + int64(len(v))
	case RawJSON:
		return header + int64(len(v))
	case []any:
		n += slice
		for _, e := range v {
			n += sizeOf(e)
		}
	case Object:
		n += slice
		for _, m := range v {
			n += header + int64(len(m.Name)) + sizeOf(m.Value)
		}
	}
	return n + header
}

// Entry is one contribution. Which parts are set depends on the view's kind.
type Entry struct {
	Key    string // redis: the key; elastic: the document's id. From the view's template.
	Member string // redis: the member; elastic: the routing. From the view's template.

	// Fields are in the order of View.Fields: nil (missing or null), bool, int64, uint64 (only above the largest
	// int64), float64, Number, string, []byte, []any, Object.
	Fields []any

	// Row is the whole row, in a changelog's entry. Its body is rendered (Row.Text is nil), and it must not be changed.
	// Fields then holds only the decoded body, or nil if that is JSON text or can't be decoded.
	Row *Row
}

// Evaluator computes contributions: compiled views that run together.
type Evaluator interface {
	// Evaluate returns a value for each of the views that the cell feeds. With a nil row the cell is gone, and every
	// value is empty. A contribution that can't be computed has Value.Err set; it is never dropped. Safe for concurrent
	// use.
	Evaluate(cell Cell, row *Row) []Value
}

// Feeding lists the tables whose cells feed the views, each once.
func Feeding(views []*View) (tables []string) {
	for _, v := range views {
		for _, f := range v.From {
			if !slices.Contains(tables, f.Table) {
				tables = append(tables, f.Table)
			}
		}
	}
	return tables
}

// TablesOf lists the tables that views read, each once: those that feed them, and the joined ones.
func TablesOf(views []*View) []string {
	tables := Feeding(views)
	for _, v := range views {
		for _, j := range v.Joins {
			if !slices.Contains(tables, j.Table) {
				tables = append(tables, j.Table)
			}
		}
	}
	return tables
}
