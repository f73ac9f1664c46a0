package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"replicator"
	"replicator/pipeline"
	"replicator/sinks/sinktest"
)

// corrupt spoils a view as if by hand: it removes entries, changes entries, and adds entries of cells that never
// existed.
func corrupt(r *rand.Rand, sink *sinktest.Reference, view string) {
	for range 10 {
		cell := fakeCell(int64(r.IntN(12)))
		var entries []replicator.Entry
		if r.IntN(2) == 0 {
			entries = []replicator.Entry{{Fields: []any{fmt.Sprint("spoilt ", r.IntN(10))}}}
		}
		sink.Corrupt("", view, cell, entries)
	}
}

// rebuilt waits until no view is being rebuilt or filled.
func (s *started) rebuilt(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(time.Hour); ; {
		running := true
		for _, st := range s.Status(nil) {
			running = running && st.State == replicator.StateRunning
		}
		if running {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not rebuilt: %+v", s.Status(nil))
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// rebuild begins to rebuild views from the beginning of their tables.
func (s *started) rebuild(t *testing.T, mode pipeline.RebuildMode, views ...string) {
	t.Helper()
	if err := s.Rebuild(t.Context(), views, mode, ""); err != nil {
		t.Fatal(err)
	}
}

func (s *started) pause(t *testing.T, view string) {
	t.Helper()
	if err := s.Pause(t.Context(), view); err != nil {
		t.Fatal(err)
	}
}

func (s *started) resume(t *testing.T, view string) {
	t.Helper()
	if err := s.Resume(t.Context(), view); err != nil {
		t.Fatal(err)
	}
}

func TestARebuildPutsRightWhatWasSpoiltThroughCrashes(t *testing.T) {
	for seed := range seeds(40) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 5))
				f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
				f.single = seed%2 == 1
				history(f, r, 40)
				p := startCaughtUp(t, f, newPipeline(f, sink, store, "a", "b", "c"))
				corrupt(r, sink, "a")
				corrupt(r, sink, "b")
				p.rebuild(t, pipeline.BySwap, "a", "b")
				for range r.IntN(4) {
					time.Sleep(time.Duration(r.IntN(1200)) * time.Millisecond)
					history(f, r, 5)
					p.crash()
					<-p.done
					p.stop()
					p = start(newPipeline(f, sink, store, "a", "b", "c"))
					time.Sleep(time.Millisecond)
				}
				history(f, r, 10)
				p.rebuilt(t)
				p.endsWith(t, f, sink, "a", "b", "c")
				checkpoints, _ := store.Checkpoints(t.Context())
				if len(checkpoints) != 3 {
					t.Errorf("checkpoints left: %+v", checkpoints)
				}
			})
		})
	}
}

func TestARebuildInPlaceRewritesEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(6, 6))
		f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
		history(f, r, 40)
		p := startCaughtUp(t, f, newPipeline(f, sink, store, "a", "b"))
		for key := range f.model() { // no extra entries, because this sink can't list its entries
			sink.Corrupt("", "a", fakeCell(key), []replicator.Entry{{Fields: []any{"spoilt"}}})
		}
		p.rebuild(t, pipeline.InPlace, "a")
		history(f, r, 10)
		p.rebuilt(t)
		p.endsWith(t, f, sink, "a", "b")
	})
}

// plainWrites is a sink that counts ops without Rewrite for a view. Such an op writes nothing if the state says that
// nothing changed.
type plainWrites struct {
	replicator.Sink
	view  string
	count atomic.Int64
}

func (s *plainWrites) Open(ctx context.Context, source string, views []*replicator.View) (replicator.Target, error) {
	target, err := s.Sink.Open(ctx, source, views)
	if err != nil || !slices.ContainsFunc(views, func(v *replicator.View) bool { return v.Name == s.view }) {
		return target, err
	}
	return plainTarget{target, s}, nil
}

type plainTarget struct {
	replicator.Target
	sink *plainWrites
}

func (t plainTarget) Apply(ctx context.Context, ops []replicator.Op) (replicator.Applied, error) {
	for _, op := range ops {
		if !op.Rewrite {
			t.sink.count.Add(1)
		}
	}
	return t.Target.Apply(ctx, ops)
}

