package sinktest

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"replicator"
)

// Subject is a sink to be tested, with empty targets prepared for its views.
type Subject struct {
	// Tables are the source's tables. One without a Version holds one row per cell; one with a Version holds several.
	Tables []replicator.Table

	// Views are the sink's views. Their fields are one-step paths ("email", "tags[]") into bodies that the suite
	// generates.
	Views []*replicator.View

	// New returns a sink on the same stored data at each call, as another process would.
	New func(t testing.TB) replicator.Sink

	// Read returns a view's content, without the sink's help. An index maps EntryID (fields and key as text) to "". A
	// row, hash, JSON or document view maps each key to RowText (the fields as text). A counter maps EntryID of the
	// group to the amount, and a ranking maps EntryID of the key and the member to the amount.
	Read func(t testing.TB, v *replicator.View) map[string]string

	// Entry makes the entry of a cell in a view from the fields, for kinds of views whose entries need a Key or a Member.
	// It returns false if the view has no entry for the cell. If Entry is nil, entries have only Fields.
	Entry func(v *replicator.View, c replicator.Cell, fields []any) (replicator.Entry, bool)

	// Property generates a property's value. nil: short texts, and small integers for a view's Sum.
	Property func(r *rand.Rand, name string) any

	// Bad has values, by property, that the sink must reject. nil: rejections are not tested.
	Bad map[string]any

	// SetMark changes a view's mark in the sink's storage; a nil mark removes it. A nil func: losses are not tested.
	SetMark func(t testing.TB, source, view string, at *replicator.Standing)

	// DamageMark makes a view's mark in the sink's storage unreadable. A nil func: damaged marks are not tested.
	DamageMark func(t testing.TB, source, view string)

	// Plant adds entries to what a view shows for a cell, and Remove removes what it shows. Both use plain commands, as
	// an operator would. In a counter or a ranking, they replace or remove a whole sum. If several cells of an entity
	// feed a view, both are called for each cell, with the same entries. nil: no view is changed by hand.
	Plant, Remove func(t testing.TB, v *replicator.View, c replicator.Cell, entries []replicator.Entry)

	// Search is for a sink whose readers see changes only after a refresh (replicator.Refresher). It returns what a
	// reader sees of a view, in Read's form. nil: readers see what Read returns.
	Search func(t testing.TB, v *replicator.View) map[string]string

	// Interrupted reports whether an error of Apply may have left the batch applied in part, as a lost connection does. If
	// Interrupted is set, random histories only check the views at their end. nil: Apply never fails.
	Interrupted func(err error) bool

	// Remembers means that the targets forget nothing, although they are Forgetters.
	Remembers bool

	// Histories is how many histories to run by default (see the flag -sinktest.histories).
	Histories int
}

// EntryID returns the id of an entry in the map that Subject.Read returns: the fields as text, and then the key.
func EntryID(fields []any, key string) string {
	parts := make([]string, len(fields))
	for i, f := range fields {
		parts[i] = replicator.FormatValue(f)
	}
	return strings.Join(parts, ", ") + separator + key
}

const separator = " → "

// RowText formats a row's fields for Subject.Read. It omits nil fields.
func RowText(v *replicator.View, fields []any) string {
	var parts []string
	for i, f := range fields {
		if f != nil {
			parts = append(parts, v.Fields[i].Name+"="+replicator.FormatValue(f))
		}
	}
	return strings.Join(parts, ", ")
}

// body is a row's content: its properties by name. A nil body means no row.
type body map[string]any

// A row with the property hidden contributes nothing to any view, as if each view's condition excluded the row. The
// property unreadable names a view: the row's contribution to that view can't be computed.
const (
	hidden     = "hidden"
	unreadable = "unreadable"
)

func (s *Subject) table(name string) *replicator.Table {
	i := slices.IndexFunc(s.Tables, func(t replicator.Table) bool { return t.Name == name })
	return &s.Tables[i]
}

// feeds returns what the views read, each once: a table and, if the table has a column role, one value of that column.
// For a view that reads all values, the value is "any".
func (s *Subject) feeds() []replicator.Feed {
	var feeds []replicator.Feed
	for _, v := range s.Views {
		for _, f := range v.From {
			if s.table(f.Table).Column != "" && f.Column == "" {
				f.Column = "any"
			}
			if !slices.Contains(feeds, f) {
				feeds = append(feeds, f)
			}
		}
	}
	return feeds
}

