package pipeline_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"replicator"
	"replicator/pipeline"
	"replicator/sinks/sinktest"
)

// A sweep reads everything in the target and the whole log, for each partition. Calls of Lacks show whether a sweep was
// made.
func TestAFillFromAChangelogIsSweptUnlessTheTargetWasFresh(t *testing.T) {
	for _, c := range []struct {
		name  string
		begin func(t *testing.T, f *fakeSource, log *fakeLog, sink *sinktest.Reference)
		swept bool
	}{
		{"a first fill", func(*testing.T, *fakeSource, *fakeLog, *sinktest.Reference) {}, false},
		{"a log that has dropped records of cells that are gone",
			func(_ *testing.T, _ *fakeSource, log *fakeLog, _ *sinktest.Reference) { log.forgetful.Store(true) }, true},
		{"a fill that was cut short, by a member whose store is not known",
			func(t *testing.T, f *fakeSource, log *fakeLog, sink *sinktest.Reference) {
				target, err := sink.Open(t.Context(), "", []*replicator.View{fakeView("a")})
				if err != nil {
					t.Fatal(err)
				}
				_, err = target.Apply(t.Context(), []replicator.Op{{Cell: fakeCell(7), Version: 3, Order: 1,
					Values: []replicator.Value{{Entries: []replicator.Entry{{Fields: []any{"old"}}}}}}})
				if err != nil {
					t.Fatal(err)
				}
			}, true},
		{"a view that lost its mark, with the store",
			func(t *testing.T, f *fakeSource, log *fakeLog, sink *sinktest.Reference) {
				f.commit(fakeChange{replicator.Insert, fakeRow{7, 3, "old"}})
				log.publish()
				p := start(newPipeline(log, sink, newMemoryStore(), "a"))
				p.caughtUp(t, f)
				p.stopped(t)
				sink.SetMark("", "a", nil)
				f.commit(fakeChange{replicator.Delete, fakeRow{7, 3, "old"}})
				log.publish()
				log.removeTombstones()
			}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, sink := newFakeSource(), sinktest.NewReference()
				log := newFakeLog(f)
				f.commit(fakeChange{replicator.Insert, fakeRow{1, 1, "a"}}, fakeChange{replicator.Insert, fakeRow{2, 1, "b"}})
				log.publish()
				c.begin(t, f, log, sink)
				before := log.asked.Load()
				p := start(newPipeline(log, sink, newMemoryStore(), "a"))
				p.endsWith(t, f, sink, "a")
				if swept := log.asked.Load() > before; swept != c.swept {
					t.Errorf("swept: %t, want %t", swept, c.swept)
				}
			})
		})
	}
}

// No deleted row may stay in the views, however often fills are cut short, and whatever the log drops between two
// attempts.
func TestViewsEqualTheOriginThroughFillsThatAreCutShort(t *testing.T) {
	for seed := range seeds(120) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 21))
				f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
				f.single = seed%2 == 1
				log := newFakeLog(f)
				slow := &slowSink{Sink: sink, rand: rand.New(rand.NewPCG(seed, 22))}
				history(f, r, 40)
				log.publish()
				for range 1 + r.IntN(3) {
					p := start(newPipeline(log, slow, store, "a", "b"))
					time.Sleep(time.Duration(r.IntN(900)) * time.Millisecond)
					history(f, r, r.IntN(10))
					log.publish()
					p.ends(t, true)
					switch r.IntN(4) {
					case 0:
						store = newMemoryStore() // another member of the group continues
					case 1:
						store = newMemoryStore() // another member continues, and the server has evicted the marks
						sink.SetMark("", "a", nil)
						sink.SetMark("", "b", nil)
					}
					history(f, r, r.IntN(10))
					log.publish()
					log.removeTombstones()
				}
				slow.settle()
				p := newPipeline(log, slow, store, "a", "b")
				p.OnLost = "rebuild"
				last := start(p)
				last.endsWith(t, f, sink, "a", "b")
			})
		})
	}
}

// A pipeline that never begins delays the others only for seconds.
func TestPipelinesThatBeginTogetherSearchTheTargetBeforeAnyFillsIt(t *testing.T) {
	for _, c := range []struct {
		name           string
		starters       int
		after          time.Duration // when the second pipeline starts
		atLeast, under time.Duration
	}{
		{"another begins later", 2, 500 * time.Millisecond, 500 * time.Millisecond, time.Second},
		{"another never begins", 3, 0, time.Second, 4 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, sink := newFakeSource(), sinktest.NewReference()
				log := newFakeLog(f)
				f.commit(fakeChange{replicator.Insert, fakeRow{1, 1, "a"}})
				log.publish()
				together, began := pipeline.NewStarters(c.starters), time.Now()
				var all []*started
				for _, view := range []string{"a", "b"} {
					p := newPipeline(log, sink, newMemoryStore(), view)
					p.Starters = together
					all = append(all, start(p))
					time.Sleep(c.after)
				}
				all[0].caughtUp(t, f)
				if took := time.Since(began); took < c.atLeast || took > c.under {
					t.Errorf("it was filled after %v", took)
				}
				for _, p := range all {
					p.caughtUp(t, f)
					p.stopped(t)
				}
				holds(t, f, sink, "a")
				holds(t, f, sink, "b")
			})
		})
	}
}
