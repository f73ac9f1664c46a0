package sinktest

import (
	"errors"

	"replicator"
)

// Shards' tables may differ in a collation, so that a view's fingerprint does in its tables' part: one at MySQL and one
// at MariaDB, or while an ALTER goes through them one by one. What the sources share, as a counter's sums or an index of
// documents, is of them all, and none begins it anew.
func testSourcesOfUnlikeTables(f *fixture) {
	of := map[string][]*replicator.View{}
	for source, tables := range map[string]string{"west": ".mMySQL-01", "east": ".mMaria-01"} {
		for _, v := range f.s.Views {
			its := *v
			its.Fingerprint += tables
			of[source] = append(of[source], &its)
		}
	}
	c, d, b := f.cells[0], f.cells[1], f.fresh(2)
	f.apply(f.put(f.cells[2], 3, 40, b[0]))
	held := map[replicator.Cell]body{f.cells[2]: b[0], c: b[1], d: f.body()}
	for _, when := range []string{"at first", "opened again"} {
		for i, source := range []string{"west", "east", "west"} {
			target := open(f.t, f.s, source, of[source])
			cell := []replicator.Cell{c, d, c}[i]
			if _, err := target.Apply(f.t.Context(), []replicator.Op{f.put(cell, 5, 50, held[cell])}); err != nil {
				f.t.Fatalf("Apply of %s, %s: %v", source, when, err)
			}
			sink := f.s.New(f.t)
			marks, err := sink.Marks(f.t.Context(), source)
			if err = errors.Join(err, sink.Close()); err != nil || len(marks) != len(of[source]) {
				f.t.Fatalf("%d marks of %s, %s (%v)", len(marks), source, when, err)
			}
			for _, m := range marks {
				if want := of[source][0].Fingerprint; m.Fingerprint != want {
					f.t.Errorf("the mark of view %s for %s has fingerprint %s, %s, not %s", m.View, source, m.Fingerprint, when, want)
				}
			}
		}
		f.shows("after sources whose tables differ put one each, "+when, held)
	}
	for source, cell := range map[string]replicator.Cell{"west": c, "east": d} {
		if _, err := open(f.t, f.s, source, of[source]).Apply(f.t.Context(),
			[]replicator.Op{f.reset(cell, replicator.NoVersion, 60, nil)}); err != nil {
			f.t.Fatal(err)
		}
	}
	delete(held, c)
	delete(held, d)
	f.shows("after they deleted them", held)
}
