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

// failingSwaps is a sink whose first swap fails with a broken connection: before the swap, or after it, so that only
// the answer is lost.
type failingSwaps struct {
	*sinktest.Reference
	swaps   bool         // the failed swap is made anyway
	swapped atomic.Int64 // number of calls of Swap
	silent  atomic.Int64 // how many calls of Marks fail after that

	discarded atomic.Int64 // value of swapped at the last call of Discard
}

var errBroken = errors.New("the connection broke")

func (s *failingSwaps) Swap(ctx context.Context, source string, views []*replicator.View) error {
	if s.swapped.Add(1) > 1 {
		return s.Reference.Swap(ctx, source, views)
	}
	if s.swaps {
		if err := s.Reference.Swap(ctx, source, views); err != nil {
			return err
		}
	}
	return errBroken
}

func (s *failingSwaps) Discard(ctx context.Context, views []*replicator.View) error {
	s.discarded.Store(s.swapped.Load())
	return s.Reference.Discard(ctx, views)
}

func (s *failingSwaps) Marks(ctx context.Context, source string) ([]replicator.Mark, error) {
	if s.swapped.Load() > 0 && s.silent.Add(-1) >= 0 {
		return nil, errBroken
	}
	return s.Reference.Marks(ctx, source)
}

func TestASwapWhoseOutcomeIsUnknownIsNeverMadeAgainWithAnEmptyShadow(t *testing.T) {
	for _, c := range []struct {
		name    string
		swaps   bool
		silent  int64
		changed bool // the view's definition changed, so the live view is not kept up to date
		swapped int64
	}{
		{"not swapped", false, 0, false, 2},
		{"swapped", true, 0, false, 1},
		{"not swapped, and the sink is silent for a while", false, 5, false, 2},
		{"swapped, and the sink is silent for a while", true, 5, false, 1},
		{"swapped, of a definition that changed", true, 5, true, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(8, 8))
				f, store := newFakeSource(), newMemoryStore()
				sink := &failingSwaps{Reference: sinktest.NewReference(), swaps: c.swaps}
				sink.silent.Store(c.silent)
				history(f, r, 30)
				for key := range int64(50) { // most of these rows never change again
					f.commit(fakeChange{replicator.Insert, fakeRow{key: 100 + key, version: 1, body: fmt.Sprint("row ", key)}})
				}
				p := startCaughtUp(t, f, newPipeline(f, sink, store, "a", "b"))
				if c.changed {
					p.stopped(t)
					next := newPipeline(f, sink, store, "a", "b")
					next.Views[0].Fingerprint = "2"
					p = start(next)
				}
				corrupt(r, sink.Reference, "a")
				p.rebuild(t, pipeline.BySwap, "a")
				for range 20 {
					history(f, r, 2)
					time.Sleep(time.Second)
				}
				p.rebuilt(t)
				p.endsWith(t, f, sink.Reference, "a", "b")
				if n := sink.swapped.Load(); n != c.swapped {
					t.Errorf("swapped %d times, want %d", n, c.swapped)
				}
				if n := sink.discarded.Load(); n != c.swapped {
					t.Errorf("after %d swaps, what they replaced was last removed after %d", c.swapped, n)
				}
				if left, _ := store.Checkpoints(t.Context()); len(left) != 2 {
					t.Errorf("checkpoints left: %+v", left)
				}
			})
		})
	}
}

// shutOut is a sink that can't swap, and that can't open the view that is set.
type shutOut struct {
	*sinktest.Reference
	view atomic.Pointer[string]
}

func (s *shutOut) Open(ctx context.Context, source string, views []*replicator.View) (replicator.Target, error) {
	if name := s.view.Load(); name != nil && slices.ContainsFunc(views,
		func(v *replicator.View) bool { return v.Name == *name }) {
		return nil, errBroken
	}
	return s.Reference.Open(ctx, source, views)
}

func (s *shutOut) Swap(context.Context, string, []*replicator.View) error { return errBroken }

func TestViewsThatNeverRanTogetherPartWhereEachOfThemStood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		do := func(what func(context.Context, string) error, view string) {
			t.Helper()
			if err := what(t.Context(), view); err != nil {
				t.Fatal(err)
			}
		}
		f, store, sink := newFakeSource(), newMemoryStore(), &shutOut{Reference: sinktest.NewReference()}
		p := startCaughtUp(t, f, newPipeline(f, sink, store, "a", "b"))
		late := "b"
		sink.view.Store(&late)
		do(p.Pause, "b")
		do(p.Resume, "b") // from now on b runs separately, and can't be opened
		for key := range int64(20) {
			f.commit(fakeChange{replicator.Insert, fakeRow{key: key, version: 1, body: "once"}})
		}
		p.rebuild(t, pipeline.BySwap, "a", "b")
		time.Sleep(5 * time.Second) // the swap fails; the live views have different positions
		do(p.Pause, "b")
		sink.view.Store(nil)
		do(p.Resume, "b")
		p.endsWith(t, f, sink.Reference, "a", "b")
	})
}

