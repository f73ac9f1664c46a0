package sinktest

import (
	"errors"
	"maps"
	"slices"

	"replicator"
)

func testSources(f *fixture) {
	c := f.cells[0]
	f.apply(f.put(c, 5, 50, f.body()))
	other := open(f.t, f.s, "other", f.s.Views)
	versions, err := other.Versions(f.t.Context(), []replicator.Cell{c})
	if err != nil || versions[0].Highest != replicator.NoVersion {
		f.t.Fatalf("another source's cell has the versions %v (%v)", versions, err)
	}
}

// testLooksOfOtherSources re-reads a cell that another source put. The re-read finds no row in its own source, and must
// remove nothing. The same holds for the late delete of an entity that has moved to another source.
func testLooksOfOtherSources(f *fixture) {
	if _, ok := f.target.(replicator.Tidier); !ok { // a sink without this interface keeps each source's cells apart
		f.t.Skip("not for this sink: its target is no Tidier, so it keeps each source's cells apart")
	}
	one, other := open(f.t, f.s, "one", f.s.Views), open(f.t, f.s, "other", f.s.Views)
	apply := func(target replicator.Target, op replicator.Op) {
		f.t.Helper()
		if _, err := target.Apply(f.t.Context(), []replicator.Op{op}); err != nil {
			f.t.Fatalf("Apply: %v", err)
		}
	}
	c, b := f.cells[0], f.body()
	apply(one, f.put(c, 5, 50, b))
	for i, rewrite := range []bool{true, false, true} {
		look := f.reset(c, replicator.NoVersion, 60+int64(i), nil)
		look.Rewrite = rewrite
		apply(other, look)
		f.shows("after another source re-read a cell", map[replicator.Cell]body{c: b})
	}
	apply(one, f.reset(c, replicator.NoVersion, 70, nil))
	f.shows("after its own source re-read a cell", nil)

	var cells []replicator.Cell // cells of the same entity as c, in the same table
	for _, feed := range f.s.feeds() {
		if cell := (replicator.Cell{Table: feed.Table, Column: feed.Column, Key: c.Key}); feed.Table == c.Table &&
			!slices.Contains(cells, cell) {
			cells = append(cells, cell)
		}
	}
	moved := map[replicator.Cell]body{}
	for _, cell := range cells {
		moved[cell] = f.body()
		apply(one, f.put(cell, 5, 80, f.body()))
	}
	for _, cell := range cells {
		apply(other, f.put(cell, 1, 80, moved[cell]))
	}
	for _, cell := range cells {
		apply(one, f.reset(cell, replicator.NoVersion, 90, nil))
	}
	f.shows("after an entity moved, and its former source deleted its rows", moved)
	for _, cell := range cells {
		apply(other, f.reset(cell, replicator.NoVersion, 90, nil))
	}
	f.shows("after the entity's new source deleted its rows, too", nil)
}

type side struct {
	target replicator.Target
	bodies map[int]body
}

