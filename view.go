package replicator

import (
	"encoding/json"
	"slices"
)

// Feed says which cells a view is made from: all cells of a table, or only those of one column value.
type Feed struct {
	Table  string
	Column string // value of the column role; "": every cell of the table
}

// Matches reports whether the cell feeds the view.
func (f Feed) Matches(c Cell) bool {
	return f.Table == c.Table && (f.Column == "" || f.Column == c.Column)
}

// View is the complete definition of a view, as the configuration has it. Package view compiles the members from Fields
// to Joins, which say what cells contribute. Settings are for the view's sink.
type View struct {
	Name   string
	Sink   string
	Kind   string  // index, row, counter, hash, json, ranking, document, changelog
	From   []Feed  // one feed, or several to merge: a field's value comes from the first feed that has it
	Fields []Field // in the order of Entry.Fields; a counter has the group's columns, then the sum

	Key    string // template of Entry.Key; "": unused
	Member string // template of Entry.Member; "": unused
	Where  string // expression that selects cells; "": every cell
	Sum    string // path of the amount of a counter or ranking; "": the view counts cells

	Joins []Join // in the order of the configuration

	// Settings are the sink's own settings: plain data of a type that the sink's package defines, never changed; nil:
	// none. As JSON they are an object whose members are part of the fingerprint. So member names and order must never
	// change, and members added later must be left out when empty.
	Settings any

	Shadows string // the view that this shadow rebuilds (see Shadower); "": the view is no shadow

	OnChange string // what to do after the view's definition changed: "refuse" or "rebuild"

	// Fingerprint is a hash of all fields above except Shadows and OnChange, and of all roles of the view's tables
	// except offset. Views with different fingerprints have different contents.
	Fingerprint string
}

// Field is one value that a view holds: its name at the target, and its origin. Path is a path into the body
// ("address.city", "tags[]"), "$name" for one of the row's columns, or "=" and an expression.
type Field struct {
	Name string
	Path string
}

// MarshalJSON writes a field as [NAME, PATH]. Fingerprints depend on that form.
func (f Field) MarshalJSON() ([]byte, error) { return json.Marshal([2]string{f.Name, f.Path}) }

// ShownAs is the view's name in metrics. A shadow uses the name of the view that it rebuilds.
func (v *View) ShownAs() string {
	if v.Shadows != "" {
		return v.Shadows
	}
	return v.Name
}

// Spread reports whether the settings keep the view in several databases. A database that doesn't know such a view has
// lost it, or never had it.
func (v *View) Spread() bool {
	s, is := v.Settings.(interface{ Spread() bool })
	return is && s.Spread()
}

func (v *View) Feeds(c Cell) bool { return v.Feed(c) >= 0 }

// Feed returns the index in From of the feed that matches the cell; -1 if the cell does not feed the view.
func (v *View) Feed(c Cell) int {
	for i, f := range v.From {
		if f.Matches(c) {
			return i
		}
	}
	return -1
}

// Value is what one cell contributes to one view of a target: no entry, one (a row, a hash, a document, an amount), or
// several (an index over a list).
type Value struct {
	View    int // index in the target's views
	Entries []Entry
	Err     error // why the contribution can't be computed; the cell then contributes nothing and is a dead letter
}

// valueOverhead estimates, in bytes, what a contribution costs besides its texts: the Value, its Entry, and the sink's
// copies in flight. Views with short texts need the estimate: without it, 500 of them took 434 MiB instead of 143
// (measured by `go run ./bench bounds -only views`).
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
	const header = 16 // the size of an interface value
	const slice = 24  // the size of the slice header behind the interface
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

// Entry is one piece of a contribution: a row, member, document or amount. The view's kind says which fields are set.
type Entry struct {
	Key    string // made by the template View.Key: a Redis key, or an Elasticsearch document's ID
	Member string // made by the template View.Member: a Redis member, or an Elasticsearch routing

	// Fields are in the order of View.Fields: nil (missing or null), bool, int64, uint64 (only above the largest
	// int64), float64, Number, string, []byte, []any, Object.
	Fields []any

	// Row is the whole row, in an entry of a changelog view. It must not be changed, and Row.Text is nil. Fields then
	// holds only the decoded body; nil if the body is JSON text or can't be decoded.
	Row *Row
}

// Evaluator computes what a cell contributes to the views of a target.
type Evaluator interface {
	// Evaluate returns one Value for each view that the cell feeds. If the cell is gone (nil row), every Value is
	// empty. A contribution that can't be computed has Value.Err set. Several goroutines may call Evaluate.
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

// TablesOf lists the tables that views read, each once: those that feed them, and joined tables.
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

// OfEntities reports whether a view of this kind has one entry for each entity, made of all its cells.
func (v *View) OfEntities() bool {
	return slices.Contains([]string{"row", "hash", "json", "document"}, v.Kind)
}