// oneOfSeveral is one of several sources that feed a sink, so it has a name.
type oneOfSeveral struct{ *fakeSource }

func (oneOfSeveral) Name() string { return "eu" }

// If several sources fill one target, views are rebuilt in place. A shadow that one source filled would lack the rows
// of the others.
func TestASourceAmongSeveralRebuildsInPlaceWhateverAsksForIt(t *testing.T) {
	for _, c := range []struct {
		name   string
		begins func(t *testing.T, f *fakeSource, p *started)
	}{
		{"somebody asked for a swap", func(t *testing.T, _ *fakeSource, p *started) {
			p.rebuild(t, pipeline.BySwap, "a")
		}},
		{"its table was altered", func(_ *testing.T, f *fakeSource, _ *started) {
			f.set(func() { f.cells = "altered" })
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(8, 9))
				f, store := newFakeSource(), newMemoryStore()
				f.cells = "as they were"
				sink := &failingSwaps{Reference: sinktest.NewReference(), swaps: true}
				history(f, r, 30)
				p := newPipeline(oneOfSeveral{f}, sink, store, "a")
				p.Views[0].OnChange = "rebuild"
				running := start(p)
				running.caughtUp(t, f)
				c.begins(t, f, running)
				for range 60 {
					history(f, r, 2)
					time.Sleep(time.Second)
				}
				running.rebuilt(t)
				running.endsWith(t, f, sink.Reference, "a")
				if n := sink.swapped.Load(); n != 0 {
					t.Errorf("swapped %d times", n)
				}
			})
		})
	}
}

// watchedDiscards is a sink that can't swap. It records which shadows were removed while the store still had their
// checkpoints.
type watchedDiscards struct {
	*sinktest.Reference
	store *memoryStore
	early []string
}

func (d *watchedDiscards) Discard(ctx context.Context, views []*replicator.View) error {
	saved, err := d.store.Checkpoints(ctx)
	for _, v := range views {
		if slices.ContainsFunc(saved, func(c replicator.Checkpoint) bool {
			return c.View == v.Name+replicator.ShadowSuffix
		}) {
			d.early = append(d.early, v.Name)
		}
	}
	return errors.Join(err, d.Reference.Discard(ctx, views))
}

func (*watchedDiscards) Swap(context.Context, string, []*replicator.View) error {
	return replicator.Fatal(errBroken)
}

// The store must forget a shadow before the sink removes it. Otherwise a crash could leave a checkpoint without a mark,
// as a swap does. Then the shadow's dead letters would replace the view's.
func TestAShadowIsForgottenByTheStoreBeforeItIsRemoved(t *testing.T) {
	for _, how := range []string{"its view's definition changed", "another rebuild takes its place"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, store := newFakeSource(), newMemoryStore()
				sink := &watchedDiscards{Reference: sinktest.NewReference(), store: store}
				history(f, rand.New(rand.NewPCG(3, 3)), 20)
				p := startCaughtUp(t, f, newPipeline(f, sink, store, "a", "b"))
				p.rebuild(t, pipeline.BySwap, "a")
				time.Sleep(10 * time.Second)
				letters := []replicator.DeadLetter{{View: "a", Cell: fakeCell(900)}, {View: "a@rebuild", Cell: fakeCell(901)}}
				if err := store.Bury(t.Context(), letters); err != nil {
					t.Fatal(err)
				}
				if how == "another rebuild takes its place" {
					p.rebuild(t, pipeline.InPlace, "a")
					p.rebuilt(t)
				} else {
					p.crash()
					<-p.done
					p.stop()
					next := newPipeline(f, sink, store, "a", "b")
					next.Views[0].Fingerprint = "2"
					p = start(next)
					time.Sleep(10 * time.Second)
				}
				p.stopped(t)
				if len(sink.early) > 0 {
					t.Errorf("the shadows of %v were removed while the store had their checkpoints", sink.early)
				}
				for l := range store.List(t.Context(), "") {
					if l.View != "a" {
						t.Errorf("a dead letter of %s is left", l.View)
					}
				}
				left, _ := store.Checkpoints(t.Context())
				if slices.ContainsFunc(left, func(c replicator.Checkpoint) bool { return c.View == "a@rebuild" }) {
					t.Errorf("checkpoints left: %+v", left)
				}
				if own, _ := store.Known(t.Context(), "a", "", fakeCell(900)); own == 0 && how != "another rebuild takes its place" {
					t.Error("the view's dead letter is gone")
				}
			})
		})
	}
}
