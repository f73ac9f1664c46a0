package sinktest

import (
	"slices"

	"replicator"
)

// limits are page sizes: one below the number of items, for several pages, and one above.
var limits = []int{3, 1000}

func testHeld(f *fixture) {
	f.spread(7)
	bodies := f.fresh(7)
	const gone, none = 3, 5
	bodies[none][hidden] = true
	newest := map[int]body{}
	for entity, b := range bodies {
		newest[entity] = b
	}
	f.apply(f.puts(5, 50, newest)...)
	newest[gone] = nil
	f.apply(f.looks(5, 60, map[int]body{gone: nil})...)
	for i, v := range f.s.Views {
		var want []replicator.Key
		for _, c := range f.cells {
			if v.Feeds(c) && len(f.s.entries(v, c, newest[f.entity(c.Key)])) > 0 && !slices.Contains(want, c.Key) {
				want = append(want, c.Key)
			}
		}
		slices.Sort(want)
		for _, limit := range limits {
			var got []replicator.Key // Held may list any of an entity's cells
			for _, c := range f.cellsOf("Held", limit, f.held(i)) {
				if !v.Feeds(c) {
					f.t.Fatalf("Held lists entries of view %s for cell %s, which does not feed it", v.Name, c)
				}
				got = append(got, c.Key)
			}
			slices.Sort(got)
			if got = slices.Compact(got); !slices.Equal(got, want) {
				f.t.Fatalf("in pages of %d Held lists entries of view %s for the cells %v, want %v", limit, v.Name, got, want)
			}
		}
	}
}

// testOutdated finds the cells to which nothing was applied since a log position, and then reconciles deletes: it
// re-reads these cells and applies the result, each page before it asks for the next.
func testOutdated(f *fixture) {
	const before = 60
	f.spread(9)
	bodies := map[int]body{}
	for entity, b := range f.fresh(9) {
		bodies[entity] = b
	}
	// Views show nothing of entity 4, but Outdated must list its cells, too. Their newest row may have been deleted
	// while no process read the log. The state still has that row's version then. So a scan's put of the row that is
	// left, with a lower version, stays stale until the cell is re-read.
	bodies[4][hidden] = true
	f.apply(f.puts(5, before-10, bodies)...)
	f.apply(f.puts(5, before, map[int]body{1: bodies[1]})...)
	f.apply(f.looks(5, before, map[int]body{2: bodies[2]})...)
	f.apply(f.looks(5, before-5, map[int]body{3: nil})...)
	if a := f.try(f.puts(4, before+1, map[int]body{5: bodies[5]})...); len(a.Stale) != len(f.of(5)) {
		f.t.Fatalf("Apply returns %+v for older ops, want all stale", a)
	}
	f.apply(f.puts(5, before-1, map[int]body{6: bodies[6]})...)
	f.apply(f.puts(6, before+9, map[int]body{7: bodies[7]})...)
	delete(bodies, 3)
	var want []replicator.Cell
	for _, entity := range []int{0, 4, 5, 6, 8} {
		want = append(want, f.of(entity)...)
	}
	f.find("after a fill", before, want)
	f.target = open(f.t, f.s, f.source, f.s.Views)
	swept := map[replicator.Cell]bool{}
	walk(f, "Outdated", 3, f.outdated(before), func(found []replicator.Cell) {
		var ops []replicator.Op
		for _, c := range found {
			if !swept[c] {
				swept[c] = true
				b := bodies[f.entity(c.Key)]
				if f.entity(c.Key) == 8 {
					b = nil
				}
				op := f.reset(c, 5, before+20, b)
				if b == nil {
					op.Version = replicator.NoVersion
				}
				ops = append(ops, op)
			}
		}
		f.apply(ops...)
	})
	for _, c := range want {
		if !swept[c] {
			f.t.Fatalf("%s is no longer listed after other cells were re-read", c)
		}
	}
	delete(bodies, 8)
	f.find("after deletes were reconciled", before, nil)
	f.showsOf("after deletes were reconciled", bodies)
}

// find fails the test unless Outdated lists exactly the expected cells, whatever the page size.
func (f *fixture) find(when string, before int64, want []replicator.Cell) {
	f.t.Helper()
	for _, limit := range limits {
		got := f.cellsOf("Outdated", limit, f.outdated(before))
		for _, c := range got {
			if !slices.Contains(want, c) {
				f.t.Fatalf("%s: %s is outdated, in pages of %d, and should not be", when, c, limit)
			}
		}
		for _, c := range want {
			if !slices.Contains(got, c) {
				f.t.Fatalf("%s: %s is not outdated, in pages of %d, and should be", when, c, limit)
			}
		}
	}
}
