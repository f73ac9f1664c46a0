package sinktest

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"

	"replicator"
)

// contract checks single calls, each on its own cells.
func contract(t *testing.T, s *Subject) {
	for i, c := range []struct {
		name string
		test func(*fixture)
	}{
		{"an older op is stale and changes nothing", testStale},
		{"the same op may be applied again", testRepeat},
		{"deleting the newest version brings back an older one", testDelete},
		{"a deleted version that was held up does not come back", testHeldUp},
		{"a value that can't be computed contributes nothing", testUnreadable},
		{"a bad value is rejected alone", testRejected},
		{"a dead cell is known as dead until a newer op is applied", testDead},
		{"versions are the lowest of the views", testVersions},
		{"the cells of a view are listed in pages", testHeld},
		{"cells without an op since an order are outdated", testOutdated},
		{"the entries of a view are compared with the expected ones", testCompare},
		{"entries that were changed by hand are found and repaired", testByHand},
		{"entries that came from no cell are found and removed", testStrays},
		{"a view that joins later gets the same entries", testLateView},
		{"a mark never falls", testMarks},
		{"a target marks only its own epoch", testOvertaken},
		{"a mark that another target moved is reported", testForeign},
		{"one target registers an epoch", testRegistered},
		{"a mark that fell or is gone is a loss", testLost},
		{"a mark that can't be read fails its view alone", testDamaged},
		{"another process finds everything", testReopen},
		{"a view that was forgotten or redefined is filled again", testForget},
		{"deleted cells are forgotten below the horizon, and changes there are unknown", testGone},
		{"sources don't change each other's cells", testSources},
		{"sources whose tables differ fill one view", testSourcesOfUnlikeTables},
		{"re-reads and late deletes of one source leave other sources' entries", testLooksOfOtherSources},
		{"an entity that moved between sources is compared with the one that has it", testMoved},
		{"if two sources have a row of one key, the first is shown", testClaims},
		{"readers see what was applied after a refresh", testRefresh},
		{"shadows take the live views' place with their states and marks", testShadow},
		{"shadows run beside their views and agree with them", testShadowBeside},
		{"a swap that is cut short is made wholly or not at all", testCutSwap},
		{"two writers of new cells agree", testTwoWriters},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, s, int64(i+1)<<8)
			c.test(f)
			f.clear()
		})
	}
}

// fixture is a target, and the cells that one step uses.
type fixture struct {
	t      testing.TB
	s      *Subject
	rnd    *rand.Rand
	source string
	target replicator.Target
	base   int64 // part of all keys that this fixture makes, so that they differ from other fixtures' keys
	cells  []replicator.Cell
	texts  map[string]bool // the texts in the bodies that f.fresh has made; no two of its bodies share a text
}

func newFixture(t testing.TB, s *Subject, base int64) *fixture {
	f := &fixture{t: t, s: s, rnd: rand.New(rand.NewPCG(uint64(base), 1)), base: base, texts: map[string]bool{}}
	f.target = open(t, s, f.source, s.Views)
	feed := s.feeds()[0]
	for i := range 4 {
		f.cells = append(f.cells, replicator.Cell{Table: feed.Table, Column: feed.Column,
			Key: keyOf(s.table(feed.Table), base, int64(i))})
	}
	return f
}

// body returns a random body that has every property, so that each view shows an entry for it.
func (f *fixture) body() body {
	b := body{}
	for _, path := range f.s.properties() {
		for b[path] == nil || fmt.Sprint(b[path]) == "[]" || fmt.Sprint(b[path]) == "0" {
			b[path] = f.s.property(f.rnd, path)
		}
	}
	return b
}

func (f *fixture) put(c replicator.Cell, version, order int64, b body) replicator.Op {
	return replicator.Op{Cell: c, Version: version, Order: order, Values: f.s.values(c, b)}
}

func (f *fixture) reset(c replicator.Cell, version, asOf int64, b body) replicator.Op {
	return replicator.Op{Cell: c, Version: version, AsOf: asOf, Values: f.s.values(c, b)}
}

// apply applies ops, none of which may be stale or rejected.
func (f *fixture) apply(ops ...replicator.Op) {
	f.t.Helper()
	if a := f.try(ops...); len(a.Stale)+len(a.Rejected) > 0 {
		f.t.Fatalf("Apply returns %+v, want nothing stale or rejected", a)
	}
}

func (f *fixture) try(ops ...replicator.Op) replicator.Applied {
	f.t.Helper()
	given := slices.Clone(ops)
	a, err := f.target.Apply(f.t.Context(), given)
	// Apply must not keep the slice, because callers reuse it.
	clear(given)
	if err != nil {
		f.t.Fatalf("Apply: %v", err)
	}
	return a
}