// If the tail applies a cell's change before the scan reads its row, the scan's row is stale. So the tail's change must
// repair the cell.
func TestWhatTheTailBringsDuringARebuildInPlaceIsRewrittenToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(9, 9))
		f, store := newFakeSource(), newMemoryStore()
		sink := &plainWrites{Sink: sinktest.NewReference(), view: "a"}
		history(f, r, 40)
		p := startCaughtUp(t, f, newPipeline(f, sink, store, "a"))
		p.Rate = 5
		p.rebuild(t, pipeline.InPlace, "a")
		sink.count.Store(0)
		history(f, r, 20)
		time.Sleep(time.Second)
		if st := p.Status(nil)[0]; st.State != replicator.StateRebuilding {
			t.Fatalf("the rebuild is over too soon: %+v", st)
		}
		if n := sink.count.Load(); n > 0 {
			t.Errorf("%d ops were plain", n)
		}
		p.rebuilt(t)
		p.stopped(t)
	})
}

// A rebuild that begins while the tail lags must not skip changes that the tail has not applied yet, such as a delete
// of a version that the view's state has.
func TestARebuildInPlaceGoesOnWhereTheTailStood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
		first, second := fakeRow{key: 1, version: 1, body: "b1"}, fakeRow{key: 1, version: 2, body: "bad"}
		f.commit(fakeChange{replicator.Insert, first})
		f.commit(fakeChange{replicator.Insert, second}) // the newest row is unreadable, so the cell contributes nothing
		p := startCaughtUp(t, f, newPipeline(f, sink, store, "a"))
		f.set(func() { f.behind = 1 })
		f.commit(fakeChange{replicator.Delete, second})
		p.rebuild(t, pipeline.InPlace, "a")
		time.Sleep(time.Second)
		if st := p.Status(nil)[0]; st.State != replicator.StateRebuilding {
			t.Errorf("before the tail has come to the end: %+v", st)
		}
		f.set(func() { f.behind = 0 })
		f.commit(fakeChange{replicator.Insert, fakeRow{key: 2, version: 1, body: "b2"}})
		p.rebuilt(t)
		p.endsWith(t, f, sink, "a")
	})
}

func TestAPausedViewStandsStillAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(7, 7))
		f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
		history(f, r, 20)
		p := startCaughtUp(t, f, newPipeline(f, sink, store, "a", "b"))
		p.pause(t, "a")
		before := fmt.Sprint(sink.Read(fakeView("a")))
		history(f, r, 20)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		if err := p.Wait(ctx, "40", []string{"b"}); err != nil {
			t.Fatal(err)
		}
		if after := fmt.Sprint(sink.Read(fakeView("a"))); after != before {
			t.Error("the paused view changed")
		}
		if st := p.Status(nil)[0]; st.State != replicator.StatePaused {
			t.Errorf("state %s", st.State)
		}
		p.resume(t, "a")
		p.endsWith(t, f, sink, "a", "b")
	})
}

func TestARebuildThatIsPausedGoesOnAndEnds(t *testing.T) {
	for _, mode := range []pipeline.RebuildMode{pipeline.BySwap, pipeline.InPlace} {
		t.Run(map[pipeline.RebuildMode]string{pipeline.BySwap: "by swap",
			pipeline.InPlace: "in place"}[mode], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(9, 9))
				f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
				history(f, r, 40)
				p := startCaughtUp(t, f, newPipeline(f, sink, store, "a", "b", "c"))
				for key := range f.model() {
					sink.Corrupt("", "a", fakeCell(key), []replicator.Entry{{Fields: []any{"spoilt"}}})
				}
				p.rebuild(t, mode, "a", "b")
				p.pause(t, "a")
				before := fmt.Sprint(sink.Read(fakeView("a")))
				for range 5 {
					history(f, r, 10)
					time.Sleep(5 * time.Second)
				}
				if after := fmt.Sprint(sink.Read(fakeView("a"))); after != before {
					t.Error("the paused view changed")
				}
				if st := p.Status(nil)[0]; st.State != replicator.StatePaused {
					t.Errorf("state %s", st.State)
				}
				p.resume(t, "a")
				p.rebuilt(t)
				p.caughtUp(t, f)
				history(f, r, 10)
				p.endsWith(t, f, sink, "a", "b", "c")
			})
		})
	}
}

func TestAPausedViewIsNotRebuilt(t *testing.T) {
	for _, mode := range []pipeline.RebuildMode{pipeline.BySwap, pipeline.InPlace} {
		synctest.Test(t, func(t *testing.T) {
			f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
			history(f, rand.New(rand.NewPCG(10, 10)), 20)
			p := startCaughtUp(t, f, newPipeline(f, sink, store, "a", "b"))
			p.pause(t, "a")
			if err := p.Rebuild(t.Context(), []string{"b", "a"}, mode, ""); !errors.Is(err, replicator.ErrPaused) {
				t.Errorf("rebuilding a paused view: %v", err)
			}
			p.resume(t, "a")
			p.endsWith(t, f, sink, "a")
		})
	}
}

