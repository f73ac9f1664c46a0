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

// watchedSink is an in-memory sink. After each step, readers compare the contents that its views have at that moment.
type watchedSink struct {
	*sinktest.Reference
	mu       sync.Mutex
	views    func() []string // the views that readers compare; nil: no readers
	compared int
	differed []string // the differences that readers saw
	broken   string   // the view that can't be written
}

func (s *watchedSink) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *watchedSink) watch(views func() []string) { s.set(func() { s.views = views }) }

// step changes the sink, and then lets readers compare its views.
func (s *watchedSink) step(name string, do func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := do()
	if s.views == nil {
		return err
	}
	views := s.views()
	for i, view := range views {
		first, other := s.Read(fakeView(views[0])), s.Read(fakeView(view))
		if s.compared += min(i, 1); i > 0 && !maps.Equal(first, other) {
			s.differed = append(s.differed, fmt.Sprintf("after %s: %s has %v, %s has %v", name, views[0], first, view, other))
		}
	}
	return err
}

func (s *watchedSink) Swap(ctx context.Context, source string, views []*replicator.View) error {
	return s.step("a swap", func() error { return s.Reference.Swap(ctx, source, views) })
}

func (s *watchedSink) Open(ctx context.Context, source string, views []*replicator.View) (replicator.Target, error) {
	target, err := s.Reference.Open(ctx, source, views)
	return watchedTarget{target, s, views}, err
}

type watchedTarget struct {
	replicator.Target
	sink  *watchedSink
	views []*replicator.View
}

func (t watchedTarget) Apply(ctx context.Context, ops []replicator.Op) (applied replicator.Applied, err error) {
	time.Sleep(5 * time.Millisecond)
	err = t.sink.step("a batch", func() error {
		if broken := t.sink.broken; slices.Contains(viewNames(t.views), broken) {
			return replicator.OfView(replicator.Fatal(errBroken), broken)
		}
		applied, err = t.Target.Apply(ctx, ops)
		return err
	})
	return applied, err
}

// running returns the views that the status shows as running.
func (s *started) running() (views []string) {
	for _, st := range s.Status(nil) {
		if st.State == replicator.StateRunning {
			views = append(views, st.View)
		}
	}
	return views
}

// writing commits transactions until the function that it returns is called.
func writing(t *testing.T, f *fakeSource, r *rand.Rand) (end func()) {
	ctx, stop := context.WithCancel(t.Context())
	var writer sync.WaitGroup
	writer.Go(func() {
		for ctx.Err() == nil {
			history(f, r, 1)
			time.Sleep(3 * time.Millisecond)
		}
	})
	return func() { stop(); writer.Wait() }
}

// A reader of two views of a sink must see them agree at any moment, also during rebuilds. At the swap, the new
// contents must equal those of the other views, and later change together with them.
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
					p := startCaughtUp(t, f, newPipeline(f, sink, store, "a", "b", "c"))
					sink.watch(func() []string { return []string{"a", "b", "c"} })
					end := writing(t, f, r)
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
					p.caughtUp(t, f)
					p.stopped(t)
					if n := len(sink.differed); n > 0 {
						t.Errorf("readers saw views disagree %d times, first %s", n, sink.differed[0])
					}
					holds(t, f, sink.Reference, "a", "b", "c")
					left, _ := store.Checkpoints(t.Context())
					if slices.ContainsFunc(left, func(c replicator.Checkpoint) bool { return len(c.View) > 1 }) {
						t.Errorf("checkpoints left: %+v", left)
					}
				})
			})
		}
	}
}

// Views that the status shows as running must agree, also while other views are filled, pause, fail, catch up or join.
func TestViewsThatRunAgree(t *testing.T) {
	for name, happens := range map[string]func(t *testing.T, p *started, sink *watchedSink){
		"a view pauses and goes on": func(t *testing.T, p *started, _ *watchedSink) {
			p.pause(t, "b")
			time.Sleep(5 * time.Second)
			p.resume(t, "b")
		},
		"a view fails for a while": func(t *testing.T, p *started, sink *watchedSink) {
			sink.set(func() { sink.broken = "b" })
			time.Sleep(5 * time.Second)
			sink.set(func() { sink.broken = "" })
		},
		"a view is rebuilt in place": func(t *testing.T, p *started, _ *watchedSink) {
			p.rebuild(t, pipeline.InPlace, "b")
		},
		"a view is new": func(*testing.T, *started, *watchedSink) {},
		"a view pauses, and a restart follows its going on": func(t *testing.T, p *started, sink *watchedSink) {
			p.pause(t, "b")
			time.Sleep(5 * time.Second)
			p.resume(t, "b")
			next := newPipeline(p.Source.(*fakeSource), p.Sink, p.Store.(*memoryStore), "a", "c", "b")
			p.stopped(t)
			sink.watch(nil)
			*p = *start(next)
			sink.watch(p.running)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, store := newFakeSource(), newMemoryStore()
				sink := &watchedSink{Reference: sinktest.NewReference()}
				r := rand.New(rand.NewPCG(40, 2))
				history(f, r, 60)
				p := startCaughtUp(t, f, newPipeline(f, sink, store, "a", "c"))
				if name != "a view is new" {
					p.stopped(t)
					p = start(newPipeline(f, sink, store, "a", "c", "b"))
					p.rebuilt(t)
				}
				end := writing(t, f, r)
				if name == "a view is new" {
					p.stopped(t)
					p = start(newPipeline(f, sink, store, "a", "c", "b"))
				}
				sink.watch(p.running)
				happens(t, p, sink)
				p.rebuilt(t)
				time.Sleep(5 * time.Second)
				sink.watch(nil)
				end()
				p.caughtUp(t, f)
				p.stopped(t)
				if n := len(sink.differed); n > 0 || sink.compared < 100 {
					t.Errorf("readers saw views disagree %d times in %d, first %s", n, sink.compared, append(sink.differed, "")[0])
				}
				holds(t, f, sink.Reference, "a", "b", "c")
			})
		})
	}
}
