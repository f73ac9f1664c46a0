package replicator_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"replicator"
	"replicator/sinks/sinktest"
)

// failingSwaps is a sink whose connection breaks at a swap: before it, or after it, when only the answer is lost.
type failingSwaps struct {
	*sinktest.Reference
	swaps   bool         // the swap is made all the same
	swapped atomic.Int64 // how often a swap was asked for
	silent  atomic.Int64 // how many questions for marks are not answered from then on
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
		changed bool // the views' definition: nothing keeps up the live ones meanwhile
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
				for key := range int64(50) { // hardly any of them is written again
					f.commit(fakeChange{replicator.Insert, fakeRow{key: 100 + key, version: 1, body: fmt.Sprint("row ", key)}})
				}
				p := start(newPipeline(f, sink, store, "a", "b"))
				p.caughtUp(t, f)
				if c.changed {
					p.stopped(t)
					next := newPipeline(f, sink, store, "a", "b")
					next.Views[0].Fingerprint = "2"
					p = start(next)
				}
				corrupt(r, sink.Reference, "a")
				if err := p.Rebuild(t.Context(), []string{"a"}, replicator.BySwap, ""); err != nil {
					t.Fatal(err)
				}
				for range 20 {
					history(f, r, 2)
					time.Sleep(time.Second)
				}
				p.rebuilt(t)
				p.caughtUp(t, f)
				p.stopped(t)
				holds(t, f, sink.Reference, "a")
				holds(t, f, sink.Reference, "b")
				if n := sink.swapped.Load(); n != c.swapped {
					t.Errorf("swapped %d times, want %d", n, c.swapped)
				}
				if left, _ := store.Checkpoints(t.Context()); len(left) != 2 {
					t.Errorf("checkpoints left: %+v", left)
				}
			})
		})
	}
}
