package mysql

import (
	"fmt"
	"testing"

	"replicator"
	"replicator/sinks/judge"
)

// What a batch costs without its server: values are converted, states read, ops judged, states written.
func BenchmarkDecide(b *testing.B) {
	fields := []int{1, 1, 4, 2} // by view: two indexes, a row, and a row that several cells share
	t := &Target{server: &server{packet: 64 << 20}, retired: map[uint32]bool{}, shared: true}
	for i, n := range fields {
		k := &keeper{
			view:  &replicator.View{Name: fmt.Sprint("v", i), From: []replicator.Feed{{Table: "cell", Column: "users"}}},
			place: i, id: uint32(i + 1), salt: salt("0123456789abcdef"), kind: rowKind{}, keyOf: []int{0}, shared: i == 3,
			keys: []*column{textColumn("row_key")},
		}
		for f := range n {
			k.fields = append(k.fields, textColumn(fmt.Sprint("f", f)))
		}
		if n == 1 {
			k.kind = indexKind{}
		}
		t.kept = append(t.kept, k)
	}
	batch := func(version int64) (ops []replicator.Op) {
		for n := range 500 {
			key, err := replicator.MakeKey(fmt.Sprintf("user %09d", n))
			if err != nil {
				b.Fatal(err)
			}
			op := replicator.Op{Cell: replicator.Cell{Table: "cell", Column: "users", Key: key},
				Version: version, Order: version}
			for v := range fields {
				var e replicator.Entry
				for f := range fields[v] {
					e.Fields = append(e.Fields, fmt.Sprintf("value %d %d %d", n, f, version))
				}
				op.Values = append(op.Values, replicator.Value{View: v, Entries: []replicator.Entry{e}})
			}
			ops = append(ops, op)
		}
		return ops
	}
	stored := map[string]string{}
	decide := func(ops []replicator.Op) []*item {
		judged := judge.NewBatch(ops)
		var items []*item
		states := &batchStates{own: heldStates{}}
		converter := t.newConverter(ops)
		for i := range ops {
			it := converter.convert(i)
			items = append(items, it)
			if stored[it.entity] != "" {
				state, err := parseState(stored[it.entity])
				if err != nil {
					b.Fatal(err)
				}
				states.own[it.entity] = []heldState{{cell: it.cell, views: state, stored: stored[it.entity]}}
			}
			if err := it.decide(judged, states.own.of(it.entity, it.cell).views, states, t.retired); err != nil {
				b.Fatal(err)
			}
		}
		for _, k := range t.kept {
			if _, err := t.changes(k, items, states, nil, false); err != nil {
				b.Fatal(err)
			}
		}
		return items
	}
	for _, it := range decide(batch(10)) {
		stored[it.entity] = string(it.after.append(nil))
	}
	ops := batch(11)
	b.ReportAllocs()
	for b.Loop() {
		for _, it := range decide(ops) {
			it.after.append(make([]byte, 0, 128))
		}
	}
}

func textColumn(name string) *column {
	return &column{name: name, quoted: "`" + name + "`", typ: "varchar", chars: 200, charset: "utf8mb4", nullable: true}
}