// moved is a source that was moved to another server. It must get known positions, so that its Orders continue above
// them.
type moved struct{ *fakeSource }

func (s moved) Latest(ctx context.Context, known []replicator.Position) (replicator.Position, error) {
	at, err := s.fakeSource.Latest(ctx, known)
	if len(known) == 0 {
		return replicator.Position{Order: 1, Token: "0"}, err // without known positions, Orders begin again at 1
	}
	return at, err
}

func TestARebuildOfAViewThatDoesNotRunKnowsWhereItStood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
		f.single = true // the log position is the version
		history(f, rand.New(rand.NewPCG(11, 11)), 40)
		p := startCaughtUp(t, f, newPipeline(f, sink, store, "a"))
		p.stopped(t)
		changed := newPipeline(moved{f}, sink, store, "a")
		changed.Views[0].Fingerprint = "2"
		p = start(changed)
		p.rebuild(t, pipeline.InPlace, "a")
		p.rebuilt(t)
		if st := p.Status(nil)[0]; st.Applied.Order < 40000 {
			t.Errorf("the rebuild began at order %d: what was applied before stands above that", st.Applied.Order)
		}
		p.stopped(t)
	})
}

func TestARebuildInPlaceMendsAViewWhoseLogIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
		add := func(version int64) { // no deletes, because this sink can't be swept
			for key := range int64(20) {
				f.commit(fakeChange{replicator.Insert, fakeRow{key: key, version: version, body: fmt.Sprint("version ", version)}})
			}
		}
		add(1)
		p := startCaughtUp(t, f, newPipeline(f, sink, store, "a"))
		p.stopped(t)
		add(2)
		f.set(func() { f.purged = 30 })
		p = start(newPipeline(f, sink, store, "a"))
		time.Sleep(time.Second)
		if st := p.Status(nil)[0]; st.State != replicator.StateFailed {
			t.Errorf("state %s, want failed", st.State)
		}
		p.rebuild(t, pipeline.InPlace, "a")
		p.rebuilt(t)
		p.endsWith(t, f, sink, "a")
	})
}

func TestARebuildInPlaceThatFailedGivesWayToAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
		history(f, rand.New(rand.NewPCG(13, 13)), 40)
		p := startCaughtUp(t, f, newPipeline(f, sink, store, "a", "b"))
		if err := p.Rebuild(t.Context(), []string{"a", "b"}, pipeline.InPlace, "no offset"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second) // the rebuild failed, and waits for its next attempt
		p.rebuild(t, pipeline.InPlace, "a", "b")
		p.rebuilt(t)
		p.endsWith(t, f, sink, "a")
	})
}

// shadowsFirst is a failingSwaps that records whether a view was opened with its new definition before its shadow was
// swapped in.
type shadowsFirst struct {
	*failingSwaps
	early atomic.Bool
}

func (s *shadowsFirst) Open(ctx context.Context, source string, views []*replicator.View) (replicator.Target, error) {
	for _, v := range views {
		if v.Fingerprint == "2" && v.Shadows == "" && s.swapped.Load() == 0 {
			s.early.Store(true)
		}
	}
	return s.failingSwaps.Open(ctx, source, views)
}

func TestAChangedViewShowsWhatItShowedUntilItIsRebuilt(t *testing.T) {
	for seed := range seeds(10) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 14))
			f, store := newFakeSource(), newMemoryStore()
			sink := &shadowsFirst{failingSwaps: &failingSwaps{Reference: sinktest.NewReference()}}
			history(f, r, 40)
			p := startCaughtUp(t, f, newPipeline(f, sink, store, "a", "b"))
			p.stopped(t)
			sink.swapped.Store(0)
			again := func() *started {
				next := newPipeline(f, sink, store, "a", "b")
				next.Views[0].Fingerprint, next.Views[0].OnChange = "2", "rebuild"
				return start(next)
			}
			p = again()
			for range r.IntN(4) {
				history(f, r, 5)
				time.Sleep(time.Duration(r.IntN(1200)) * time.Millisecond)
				p.crash()
				<-p.done
				p.stop()
				p = again()
			}
			p.caughtUp(t, f)
			history(f, r, 5)
			p.caughtUp(t, f)
			p.stopped(t)
			if sink.early.Load() || sink.swapped.Load() == 0 {
				t.Errorf("seed %d: filled in place: %t; swapped %d times", seed, sink.early.Load(), sink.swapped.Load())
			}
			holds(t, f, sink.Reference, "a", "b")
			if left, _ := store.Checkpoints(t.Context()); len(left) != 2 {
				t.Errorf("seed %d: checkpoints left: %+v", seed, left)
			}
		})
	}
}
