package sinktest

import (
	"maps"
	"slices"

	"replicator"
)

// fill fills views about which the sink knows nothing, as a pipeline does: it puts the source's rows, re-reads the
// cells that Unclaimed and Outdated list, and marks the views as filled.
func (f *fixture) fill(order int64, bodies map[int]body) {
	f.t.Helper()
	f.apply(f.puts(2, order, bodies)...) // the old content may have a version above 2, but the sink has forgotten it
	look := func(cells []replicator.Cell) {
		var ops []replicator.Op
		for _, c := range cells {
			b := bodies[f.entity(c.Key)]
			op := f.reset(c, 2, order+5, b)
			if b == nil {
				op.Version = replicator.NoVersion
			}
			ops = append(ops, op)
		}
		f.apply(ops...)
	}
	if tidier, ok := f.target.(replicator.Tidier); ok {
		for i := range f.s.Views {
			walk(f, "Unclaimed", 2, f.unclaimed(tidier, i), look)
		}
	}
	walk(f, "Outdated", 2, f.outdated(order), look)
	at := replicator.Standing{Position: replicator.Position{Order: order + 9, Token: "p"}}
	if err := f.target.Mark(f.t.Context(), at); err != nil {
		f.t.Fatalf("Mark: %v", err)
	}
}

// testForget forgets views, and redefines one. The next Open knows nothing about these views, and a fill replaces their
// old content.
func testForget(f *fixture) {
	f.source = "forget"
	sink := f.s.New(f.t) // one sink for all steps, because closing it may take a while
	defer sink.Close()
	f.spread(3)
	b := f.fresh(4)
	shown := map[int]body{0: b[0], 1: b[1], 2: b[2]}
	fill := func(what string, order int64, views []*replicator.View, anew ...string) {
		f.t.Helper()
		var err error
		if f.target, err = sink.Open(f.t.Context(), f.source, views); err != nil {
			f.t.Fatalf("Open: %v", err)
		}
		f.checkOpened(what, views, anew)
		f.fill(order, shown)
		f.showsOf(what+", after a fill", shown)
	}
	all := names(f.s.Views)
	fill("before anything was applied", 50, f.s.Views, all...)
	forgets := f.s.New(f.t)
	defer forgets.Close()
	f.fed(forgets)
	for _, v := range f.s.Views {
		if err := forgets.Forget(f.t.Context(), v.Name); err != nil {
			f.t.Fatalf("Forget: %v", err)
		}
		if m, ok := f.mark(v.Name); ok {
			f.t.Fatalf("a view that was forgotten has the mark %+v", m)
		}
	}
	delete(shown, 2) // the source has lost entity 2, but the sink gets no delete: the fill must remove it
	shown[1] = b[3]
	fill("forgotten", 100, f.s.Views, all...)
	defined := *f.s.Views[0]
	defined.Fingerprint += "-anew"
	delete(shown, 1)
	fill("one view redefined", 200, append([]*replicator.View{&defined}, f.s.Views[1:]...), all[0])
	fill("that view with its first definition again", 300, f.s.Views, all[0])
}

// fed checks that the sink, if it is a replicator.Sourced, names the fixture's source.
func (f *fixture) fed(sink replicator.Sink) {
	f.t.Helper()
	sourced, ok := sink.(replicator.Sourced)
	if !ok {
		return
	}
	sources, err := sourced.Sources(f.t.Context())
	if err != nil || !slices.Contains(sources, f.source) {
		f.t.Fatalf("Sources returns %q, which lacks %q (%v)", sources, f.source, err)
	}
}

// checkOpened checks that an open target has neither states nor progress for the views in `anew`, and still has the
// marks of the other views.
func (f *fixture) checkOpened(what string, views []*replicator.View, anew []string) {
	f.t.Helper()
	versions, err := f.target.Versions(f.t.Context(), f.cells)
	if err != nil {
		f.t.Fatalf("Versions: %v", err)
	}
	for i, c := range f.cells {
		feeds := func(v *replicator.View) bool { return slices.Contains(anew, v.Name) && v.Feeds(c) }
		if slices.ContainsFunc(views, feeds) && versions[i].Lowest != replicator.NoVersion {
			f.t.Fatalf("%s: %s has version %d, want none", what, c, versions[i].Lowest)
		}
	}
	for _, v := range views {
		begins := slices.Contains(anew, v.Name)
		m, ok := f.mark(v.Name)
		if !ok || m.Fingerprint != v.Fingerprint || m.Filling() != begins || (m.Position.Order == 0) != begins {
			f.t.Fatalf("%s: the wrong mark %+v", what, m)
		}
	}
}

func testRefresh(f *fixture) {
	refresher, ok := f.target.(replicator.Refresher)
	if !ok {
		f.t.Skip("the target is not a Refresher: its readers see ops at once")
	}
	search := f.s.Search
	if search == nil {
		search = f.s.Read
	}
	f.spread(2)
	b := f.fresh(3)
	for i, shown := range []map[int]body{{0: b[0]}, {0: b[1], 1: b[2]}, {1: b[2]}} {
		ops := f.puts(int64(5+i), int64(50+i), shown)
		if len(shown) == 1 && i > 0 {
			ops = f.looks(int64(5+i), int64(50+i), map[int]body{0: nil, 1: b[2]})
		}
		f.apply(ops...)
		if err := refresher.Refresh(f.t.Context()); err != nil {
			f.t.Fatalf("Refresh: %v", err)
		}
		for _, v := range f.s.Views {
			if got, want := search(f.t, v), f.contents(v, shown); !maps.Equal(got, want) {
				f.t.Fatalf("after a refresh a reader of view %s sees\n%s\nwant\n%s", v.Name, list(got), list(want))
			}
		}
	}
}