// shows fails the test unless every view has the contents that the newest bodies should give.
func (f *fixture) shows(when string, newest map[replicator.Cell]body) {
	f.t.Helper()
	for _, v := range f.s.Views {
		var from []contribution
		for c, b := range newest {
			if v.Feeds(c) {
				from = append(from, contribution{c, f.s.entries(v, c, b)})
			}
		}
		if got, want := f.s.Read(f.t, v), contents(v, from); !maps.Equal(got, want) {
			f.t.Fatalf("%s, view %s holds\n%s\nwant\n%s", when, v.Name, list(got), list(want))
		}
	}
}

// clear removes the fixture's cells, and checks that the views are empty then.
func (f *fixture) clear() {
	f.t.Helper()
	target := open(f.t, f.s, f.source, f.s.Views)
	var ops []replicator.Op
	for _, c := range f.cells {
		ops = append(ops, f.reset(c, replicator.NoVersion, firstOrder-1, nil))
	}
	if _, err := target.Apply(f.t.Context(), ops); err != nil {
		f.t.Fatalf("Apply: %v", err)
	}
	f.shows("after everything was removed", nil)
}

func (f *fixture) staleOnly(a replicator.Applied, stale ...int) {
	f.t.Helper()
	slices.Sort(a.Stale)
	if !slices.Equal(a.Stale, stale) || len(a.Rejected) > 0 {
		f.t.Fatalf("Apply returns %+v, want these stale: %v", a, stale)
	}
}

func testStale(f *fixture) {
	a, b := f.body(), f.body()
	f.apply(f.put(f.cells[0], 5, 50, a), f.put(f.cells[1], 5, 50, b))
	newer := f.body()
	f.staleOnly(f.try(f.put(f.cells[0], 4, 60, f.body()), f.put(f.cells[1], 6, 60, newer)), 0)
	f.staleOnly(f.try(f.put(f.cells[0], 5, 49, f.body()), f.reset(f.cells[1], replicator.NoVersion, 59, nil)), 0, 1)
	f.shows("after older ops", map[replicator.Cell]body{f.cells[0]: a, f.cells[1]: newer})
	f.staleOnly(f.try(), []int(nil)...)
}

func testRepeat(f *fixture) {
	a, b := f.body(), f.body()
	put, reset := f.put(f.cells[0], 5, 50, a), f.reset(f.cells[1], 3, 50, b)
	for range 3 {
		f.apply(put, reset)
		f.shows("after the same ops", map[replicator.Cell]body{f.cells[0]: a, f.cells[1]: b})
	}
}

func testDelete(f *fixture) {
	c, old, newest := f.cells[0], f.body(), f.body()
	f.apply(f.put(c, 1, 10, old))
	f.apply(f.put(c, 2, 20, newest))
	f.apply(f.reset(c, 1, 30, old))
	f.shows("after the newest version was deleted", map[replicator.Cell]body{c: old})
	f.staleOnly(f.try(f.put(c, 2, 20, newest)), 0)
	f.shows("after a replay", map[replicator.Cell]body{c: old})
	f.apply(f.reset(c, replicator.NoVersion, 40, nil))
	f.shows("after the last version was deleted", nil)
	f.staleOnly(f.try(f.put(c, 1, 10, old)), 0)
	f.apply(f.put(c, 1, 50, old))
	f.shows("after it was inserted again", map[replicator.Cell]body{c: old})
}

// testHeldUp applies a re-read at a lower log position than the last put's. The re-read changes nothing, but the sink
// must remember its position (Op.AsOf). So a put at a still lower position is stale, even if its version is higher:
// that version was deleted before the re-read.
func testHeldUp(f *fixture) {
	c, old, deleted := f.cells[0], f.body(), f.body()
	f.apply(f.put(c, 3, 33, old))
	f.apply(f.put(c, 3, 45, old))                 // a scan puts the same row
	f.staleOnly(f.try(f.reset(c, 3, 41, old)), 0) // version 5 was inserted at 37 and deleted at 39, then c was re-read
	f.staleOnly(f.try(f.put(c, 5, 37, deleted)), 0)
	f.shows("after a put that was held up", map[replicator.Cell]body{c: old})
}

func testUnreadable(f *fixture) {
	c, good := f.cells[0], f.body()
	f.apply(f.put(c, 1, 10, good))
	for i, v := range f.s.Views {
		if !v.Feeds(c) {
			continue
		}
		bad := f.body()
		bad[unreadable] = v.Name
		f.apply(f.put(c, int64(i+2), int64(i+20), bad))
		f.shows("after a value of view "+v.Name+" could not be computed", map[replicator.Cell]body{c: bad})
		f.dead(c, int64(i+2), bad, i)
	}
}

