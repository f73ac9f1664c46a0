package sinktest

import (
	"slices"

	"replicator"
)

// dead checks that a cell with this body is a dead letter in these views, and is right in the others.
func (f *fixture) dead(c replicator.Cell, version int64, b body, views ...int) {
	f.t.Helper()
	for i := range f.s.Views {
		if found := slices.Contains(f.listed(i), c); found != slices.Contains(views, i) {
			f.t.Fatalf("a cell is a dead letter in views %v. Dead lists it for view %d: %v", views, i, found)
		}
	}
	const asOf = firstOrder - 2
	// A re-read's version is that of the row. If log positions are the versions, it is asOf.
	for _, version := range []int64{version, asOf} {
		differences, err := f.target.Compare(f.t.Context(), []replicator.Op{f.reset(c, version, asOf, b)})
		if err != nil {
			f.t.Fatalf("Compare: %v", err)
		}
		var found []int
		for _, d := range differences {
			if found = append(found, d.View); d.Kind != replicator.Dead {
				f.t.Fatalf("for a cell that is a dead letter in views %v, Compare returns %+v", views, d)
			}
		}
		if slices.Sort(found); !slices.Equal(found, views) {
			f.t.Fatalf("a cell is a dead letter in views %v, but Compare reports that for views %v", views, found)
		}
	}
}

// testDead checks that a process that opens the sink later finds the dead letters, even if the store has lost them.
// Apply reports a cell's dead letter also for an op that is stale.
func testDead(f *fixture) {
	c := f.cells[0]
	fed := func(v *replicator.View) bool { return v.Feeds(c) }
	view := slices.IndexFunc(f.s.Views, fed)
	none := func(when string) {
		f.t.Helper()
		for i := range f.s.Views {
			if cells := f.listed(i); len(cells) > 0 {
				f.t.Fatalf("%s: Dead lists the cells %v for view %d, want none", when, cells, i)
			}
		}
	}
	none("before any cell was put")
	good, bad := f.body(), f.body()
	bad[unreadable] = f.s.Views[view].Name
	for i, end := range []replicator.Op{f.put(c, 6, 60, good), f.reset(c, replicator.NoVersion, 60, nil),
		f.reset(c, 4, 60, good)} {
		f.clear()
		f.base++ // the loop below gives the cells new keys
		for n := range f.cells {
			f.cells[n].Key = keyOf(f.s.table(c.Table), f.base<<8+int64(i), int64(n))
		}
		var ops []replicator.Op
		for _, other := range f.cells {
			ops = append(ops, f.put(other, 5, 50, bad))
		}
		f.apply(ops...)
		f.target = open(f.t, f.s, f.source, f.s.Views)
		for _, other := range f.cells {
			f.dead(other, 5, bad, view)
		}
		older := ops[0]
		older.Version, older.Order = 4, 40
		a := f.try(older)
		if len(a.Stale) != 1 || !slices.Equal(a.Dead, []replicator.ValueAt{{Op: 0, View: view}}) {
			f.t.Fatalf("Apply returns %+v for an op older than a dead letter in view %d, want stale and dead", a, view)
		}
		for n, other := range f.cells {
			end.Cell = other
			if f.apply(end); slices.Contains(f.listed(view), other) || len(f.listed(view)) != len(f.cells)-n-1 {
				f.t.Fatalf("Dead lists %v after a newer op of %v was applied", f.listed(view), other)
			}
		}
		if a := f.try(older); len(a.Stale) != 1 || len(a.Dead) > 0 {
			f.t.Fatalf("Apply returns %+v for an op older than the cell's state, want it only stale", a)
		}
		none("after newer ops")
	}
}
