package view

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"replicator"
)

// The model of a view with joins is the same view of one document, which contains the joined rows as objects and lists.

// joinWorld makes random rows of all tables.
type joinWorld struct{ rnd *rand.Rand }

// scalar returns a random value. There are few different values, so that some entries are equal.
func (w *joinWorld) scalar() any {
	return []any{nil, int64(w.rnd.IntN(3)), "a", "b", true}[w.rnd.IntN(5)]
}

// columns makes a row of a table without bodies, and the corresponding object of the document.
func (w *joinWorld) columns(table string, key int64) (*replicator.Row, map[string]any) {
	r := &replicator.Row{Cell: replicator.Cell{Table: table}, Names: []string{"id", "n", "s", "js"}}
	r.Cell.Key, _ = replicator.MakeKey(key)
	shown := map[string]any{"id": key}
	n, s := any(int64(w.rnd.IntN(5))), w.scalar()
	if w.rnd.IntN(5) == 0 {
		n = nil
	}
	list := make([]any, w.rnd.IntN(3))
	for i := range list {
		list[i] = w.scalar()
	}
	text, _ := json.Marshal(list)
	r.Columns = []any{key, n, s, replicator.RawJSON(text)}
	for i, name := range r.Names {
		if v := r.Columns[i]; v != nil {
			shown[name] = v
		}
	}
	shown["js"] = list
	return r, shown
}

// body makes a row of a table with bodies and one other column, and the corresponding object of the document.
func (w *joinWorld) body(table string, key int64) (*replicator.Row, map[string]any) {
	shown := map[string]any{"s": w.scalar(), "o": map[string]any{"n": w.scalar(), "l": []any{w.scalar(), w.scalar()}}}
	text, _ := json.Marshal(shown)
	r := &replicator.Row{Cell: replicator.Cell{Table: table}, Names: []string{"c"}, Columns: []any{int64(w.rnd.IntN(3))},
		Body: text}
	r.Cell.Key, _ = replicator.MakeKey(key)
	return r, shown
}

// found is a row that a lookup finds, and the corresponding object of the document.
type found struct {
	row   *replicator.Row
	shown map[string]any
}

// find makes the rows that a lookup finds.
func (w *joinWorld) find(l *replicator.Lookup) (all []found) {
	n := w.rnd.IntN(2)
	if l.Many {
		n = w.rnd.IntN(5)
	}
	if l.Limit > 0 {
		n = min(n, l.Limit)
	}
	for i := range n {
		make := w.columns
		if l.Table == "customers" {
			make = w.body
		}
		row, shown := make(l.Table, int64(i))
		all = append(all, found{row, shown})
	}
	return all
}

// shown returns the document's value for the name of a join, or nil if the join has no row.
func shown(j *replicator.Join, all []found) any {
	list := []any{}
	for _, f := range all {
		of := f.shown
		if number, is := of["n"].(int64); j.Where != "" && (!is || number < 2) {
			continue
		}
		if len(j.Fields) > 0 {
			of = map[string]any{}
			for name, from := range map[string]string{"renamed": "s", "n": "n"} {
				if v := f.shown[from]; v != nil {
					of[name] = v
				}
			}
		}
		list = append(list, of)
	}
	switch {
	case !j.Many:
		return append(list, nil)[0]
	case j.Limit > 0:
		return list[:min(len(list), j.Limit)]
	}
	return list
}

func (w *joinWorld) joins() []replicator.Join {
	items := replicator.Join{Name: "items", Table: "items", On: on("order_id", "", "id"), Many: true}
	some := items
	some.Name, some.Limit = "some", w.rnd.IntN(3)
	if w.rnd.IntN(3) > 0 {
		some.Where = "n >= 2"
	}
	if w.rnd.IntN(2) == 0 {
		items.Fields = []replicator.Field{{Name: "renamed", Path: "s"}, {Name: "n", Path: "$n"}}
	}
	companies := replicator.Join{Name: "company", Table: "companies", On: on("id", "customer", "c")}
	if w.rnd.IntN(2) == 0 {
		companies.Where = "n >= 2"
	}
	return []replicator.Join{companies, items, some,
		{Name: "customer", Table: "customers", On: on("id", "", "customer_id")},
		{Name: "friends", Table: "customers", On: on("c", "", "customer_id"), Many: true}}
}

