package pipeline_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"replicator"
	"replicator/pipeline"
	"replicator/sinks/sinktest"
)

// watchedSink is a sink in memory whose readers compare views after each step: what they read is one moment's.
type watchedSink struct {
	*sinktest.Reference
	mu       sync.Mutex
	views    []string // that readers compare; none: nobody reads
	differed []string // what they saw
}

func (s *watchedSink) watch(views ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.views = views
}

// step does something to the sink, after which readers look.
func (s *watchedSink) step(name string, do func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := do()
	for i, view := range s.views {
		first, other := s.Read(fakeView(s.views[0])), s.Read(fakeView(view))
		if i > 0 && !maps.Equal(first, other) {
			s.differed = append(s.differed, fmt.Sprintf("after %s: %s has %v, %s has %v", name, s.views[0], first, view, other))
		}
	}
	return err
}

func (s *watchedSink) Swap(ctx context.Context, source string, views []*replicator.View) error {
	return s.step("a swap", func() error { return s.Reference.Swap(ctx, source, views) })
}

func (s *watchedSink) Open(ctx context.Context, source string, views []*replicator.View) (replicator.Target, error) {
	target, err := s.Reference.Open(ctx, source, views)
	return watchedTarget{target, s}, err
}

type watchedTarget struct {
	replicator.Target
	sink *watchedSink
}

func (t watchedTarget) Apply(ctx context.Context, ops []replicator.Op) (applied replicator.Applied, err error) {
	time.Sleep(5 * time.Millisecond)
	err = t.sink.step("a batch", func() error {
		applied, err = t.Target.Apply(ctx, ops)
		return err
	})
	return applied, err
}

// Whoever reads two views of one sink at one moment sees them agree, whatever is rebuilt: the swapped-in view holds
// exactly what the others hold at that moment, and goes on with them.
func TestARebuiltViewNeverDisagreesWithItsSiblings(t *testing.T) {
	for name, rebuilds := range map[string][][]string{
		"one view":                      {{"a"}, {"a"}, {"b"}},
		"two views at once":             {{"a", "b"}, {"c", "a"}},
		"two rebuilds at the same time": {{"a"}, {"b"}, {"c"}},
	} {
		for _, single := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, one row per key: %t", name, single), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f, store := newFakeSource(), newMemoryStore()
					f.single = single
					sink := &watchedSink{Reference: sinktest.NewReference()}
					r := rand.New(rand.NewPCG(40, 1))
					history(f, r, 60)
					p := start(newPipeline(f, sink, store, "a", "b", "c"))
					p.caughtUp(t, f)
					sink.watch("a", "b", "c")
					writing, end := context.WithCancel(t.Context())
					var writer sync.WaitGroup
					writer.Go(func() {
						for writing.Err() == nil {
							history(f, r, 1)
							time.Sleep(3 * time.Millisecond)
						}
					})
					for _, views := range rebuilds {
						if err := p.Rebuild(t.Context(), views, pipeline.BySwap, ""); err != nil {
							t.Fatal(err)
						}
						if name != "two rebuilds at the same time" {
							p.rebuilt(t)
						}
					}
					p.rebuilt(t)
					time.Sleep(10 * time.Second)
					end()
					writer.Wait()
					p.caughtUp(t, f)
					p.stopped(t)
					if n := len(sink.differed); n > 0 {
						t.Errorf("readers saw views disagree %d times, first %s", n, sink.differed[0])
					}
					for _, v := range []string{"a", "b", "c"} {
						holds(t, f, sink.Reference, v)
					}
					left, _ := store.Checkpoints(t.Context())
					if slices.ContainsFunc(left, func(c replicator.Checkpoint) bool { return len(c.View) > 1 }) {
						t.Errorf("checkpoints left: %+v", left)
					}
				})
			})
		}
	}
}
