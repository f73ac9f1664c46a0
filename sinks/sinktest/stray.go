package sinktest

import (
	"slices"
	"testing"

	"replicator"
)

// byHand calls the subject's Plant or Remove with the entries that a cell with this body contributes to a view.
func (f *fixture) byHand(change change, v *replicator.View, c replicator.Cell, b body) {
	f.t.Helper()
	if entries := f.s.entries(v, c, b); len(entries) > 0 {
		change(f.t, v, c, entries)
	}
}

type change = func(testing.TB, *replicator.View, replicator.Cell, []replicator.Entry)

// strays returns a view's strays (entries that came from no cell), each once.
func (f *fixture) strays(tidier replicator.Tidier, view int) (all []replicator.Stray) {
	f.t.Helper()
	read := func(after string, limit int) ([]replicator.Stray, string, error) {
		return tidier.Strays(f.t.Context(), view, after, limit)
	}
	walk(f, "Strays", 2, read, func(found []replicator.Stray) {
		for _, s := range found {
			if !slices.Contains(all, s) {
				all = append(all, s)
			}
		}
	})
	return all
}

// tidy removes or corrects a view's entries that came from no cell.
func (f *fixture) tidy(tidier replicator.Tidier, view int) {
	f.t.Helper()
	strays := f.strays(tidier, view)
	mended, err := tidier.Tidy(f.t.Context(), view, strays)
	if err != nil || mended != len(strays) {
		f.t.Fatalf("of %d strays in view %s, %d were removed: %v", len(strays), f.s.Views[view].Name, mended, err)
	}
	if left := f.strays(tidier, view); len(left) > 0 {
		f.t.Fatalf("view %s still has the strays %v", f.s.Views[view].Name, left)
	}
	if mended, err := tidier.Tidy(f.t.Context(), view, strays); err != nil || mended > 0 {
		f.t.Fatalf("of the removed strays in view %s, %d were removed again: %v", f.s.Views[view].Name, mended, err)
	}
}

// testStrays adds entries by hand that no cell made. The sink must list each of them (in Unclaimed, Held or Strays).
// Tidy and a re-read of the listed cells must then remove these entries, and nothing else.
func testStrays(f *fixture) {
	tidier, ok := f.target.(replicator.Tidier)
	if !ok || f.s.Plant == nil {
		f.t.Skip("the target is not a replicator.Tidier, or Subject.Plant is nil")
	}
	const known, claimed, ghost = 0, 1, 2
	f.spread(3)
	b := f.fresh(3)
	f.apply(f.puts(5, 50, map[int]body{known: b[known]})...)
	for _, v := range f.s.Views {
		for _, entity := range []int{claimed, ghost} {
			for _, c := range f.of(entity) {
				if v.Feeds(c) {
					f.byHand(f.s.Plant, v, c, b[entity])
				}
			}
		}
	}
	strays, suspects := make([][]replicator.Stray, len(f.s.Views)), map[replicator.Cell]bool{}
	for i, v := range f.s.Views {
		strays[i] = f.strays(tidier, i)
		// Unclaimed may correct a counter's sums, and so remove strays. So it comes after f.strays.
		var cells []replicator.Cell
		for _, limit := range limits {
			cells = append(cells, f.cellsOf("Unclaimed", limit, f.unclaimed(tidier, i))...)
		}
		for _, c := range f.cellsOf("Held", 2, f.held(i)) {
			if f.entity(c.Key) != known {
				cells = append(cells, c)
			}
		}
		f.told(v, b, cells, strays[i])
		for _, c := range cells {
			suspects[c] = true
		}
	}
	f.apply(f.puts(5, 50, map[int]body{claimed: b[claimed]})...) // the cell's own entry replaces the planted one
	for i, v := range f.s.Views {
		if mended, err := tidier.Tidy(f.t.Context(), i, strays[i]); err != nil || mended > len(strays[i]) {
			f.t.Fatalf("of %d strays in view %s, %d were removed: %v", len(strays[i]), v.Name, mended, err)
		}
		f.tidy(tidier, i)
	}
	f.differ("without the strays", f.looks(5, 70, map[int]body{known: b[known], claimed: b[claimed]}), nil)
	var ops []replicator.Op
	for c := range suspects {
		op := f.reset(c, replicator.NoVersion, 60, nil)
		if slices.Contains(f.of(claimed), c) {
			op = f.reset(c, 5, 60, b[claimed])
		}
		op.Rewrite = true
		ops = append(ops, op)
	}
	f.apply(ops...)
	f.showsOf("without the strays", map[int]body{known: b[known], claimed: b[claimed]})
}

// told checks that the sink reported every planted entry as a cell, as a stray, or as both, and reported nothing else.
// Entries are planted for all entities but the first.
func (f *fixture) told(v *replicator.View, bodies []body, cells []replicator.Cell, strays []replicator.Stray) {
	f.t.Helper()
	var left []contribution
	planted := 0
	for entity, b := range bodies[1:] {
		for _, c := range f.of(entity + 1) {
			isOf := func(told replicator.Cell) bool { return told.Key == c.Key && v.Feeds(told) }
			if !v.Feeds(c) {
				continue
			}
			entries := f.s.entries(v, c, b)
			if planted += len(entries); !slices.ContainsFunc(cells, isOf) {
				left = append(left, contribution{c, entries})
			}
		}
	}
	if want := contents(v, left); len(strays) != len(want) && (len(want) > 0 || len(strays) > planted) {
		f.t.Fatalf("of the strays planted in view %s, Unclaimed and Held list the cells %v, Strays lists %v, want\n%s",
			v.Name, cells, strays, list(want))
	}
	for _, c := range cells {
		if f.entity(c.Key) <= 0 {
			f.t.Fatalf("Unclaimed returns %[2]s of view %[1]s, whose entries all come from cells", v.Name, c)
		}
	}
}

func (f *fixture) unclaimed(tidier replicator.Tidier, view int) page[replicator.Cell] {
	return func(after string, limit int) ([]replicator.Cell, string, error) {
		return tidier.Unclaimed(f.t.Context(), view, after, limit)
	}
}