func (w *joinWorld) path() string {
	paths := []string{"s", "customer.s", "customer.o.n", "customer.o.l[]", "customer.o.l[1]", "customer.o", "company.s",
		"company.n", "company.js[]", "company.js", "items[].n", "items[0].n", "some[].s", "some[].js[]", "some[].id",
		"friends[].s", "friends[].o.l[]", "friends[1].o.n", "=len(items)", "=len(some) + len(friends)", "=customer.s ?? 'none'",
		"=map(filter(some, .n != nil), .n * 2)", "=company.n == nil ? 0 : company.n", "customer", "items", "friends"}
	return paths[w.rnd.IntN(len(paths))]
}

func TestAJoinedViewIsTheViewOfOneDocument(t *testing.T) {
	tables := append(shopTables(), replicator.Table{Name: "document", Table: "document", Key: []string{"key"}, Body: "body",
		Codec: "json"})
	entries := 0
	for seed := range uint64(1000) {
		w := &joinWorld{rnd: rand.New(rand.NewPCG(seed, 44))}
		v := &replicator.View{Name: "v", Kind: []string{"row", "index", "counter"}[w.rnd.IntN(3)], From: from("orders", ""),
			Joins: w.joins()}
		for range 1 + w.rnd.IntN(3) {
			v.Fields = append(v.Fields, fields(w.path())...)
		}
		if v.Kind == "counter" {
			v.Fields, v.Sum = append(v.Fields, fields("=sum(map(some, .n))")...), "=sum(map(some, .n))"
		}
		v.Where = []string{"", "len(items) > 1", "customer.s == 'a'", "company.n != nil || len(some) > 0"}[w.rnd.IntN(4)]
		row, document := w.columns("orders", 7)
		row.Names = append(row.Names, "customer_id")
		row.Columns = append(row.Columns, int64(1))
		row.Joined = map[string][]*replicator.Row{}
		lookups, names := v.Lookups()
		byLookup := map[string][]found{} // several joins may share a lookup
		for i, name := range names {
			l := &lookups[i]
			if _, known := byLookup[l.ID]; !known {
				byLookup[l.ID] = w.find(l)
				row.Joined[l.ID] = nil
				for _, f := range byLookup[l.ID] {
					row.Joined[l.ID] = append(row.Joined[l.ID], f.row)
				}
			}
			if of := shown(&v.Joins[indexOfJoin(v, name)], byLookup[l.ID]); of != nil {
				document[name] = of
			}
		}
		model := *v
		model.Joins, model.From = nil, from("document", "")
		text, _ := json.Marshal(document)
		entries += compareModel(t, fmt.Sprintf("seed %d", seed), tables, v, row, &model, text)
	}
	if entries < 300 {
		t.Errorf("only %d entries were compared", entries)
	}
}

func indexOfJoin(v *replicator.View, name string) int {
	for i := range v.Joins {
		if v.Joins[i].Name == name {
			return i
		}
	}
	return -1
}

// compareModel evaluates a view and its model, checks that the entries are equal, and returns their number.
func compareModel(t *testing.T, what string, tables []replicator.Table, v *replicator.View, row *replicator.Row,
	model *replicator.View, document []byte) int {
	t.Helper()
	e, err := Compile([]*replicator.View{v}, tables, plainCodecs)
	if err != nil {
		if strings.Contains(err.Error(), "the join items has no field") {
			return 0
		}
		t.Fatalf("%s: %v", what, err)
	}
	m, err := Compile([]*replicator.View{model}, tables, plainCodecs)
	if err != nil {
		t.Fatalf("%s: the model: %v", what, err)
	}
	cell := replicator.Cell{Table: "document", Key: row.Cell.Key}
	got := e.Evaluate(row.Cell, row)[0]
	want := m.Evaluate(cell, &replicator.Row{Cell: cell, Body: document})[0]
	if (got.Err != nil) != (want.Err != nil) || got.Err == nil && !reflect.DeepEqual(got.Entries, want.Entries) {
		t.Fatalf("%s: %+v\nof %s\ngives  %s\nnot    %s", what, v, document, show(got), show(want))
	}
	return len(got.Entries)
}
