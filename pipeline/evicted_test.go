package pipeline_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"replicator"
	"replicator/sinks/sinktest"
)

// evictingSink is a sink whose server reports evicted keys.
type evictingSink struct {
	replicator.Sink
	evicted atomic.Int64
}

func (s *evictingSink) Open(ctx context.Context, source string, views []*replicator.View) (replicator.Target, error) {
	target, err := s.Sink.Open(ctx, source, views)
	return evictingTarget{target, s}, err
}

type evictingTarget struct {
	replicator.Target
	sink *evictingSink
}

func (t evictingTarget) Evicted() int64 { return t.sink.evicted.Swap(0) }

// After evictions, views must be compared within seconds, even if nothing changes. If keys are evicted during a
// comparison, the views must be compared once more.
func TestViewsOfASinkThatEvictsAreCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sink := newFakeSource(), &evictingSink{Sink: sinktest.NewReference()}
		history(f, rand.New(rand.NewPCG(11, 11)), 20)
		p := start(newPipeline(f, sink, newMemoryStore(), "a"))
		p.caughtUp(t, f)
		if at := p.Swapped()["a"]; at != 0 {
			t.Fatalf("the view is to be compared since %d", at)
		}
		due := func() int64 {
			sink.evicted.Store(3)
			time.Sleep(10 * time.Second)
			return p.Swapped()["a"]
		}
		first := due()
		if first == 0 {
			t.Error("evictions had nothing compared")
		}
		if got := p.Status(nil)[0].Evicted; got != 3 {
			t.Errorf("the status says that %d keys were evicted", got)
		}
		if second := due(); second == first {
			t.Error("what is evicted while the views are compared is not compared again")
		}
		p.Compared("a", first)
		at := p.Swapped()["a"]
		if at == 0 {
			t.Error("the first comparison is taken for the second")
		}
		p.Compared("a", at)
		if at := p.Swapped()["a"]; at != 0 {
			t.Errorf("once compared, the view is to be compared since %d", at)
		}
		p.stopped(t)
	})
}

// addingUp is a sink that counts calls of Strays. On such a call, Redis computes its sums again from its records.
type addingUp struct {
	*sinktest.Reference
	asked atomic.Int64
}

func (s *addingUp) Open(ctx context.Context, source string, views []*replicator.View) (replicator.Target, error) {
	target, err := s.Reference.Open(ctx, source, views)
	return addingTarget{target, target.(replicator.Tidier), s}, err
}

type addingTarget struct {
	replicator.Target
	replicator.Tidier
	sink *addingUp
}

func (t addingTarget) Strays(
	ctx context.Context, view int, after string, limit int,
) ([]replicator.Stray, string, error) {
	t.sink.asked.Add(1)
	return t.Tidier.Strays(ctx, view, after, limit)
}

// A server may evict a mark and some records, but keep the sums that include those records. Adding the source's amounts
// to such sums would count them twice, so the sums must be computed again.
func TestWhatALostMarkLeavesIsAddedUp(t *testing.T) {
	for _, runs := range []bool{true, false} {
		t.Run(fmt.Sprintf("running %t", runs), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, sink, store := newFakeSource(), &addingUp{Reference: sinktest.NewReference()}, newMemoryStore()
				begin := func() *started {
					p := newPipeline(f, sink, store, "a")
					p.OnLost = "rebuild"
					return start(p)
				}
				history(f, rand.New(rand.NewPCG(12, 12)), 20)
				p := begin()
				p.caughtUp(t, f)
				if !runs {
					p.stopped(t)
				}
				sink.SetMark("", "a", nil)
				if !runs {
					p = begin()
				}
				time.Sleep(time.Minute)
				p.caughtUp(t, f)
				if n := sink.asked.Load(); n == 0 {
					t.Error("the sums that were left are believed")
				}
				p.stopped(t)
			})
		})
	}
}