func testRejected(f *fixture) {
	if f.s.Bad == nil {
		f.t.Skip("Subject.Bad is nil")
	}
	first, second, third := f.body(), f.body(), f.body()
	f.apply(f.put(f.cells[0], 1, 10, first), f.put(f.cells[1], 1, 10, second))
	version := int64(1)
	for _, name := range slices.Sorted(maps.Keys(f.s.Bad)) {
		version++
		bad := f.body()
		bad[name] = f.s.Bad[name]
		a := f.try(f.put(f.cells[2], version, 10*version, third), f.put(f.cells[1], version, 10*version, bad))
		rejects := f.namedBy(f.cells[1], name)
		var got []int
		for _, r := range a.Rejected {
			if r.Op != 1 || r.Err == nil {
				f.t.Fatalf("Apply rejected %+v, want op 1 with an error", r)
			}
			got = append(got, r.View)
		}
		slices.Sort(got)
		if !slices.Equal(got, rejects) || len(a.Stale) > 0 {
			f.t.Fatalf("Apply returns %+v, want the value rejected for views %v", a, rejects)
		}
		if a := f.try(f.put(f.cells[1], 1, 10, bad)); len(a.Stale) != 1 || len(a.Rejected) > 0 {
			f.t.Fatalf("Apply returns %+v for a bad value that is stale, want it only stale", a)
		}
		f.dead(f.cells[1], version, bad, rejects...)
		for _, v := range rejects { // after a rejection the old contribution must be gone, or it would look current
			view := f.s.Views[v]
			if own := of(f.cells[1], f.s.Read(f.t, view)); watched(f.s, view) && len(own) > 0 {
				f.t.Fatalf("view %s still shows %v", view.Name, own)
			}
		}
		version++
		f.apply(f.put(f.cells[1], version, 10*version, second))
		f.shows("after the bad value was superseded", map[replicator.Cell]body{f.cells[0]: first,
			f.cells[1]: second, f.cells[2]: third})
	}
}

// namedBy returns the indexes of the views, among those a cell feeds, that use a property.
func (f *fixture) namedBy(c replicator.Cell, property string) []int {
	var places []int
	for i, v := range f.s.Views {
		named := func(field replicator.Field) bool { return field.Path == property }
		if v.Feeds(c) && slices.ContainsFunc(v.Fields, named) {
			places = append(places, i)
		}
	}
	return places
}

func (f *fixture) versions(want ...int64) {
	f.t.Helper()
	got, err := f.target.Versions(f.t.Context(), f.cells[:len(want)])
	if err != nil {
		f.t.Fatalf("Versions: %v", err)
	}
	if !slices.EqualFunc(got, want, func(s replicator.Span, lowest int64) bool { return s.Lowest == lowest }) {
		f.t.Fatalf("the versions are %v, want the lowest to be %v", got, want)
	}
}

func (f *fixture) highest(want int64) {
	f.t.Helper()
	got, err := f.target.Versions(f.t.Context(), f.cells[:1])
	if err != nil || got[0].Highest != want {
		f.t.Fatalf("the versions are %v (%v), want the highest to be %d", got, err, want)
	}
}

func testVersions(f *fixture) {
	f.versions(replicator.NoVersion, replicator.NoVersion, replicator.NoVersion)
	f.apply(f.put(f.cells[0], 5, 50, f.body()), f.put(f.cells[1], math.MaxInt64, 50, f.body()),
		f.put(f.cells[2], 0, 50, f.body()))
	f.versions(5, math.MaxInt64, 0)
	f.apply(f.reset(f.cells[0], 4, 60, f.body()), f.reset(f.cells[1], replicator.NoVersion, 60, nil))
	f.versions(4, replicator.NoVersion, 0)
}

func testLateView(f *fixture) {
	c := f.cells[0]
	var few []*replicator.View
	for _, v := range f.s.Views {
		if v.Feeds(c) {
			few = append(few, v)
		}
	}
	if len(few) < 2 {
		f.t.Skip("only one view is fed by the cell")
	}
	all := f.target
	some := *f.s
	some.Views = few[:1]
	f.target = open(f.t, f.s, f.source, some.Views)
	b := f.body()
	op := replicator.Op{Cell: c, Version: 5, Order: 50, Values: some.values(c, b)}
	f.apply(op)
	f.target = all
	f.versions(replicator.NoVersion)
	f.highest(5)
	f.apply(f.put(c, 4, 40, f.body()))
	f.versions(4)
	f.highest(5)
	f.apply(f.put(c, 5, 50, b))
	f.versions(5)
	f.highest(5)
	f.shows("after the late views' fill", map[replicator.Cell]body{c: b})
}

