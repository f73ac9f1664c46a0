package sinktest

import (
	"slices"

	"replicator"
)

// forgetGone raises the target's horizon (below which deleted cells may be forgotten) and makes the target forget all
// cells that it may forget, a page at a time. It returns how many were forgotten, and how many are still remembered.
func (f *fixture) forgetGone(horizon int64) (found replicator.GoneCells) {
	f.t.Helper()
	forgetter := f.target.(replicator.Forgetter)
	if err := forgetter.RaiseHorizon(f.t.Context(), horizon); err != nil {
		f.t.Fatalf("RaiseHorizon: %v", err)
	}
	for after, pages := "", 0; ; pages++ {
		some, next, err := forgetter.ForgetGone(f.t.Context(), after, 2)
		if err != nil || pages > 10_000 {
			f.t.Fatalf("ForgetGone: %v, after %d pages", err, pages)
		}
		found.Add(some)
		if after = next; after == "" {
			return found
		}
	}
}

func (f *fixture) markAt(order int64, filling bool) {
	f.t.Helper()
	at := replicator.Standing{Position: replicator.Position{Order: order, Token: "p"}}
	if filling {
		at.Fill = map[string]replicator.Progress{}
	}
	if err := f.target.Mark(f.t.Context(), at); err != nil {
		f.t.Fatalf("Mark: %v", err)
	}
}

// unknownOnly fails the test unless Apply reports exactly the ops in unknown as unknown, and those in stale as stale.
func (f *fixture) unknownOnly(a replicator.Applied, unknown []int, stale ...int) {
	f.t.Helper()
	slices.Sort(a.Unknown)
	if !slices.Equal(a.Unknown, unknown) {
		f.t.Fatalf("Apply returns %+v, want these unknown: %v", a, unknown)
	}
	f.staleOnly(a, stale...)
}

func testGone(f *fixture) {
	if _, ok := f.target.(replicator.Forgetter); !ok || f.s.Remembers {
		f.t.Skip("the target is not a Forgetter: it never forgets deleted cells")
	}
	f.source = "gone"
	other := open(f.t, f.s, f.source, f.s.Views) // another process, which does not raise the horizon itself
	f.target = open(f.t, f.s, f.source, f.s.Views)
	own := f.target
	gone, late, lives := f.cells[0], f.cells[1], f.cells[2]
	b := f.body()
	gives := f.body()
	f.apply(f.put(gone, 9, 10, b), f.put(late, 9, 10, b), f.put(lives, 9, 10, gives))
	f.apply(f.reset(gone, replicator.NoVersion, 20, nil), f.reset(late, replicator.NoVersion, 120, nil))
	shows := map[replicator.Cell]body{lives: gives}

	f.markAt(60, true)
	// During a fill, the sink forgets no cell. found may count other sources' cells, too.
	if found := f.forgetGone(50); found.Remembered < 2 {
		f.t.Errorf("during a fill ForgetGone returns %+v, want two cells remembered", found)
	}
	f.staleOnly(f.try(f.put(gone, 9, 10, b)), 0) // the cell's delete is still remembered
	f.markAt(100, false)
	f.forgetGone(20) // forgets nothing: the first delete has order 20, which is not below 20
	f.staleOnly(f.try(f.put(gone, 9, 10, b)), 0)
	// not exactly one, because each shard of a sink counts the cell
	if found := f.forgetGone(1000); found.Forgotten < 1 || found.Remembered < 1 {
		f.t.Errorf("with two deleted cells ForgetGone returns %+v, want one forgotten and one remembered", found)
	}
	f.shows("after the gone cell was forgotten", shows)
	for _, target := range []replicator.Target{own, other} {
		f.target = target
		a := f.try(f.put(gone, 9, 10, b), f.put(late, 9, 10, b), f.put(lives, 8, 5, b))
		f.unknownOnly(a, []int{0}, 1, 2)
		f.unknownOnly(f.try(f.reset(gone, 9, 15, b)), []int{0})
		f.staleOnly(f.try(f.reset(gone, replicator.NoVersion, 30, nil)), 0)
		// The delete at order 30 was below the horizon, so it left no state.
		f.unknownOnly(f.try(f.put(gone, 9, 40, b)), []int{0})
		f.shows("after changes below the horizon", shows)
	}
	f.apply(f.put(gone, 3, 101, b)) // an op above the horizon; its version is lower than that of the forgotten row
	shows[gone] = b
	f.unknownOnly(f.try(f.put(gone, 9, 10, f.body())), []int{0})
	f.staleOnly(f.try(f.reset(gone, replicator.NoVersion, 30, nil)), 0)
	f.shows("after it came back above the horizon", shows)
	f.versions(3, replicator.NoVersion, 9)
	f.target = open(f.t, f.s, f.source, f.s.Views)
	f.apply(f.reset(gone, replicator.NoVersion, 130, nil))
	f.unknownOnly(f.try(f.put(f.cells[3], 9, 10, b)), []int{0}) // a target that is opened later knows the horizon
	f.markAt(200, false)
	f.forgetGone(150)
	f.unknownOnly(f.try(f.put(late, 9, 149, b)), []int{0})
	f.staleOnly(f.try(f.put(lives, 8, 149, b)), 0)
	delete(shows, gone)
	f.shows("at last", shows)
	f.apply(f.put(gone, 1, 150, b))
}
