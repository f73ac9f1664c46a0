package replicator_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"replicator"
	"replicator/sinks/sinktest"
)

// otherView reads a table that the fake source has no rows of.
func otherView(name string) *replicator.View {
	v := fakeView(name)
	v.From = []replicator.Feed{{Table: "other"}}
	return v
}

// A table that was emptied without a word of its rows stops the views that read it, and no others; also after a restart, which
// finds them at one place.
func TestATableThatCannotBeFollowedStopsOnlyTheViewsThatReadIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(4, 4))
		f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
		begin := func() *started {
			p := newPipeline(f, sink, store, "a", "c")
			p.Views = append(p.Views, otherView("b"))
			return start(p)
		}
		history(f, r, 20)
		p := begin()
		p.caughtUp(t, f)
		f.mu.Lock()
		f.emptied = len(f.log)
		f.mu.Unlock()
		for range 2 {
			history(f, r, 10)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			if err := p.Wait(ctx, "30", []string{"a", "c"}); err != nil {
				t.Fatal(err)
			}
			cancel()
			time.Sleep(5 * time.Second)
			for _, st := range p.Status(nil) {
				if want := st.View == "b"; want != (st.State == replicator.StateFailed) || want != strings.Contains(st.Error, "truncated") {
					t.Errorf("view %s is %s (%s)", st.View, st.State, st.Error)
				}
			}
			p.stopped(t)
			holds(t, f, sink, "a")
			holds(t, f, sink, "c")
			p = begin()
		}
		p.stopped(t)
	})
}

// With on_lost = "rebuild" such views are filled anew, and run with the others again.
func TestATableThatCannotBeFollowedIsFilledAnewWhereTheConfigurationSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(5, 5))
		f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
		pipeline := newPipeline(f, sink, store, "a")
		pipeline.Views, pipeline.OnLost = append(pipeline.Views, otherView("b")), "rebuild"
		history(f, r, 20)
		p := start(pipeline)
		p.caughtUp(t, f)
		f.mu.Lock()
		f.emptied = len(f.log)
		f.mu.Unlock()
		history(f, r, 10)
		time.Sleep(10 * time.Second)
		p.caughtUp(t, f)
		for _, st := range p.Status(nil) {
			if st.State != replicator.StateRunning {
				t.Errorf("view %s is %s (%s)", st.View, st.State, st.Error)
			}
		}
		p.stopped(t)
		holds(t, f, sink, "a")
	})
}
