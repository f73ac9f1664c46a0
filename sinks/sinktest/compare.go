package sinktest

import (
	"maps"
	"slices"

	"replicator"
)

// at identifies an entity in a view, to which a difference belongs.
type at struct {
	view   string
	entity int
}

// differences returns what Compare finds, by view and entity. It fails the test if Compare reports different kinds for
// two cells of one entity.
func (f *fixture) differences(ops []replicator.Op) map[at]replicator.DifferenceKind {
	f.t.Helper()
	found, err := f.target.Compare(f.t.Context(), ops)
	if err != nil {
		f.t.Fatalf("Compare: %v", err)
	}
	kinds := map[at]replicator.DifferenceKind{}
	for _, d := range found {
		c, v := ops[d.Op].Cell, f.s.Views[d.View]
		place := at{v.Name, f.entity(c.Key)}
		if !v.Feeds(c) {
			f.t.Fatalf("Compare reports a difference for %s in view %s, which the cell does not feed: %+v", c, v.Name, d)
		}
		if kinds[place] != "" && kinds[place] != d.Kind {
			f.t.Fatalf("Compare reports %+v for %s in view %s, but %q for another cell of the same entity", d, c, v.Name,
				kinds[place])
		}
		kinds[place] = d.Kind
	}
	return kinds
}

func (f *fixture) differ(when string, ops []replicator.Op, want map[at]replicator.DifferenceKind) {
	f.t.Helper()
	if got := f.differences(ops); !maps.Equal(got, want) {
		f.t.Fatalf("%s: Compare finds %v, want %v", when, got, want)
	}
}

// everywhere returns what Compare should find if each entity has a given kind of difference in all views that it feeds.
func (f *fixture) everywhere(kinds map[int]replicator.DifferenceKind) map[at]replicator.DifferenceKind {
	all := map[at]replicator.DifferenceKind{}
	for entity, kind := range kinds {
		for _, c := range f.of(entity) {
			for _, v := range f.s.Views {
				if v.Feeds(c) {
					all[at{v.Name, entity}] = kind
				}
			}
		}
	}
	return all
}

func testCompare(f *fixture) {
	const right, missing, stale, extra, nothing = 0, 1, 2, 3, 4
	f.spread(5)
	b := f.fresh(5)
	applied := map[int]body{right: b[right], stale: b[stale], extra: b[extra]}
	f.apply(f.puts(5, 50, applied)...)
	f.differ("what was applied", f.looks(5, 70, applied), nil)
	ops := f.looks(5, 70, map[int]body{right: b[right], missing: b[missing], extra: nil, nothing: nil})
	ops = append(ops, f.looks(6, 70, map[int]body{stale: b[nothing]})...)
	f.differ("other than what was applied", ops, f.everywhere(map[int]replicator.DifferenceKind{
		missing: replicator.Missing, stale: replicator.Stale, extra: replicator.Extra,
	}))
	unreadableIn := f.s.Views[0].Name
	dead := map[int]body{right: maps.Clone(b[right])}
	dead[right][unreadable] = unreadableIn
	if got := f.differences(f.looks(5, 70, dead)); len(got) != 1 || got[at{unreadableIn, right}] != replicator.Extra {
		f.t.Fatalf("view %s can't compute the values, but Compare finds %v", unreadableIn, got)
	}
	found, err := f.target.Compare(f.t.Context(), ops)
	if err != nil {
		f.t.Fatalf("Compare: %v", err)
	}
	for _, d := range found {
		want := replicator.State{Version: 5, Order: 50}
		if f.entity(ops[d.Op].Cell.Key) == missing {
			want = replicator.Unseen
		}
		if len(d.States) == 0 || slices.ContainsFunc(d.States, func(s replicator.State) bool { return s != want }) {
			f.t.Fatalf("for %s Compare returns the state %+[3]v, want %+[2]v", ops[d.Op].Cell, want, d.States)
		}
	}
	f.showsOf("after it was compared", applied)
	f.differ("what was applied, once more", f.looks(5, 70, applied), nil)
}

func testByHand(f *fixture) {
	if f.s.Plant == nil || f.s.Remove == nil {
		f.t.Skip("Subject.Plant or Subject.Remove is nil, so nothing is changed by hand")
	}
	const right, missing, stale, extra = 0, 1, 2, 3
	tidier, tidies := f.target.(replicator.Tidier)
	for i, repair := range []func(bodies map[int]body) []replicator.Op{
		// like a rebuild in place: puts of all rows, and then re-reads of the cells that have none
		func(bodies map[int]body) []replicator.Op {
			there := maps.Clone(bodies)
			delete(there, extra)
			return append(f.puts(5, 50, there), f.looks(5, 60, map[int]body{extra: nil})...)
		},
		// like a verify with repair: a re-read of every cell
		func(bodies map[int]body) []replicator.Op { return f.looks(5, 80, bodies) },
	} {
		if i > 0 {
			f.clear()
		}
		f.base++
		f.spread(4)
		b := f.fresh(6)
		bodies := map[int]body{right: b[right], missing: b[missing], stale: b[stale], extra: b[extra]}
		f.apply(f.puts(5, 50, bodies)...)
		bodies[extra] = nil
		f.apply(f.looks(5, 60, map[int]body{extra: nil})...)
		want := map[at]replicator.DifferenceKind{}
		spoil := func(v *replicator.View, entity int, old, planted body, kind replicator.DifferenceKind) {
			for _, c := range f.of(entity) {
				if v.Feeds(c) {
					f.byHand(f.s.Remove, v, c, old)
					f.byHand(f.s.Plant, v, c, planted)
					want[at{v.Name, entity}] = kind
				}
			}
		}
		for _, v := range f.s.Views {
			spoil(v, missing, b[missing], nil, replicator.Missing)
			if tidies { // without a Tidier, nothing would remove the planted entries, which came from no cell
				spoil(v, stale, b[stale], b[4], replicator.Stale)
				spoil(v, extra, nil, b[5], replicator.Extra)
			}
		}
		ops := f.looks(5, 80, bodies)
		found := f.differences(ops)
		for place, kind := range want {
			i := slices.IndexFunc(f.s.Views, func(v *replicator.View) bool { return v.Name == place.view })
			got, sum := found[place], isSum(f.s.Views[i])
			if got == kind || got != "" && sum { // the sum also includes other entities, so Compare may report a different kind
				continue
			}
			stray := got == "" && sum || kind != replicator.Missing && (got == "" || got == replicator.Missing)
			// Compare may miss an entry that was added by hand if Strays lists it: no cell has this entry.
			if !stray || !tidies || len(f.strays(tidier, i)) == 0 {
				f.t.Fatalf("after entity %d of view %s was changed by hand, Compare finds %q, want %q",
					place.entity, place.view, got, kind)
			}
		}
		for place, kind := range found {
			if want[place] == "" {
				f.t.Fatalf("Compare finds entity %d of view %s %s, but nothing changed it", place.entity, place.view, kind)
			}
		}
		mend := repair(bodies)
		for i := range mend {
			mend[i].Rewrite = true
		}
		f.apply(mend...)
		for i := range f.s.Views {
			if tidies {
				f.tidy(tidier, i)
			}
		}
		f.showsOf("after the repair", bodies)
		f.differ("after the repair", ops, nil)
	}
}

func isSum(v *replicator.View) bool { return v.Kind == "counter" || v.Kind == "ranking" }