func (s *Subject) properties() []string {
	names := map[string]bool{}
	for _, v := range s.Views {
		for _, f := range v.Fields {
			if f.Path != "" && f.Path[0] != '$' && f.Path[0] != '=' {
				names[f.Path] = true
			}
		}
		if v.Sum != "" {
			names[v.Sum] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// property generates a value for a path: a list if the path ends in [].
func (s *Subject) property(r *rand.Rand, path string) any {
	one := func(name string) any {
		if s.Property != nil {
			return s.Property(r, name)
		}
		if slices.ContainsFunc(s.Views, func(v *replicator.View) bool { return v.Sum == name }) {
			return int64(r.IntN(7) - 2)
		}
		if r.IntN(2) == 0 { // often one of three values, so that a change of version does not always change the value
			return fmt.Sprintf("%s%d", name, r.IntN(3))
		}
		return fmt.Sprintf("%s%d", name, r.IntN(1e6))
	}
	name, isList := strings.CutSuffix(path, "[]")
	if !isList {
		return one(name)
	}
	list := make([]any, r.IntN(4))
	for i := range list {
		list[i] = one(name)
	}
	return list
}

func (s *Subject) body(r *rand.Rand) body {
	b := body{}
	for _, path := range s.properties() {
		if r.IntN(5) > 0 {
			b[path] = s.property(r, path)
		}
	}
	if r.IntN(10) == 0 {
		b[hidden] = true
	}
	if r.IntN(20) == 0 {
		b[unreadable] = s.Views[r.IntN(len(s.Views))].Name
	}
	return b
}

func (s *Subject) entries(v *replicator.View, c replicator.Cell, b body) []replicator.Entry {
	if b == nil || b[hidden] != nil || b[unreadable] == v.Name {
		return nil
	}
	rows := [][]any{{}}
	for _, f := range v.Fields {
		values := []any{b[f.Path]}
		if strings.HasSuffix(f.Path, "[]") {
			values, _ = b[f.Path].([]any)
		}
		if f.Path == "" { // a counter without a Sum: each row counts 1
			values = []any{int64(1)}
		}
		var longer [][]any
		for _, row := range rows {
			for _, value := range values {
				longer = append(longer, append(slices.Clone(row), value))
			}
		}
		rows = longer
	}
	var entries []replicator.Entry
	for _, fields := range rows {
		entry, ok := replicator.Entry{Fields: fields}, true
		if s.Entry != nil {
			entry, ok = s.Entry(v, c, fields)
		}
		if ok {
			entries = append(entries, entry)
		}
	}
	return entries
}

// values returns what a cell with this body contributes to each view that it feeds.
func (s *Subject) values(c replicator.Cell, b body) []replicator.Value {
	var values []replicator.Value
	for i, v := range s.Views {
		if !v.Feeds(c) {
			continue
		}
		value := replicator.Value{View: i, Entries: s.entries(v, c, b)}
		if b[unreadable] == v.Name {
			value.Err = fmt.Errorf("made up: can't be computed")
		}
		values = append(values, value)
	}
	return values
}

type contribution struct {
	cell    replicator.Cell
	entries []replicator.Entry
}

// contents computes a view's content from its newest cells: what Subject.Read must return.
func contents(v *replicator.View, from []contribution) map[string]string {
	out := map[string]string{}
	switch v.Kind {
	case "index":
		for _, c := range from {
			for _, e := range c.entries {
				if id, ok := entryID(e, c.cell); ok {
					out[id] = ""
				}
			}
		}
	case "counter", "ranking":
		sums := map[string]int64{}
		for _, c := range from {
			for _, e := range c.entries {
				last := len(e.Fields) - 1
				if e.Key == "" && slices.Contains(e.Fields[:last], nil) {
					continue // the entry has no group
				}
				id := EntryID(e.Fields[:last], "")
				if e.Key != "" {
					id = e.Key + separator + e.Member
				}
				if n, ok := e.Fields[last].(int64); ok {
					sums[id] += n
				}
			}
		}
		for id, n := range sums {
			if n != 0 || v.Kind == "ranking" { // a counter of 0 is removed, a score of 0 is not
				out[id] = replicator.FormatValue(n)
			}
		}
	default:
		mergeRows(v, from, out)
	}
	return out
}

// entryID returns the name of an index entry. It returns false if a field is missing, because such an entry doesn't
// exist.
func entryID(e replicator.Entry, c replicator.Cell) (string, bool) {
	if e.Key != "" {
		member := e.Member
		if member == "" {
			member = c.Key.String()
		}
		return e.Key + separator + member, true
	}
	if slices.Contains(e.Fields, nil) {
		return "", false
	}
	return EntryID(e.Fields, c.Key.String()), true
}

// mergeRows merges all cells of a key into one row: each field has the value from the first feed that has one.
func mergeRows(v *replicator.View, from []contribution, out map[string]string) {
	from = slices.Clone(from)
	slices.SortFunc(from, func(a, b contribution) int {
		return cmp.Or(cmp.Compare(v.Feed(a.cell), v.Feed(b.cell)), cmp.Compare(a.cell.Column, b.cell.Column))
	})
	rows := map[string][]any{}
	for _, c := range from {
		for _, e := range c.entries {
			id := c.cell.Key.String()
			if e.Key != "" {
				id = e.Key
			}
			row, ok := rows[id]
			if !ok {
				row = make([]any, len(v.Fields))
				rows[id] = row
			}
			for i, f := range e.Fields {
				if row[i] == nil {
					row[i] = f
				}
			}
		}
	}
	for id, row := range rows {
		if text := RowText(v, row); text != "" || v.Kind != "hash" { // a hash without fields does not exist
			out[id] = text
		}
	}
}

// shared reports whether several cells of one key feed a view.
func (s *Subject) shared(v *replicator.View) bool {
	return len(v.From) > 1 || (v.From[0].Column == "" && s.table(v.From[0].Table).Column != "")
}