// testMoved compares two sources with the views after an entity moved from one to the other. Compare must not report
// that the first source has no row now. If neither source has the row that is shown, one of the two comparisons must
// find that.
func testMoved(f *fixture) {
	if _, ok := f.target.(replicator.Tidier); !ok { // a sink without this interface keeps each source's cells apart
		f.t.Skip("not for this sink: its target is no Tidier, so it keeps each source's cells apart")
	}
	const moved, stayed, there = 0, 1, 2
	f.spread(3)
	b := f.fresh(5)
	one := side{open(f.t, f.s, "one", f.s.Views), map[int]body{moved: b[moved], stayed: b[stayed]}}
	other := side{open(f.t, f.s, "other", f.s.Views), map[int]body{moved: b[3], there: b[there]}}
	f.target = one.target
	f.apply(f.puts(5, 50, one.bodies)...)
	f.target = other.target
	f.try(f.puts(5, 50, other.bodies)...)
	f.showsOf("while both sources have one entity", map[int]body{moved: b[moved], stayed: b[stayed], there: b[there]})
	f.verifies("while both sources have one entity", f.everywhere(
		map[int]replicator.DifferenceKind{moved: replicator.Dead}), one, other)
	f.target = one.target
	f.apply(f.looks(5, 60, map[int]body{moved: nil})...)
	delete(one.bodies, moved)
	shown := map[int]body{moved: b[3], stayed: b[stayed], there: b[there]}
	f.showsOf("after an entity moved to another source", shown)
	f.verifies("after an entity moved to another source", nil, one, other)
	other.bodies = map[int]body{moved: b[4]}
	f.verifies("after unread changes of the other source: one entity changed, and one was deleted", f.everywhere(
		map[int]replicator.DifferenceKind{moved: replicator.Stale, there: replicator.Extra}), one, other)
	one.bodies, other.bodies = map[int]body{stayed: b[moved]}, nil
	f.verifies("after unread changes of both sources", f.everywhere(
		map[int]replicator.DifferenceKind{
			moved: replicator.Extra, stayed: replicator.Stale, there: replicator.Extra}), one, other)

	// Both sources have put the entity `moved`, and neither has a row of it now. Views show the row of the source "other"
	// until a verify of "other" removes it. Then they show the row of the source "one" until a verify of "one" removes it.
	f.target = one.target
	f.try(f.puts(6, 70, map[int]body{moved: b[moved]})...)
	for _, s := range []side{other, one} {
		for view, ops := range f.verified(s) {
			if v := f.s.Views[view].Name; f.differences(ops)[at{v, moved}] == "" {
				f.t.Fatalf("Compare with a source that no longer has a cell finds no difference in view %s", v)
			}
			f.apply(ops...)
		}
	}
	f.showsOf("after both sources were verified and repaired", one.bodies)
	f.verifies("after both sources were repaired", nil, one, other)
	f.target = one.target
	f.apply(f.looks(5, 99, map[int]body{stayed: nil})...)
}

// verified returns, for each view, what a verify of one source re-reads: the cells that the source has, and those that
// Held lists.
func (f *fixture) verified(s side) [][]replicator.Op {
	f.t.Helper()
	f.target = s.target
	looks := make([][]replicator.Op, len(f.s.Views))
	for i, v := range f.s.Views {
		bodies := map[int]body{}
		maps.Copy(bodies, s.bodies)
		for _, c := range f.cellsOf("Held", 3, f.held(i)) {
			if entity := f.entity(c.Key); entity >= 0 {
				bodies[entity] = s.bodies[entity]
			}
		}
		for _, op := range f.looks(9, 90, bodies) {
			if op.Rewrite = true; v.Feeds(op.Cell) {
				op.Values = slices.DeleteFunc(op.Values, func(value replicator.Value) bool { return value.View != i })
				looks[i] = append(looks[i], op)
			}
		}
	}
	return looks
}

// verifies compares the views with the rows of each source in `sides`. It fails the test unless the comparisons find
// exactly the expected differences.
func (f *fixture) verifies(when string, want map[at]replicator.DifferenceKind, sides ...side) {
	f.t.Helper()
	found := map[at]replicator.DifferenceKind{}
	for _, s := range sides {
		for _, ops := range f.verified(s) {
			maps.Copy(found, f.differences(ops))
		}
	}
	if !maps.Equal(found, want) {
		f.t.Fatalf("%s: Compare finds %v, want %v", when, found, want)
	}
}

// testSourcesOfUnlikeTables opens the views for two sources whose tables differ in a collation, and so in a part of the
// views' fingerprints. Contents that belong to all sources, such as a counter's sums, must stay.
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
				f.t.Fatalf("%s, Marks returns %d marks of source %s (%v), want %d", when, len(marks), source, err,
					len(of[source]))
			}
			for _, m := range marks {
				if want := of[source][0].Fingerprint; m.Fingerprint != want {
					f.t.Errorf("%s, the mark of view %s for source %s has the fingerprint %s, want %s", when, m.View,
						source, m.Fingerprint, want)
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
	f.shows("after both sources deleted their cells", held)
}