// mark returns the view's mark as another process reads it.
func (f *fixture) mark(view string) (replicator.Mark, bool) {
	f.t.Helper()
	sink := f.s.New(f.t)
	defer sink.Close()
	found, err := sink.Marks(f.t.Context(), f.source)
	if err != nil {
		f.t.Fatalf("Marks: %v", err)
	}
	for _, m := range found {
		if m.View == view {
			return m, true
		}
	}
	return replicator.Mark{}, false
}

func testMarks(f *fixture) {
	f.source = "marks"
	if m, ok := f.mark(f.s.Views[0].Name); ok {
		f.t.Fatalf("the view has a mark before it was opened: %+v", m)
	}
	f.target = open(f.t, f.s, f.source, f.s.Views)
	const odd = 1<<53 + 1 // a number that no float64 holds exactly
	first := replicator.Position{Order: odd, Token: "first"}
	later := replicator.Position{Order: odd + 1, Token: "later"}
	last := replicator.Position{Order: odd + 2, Token: "last"}
	filling := func(p replicator.Position, epoch, rows int64) replicator.Standing {
		fill := map[string]replicator.Progress{"cell": {After: fmt.Sprint("\"ü\\", rows), Rows: rows, Total: 99},
			"done": {Done: true, Rows: 5}}
		return replicator.Standing{Position: p, Fill: fill, FillFrom: 7, Epoch: epoch, Repair: epoch > 1}
	}
	filled := func(p replicator.Position, epoch int64) replicator.Standing {
		return replicator.Standing{Position: p, Epoch: epoch}
	}
	swapped := filled(last, 2)
	swapped.Swapped = odd + 1
	for _, step := range []struct{ at, want replicator.Standing }{
		{filling(first, 1, 8), filling(first, 1, 8)},
		{filling(later, 1, 6), filling(later, 1, 8)},
		{filled(later, 1), filled(later, 1)},
		{filling(first, 1, 9), filled(later, 1)},
		{filling(last, 0, 9), filled(later, 1)},
		{filled(last, 0), filled(last, 1)},
		{filling(later, 2, 3), filling(last, 2, 3)},
		{filled(last, 1), filling(last, 2, 3)},
		{filled(last, 2), filled(last, 2)},
		{swapped, swapped},
		{filled(later, 2), swapped}, // `later` is below the mark's position, so the mark keeps Swapped
		{filled(last, 2), filled(last, 2)},
	} {
		for range 2 {
			if err := f.target.Mark(f.t.Context(), step.at); err != nil {
				f.t.Fatalf("Mark: %v", err)
			}
		}
		for _, v := range f.s.Views {
			want := replicator.Mark{View: v.Name, Fingerprint: v.Fingerprint, Standing: step.want}
			if m, _ := f.mark(v.Name); !reflect.DeepEqual(m, want) {
				f.t.Fatalf("the mark is %+v, want %+v", m, want)
			}
		}
	}
}

func testReopen(f *fixture) {
	c, b := f.cells[0], f.body()
	f.apply(f.put(c, 5, 50, b))
	if err := f.target.Mark(f.t.Context(), replicator.Standing{Position: replicator.Position{Order: 60,
		Token: "p"}}); err != nil {
		f.t.Fatalf("Mark: %v", err)
	}
	f.target = open(f.t, f.s, f.source, f.s.Views)
	f.versions(5)
	f.staleOnly(f.try(f.put(c, 4, 55, f.body())), 0)
	f.shows("after it was opened again", map[replicator.Cell]body{c: b})
	if m, ok := f.mark(f.s.Views[0].Name); !ok || m.Position.Order < 60 {
		f.t.Fatalf("the mark is %+v after the view was opened again", m)
	}
}

// Two writers apply ops to the same new cells. If a sink lets both judge a cell as unseen, the older op sometimes wins.
func testTwoWriters(f *fixture) {
	const rounds, cells = 20, 10
	f.cells = nil
	feed := f.s.feeds()[0]
	t := f.s.table(feed.Table)
	targets := []replicator.Target{f.target, open(f.t, f.s, f.source, f.s.Views)}
	newest := map[replicator.Cell]body{}
	for round := range rounds {
		batches := make([][]replicator.Op, len(targets))
		for i := range cells {
			c := replicator.Cell{Table: feed.Table, Column: feed.Column, Key: keyOf(t, f.base, int64(100+round*cells+i))}
			f.cells = append(f.cells, c)
			for w := range targets {
				b := f.body()
				version := int64(1 + (w+i)%2)
				batches[w] = append(batches[w], f.put(c, version, 10*version, b))
				if version == 2 {
					newest[c] = b
				}
			}
		}
		var wg sync.WaitGroup
		for w, target := range targets {
			wg.Go(func() {
				if _, err := target.Apply(f.t.Context(), batches[w]); err != nil {
					f.t.Errorf("Apply: %v", err)
				}
			})
		}
		wg.Wait()
	}
	f.shows("after two writers at once", newest)
}
