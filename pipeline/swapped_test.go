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

// After a table was replaced by another one, its views must be compared. If the store is lost, the sink's mark still
// says so, until the views have been compared.
func TestAComparisonThatIsDueOutlivesTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(11, 11))
		f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
		history(f, r, 20)
		p := startCaughtUp(t, f, newPipeline(f, sink, store, "a"))
		p.stopped(t)
		checkpoints, _ := store.Checkpoints(t.Context())
		checkpoints[0].Swapped = 3000
		if err := store.Save(t.Context(), checkpoints); err != nil {
			t.Fatal(err)
		}
		again := func(store replicator.Store, due int64) *started {
			t.Helper()
			history(f, r, 5)
			p := startCaughtUp(t, f, newPipeline(f, sink, store, "a"))
			if at := p.Swapped()["a"]; at != due {
				t.Errorf("the view is to be compared since %d, want %d", at, due)
			}
			return p
		}
		again(store, 3000).stopped(t)
		p = again(newMemoryStore(), 3000)
		p.Compared("a", 3000)
		p.stopped(t)
		again(newMemoryStore(), 0).stopped(t)
	})
}

// A row changed, and the log did not list the change. The live view has been compared with the source since, but its
// shadow has not. So the shadow must not be swapped in without a second fill.
func TestARebuiltViewIsNotSwappedInWithoutWhatTheLogDidNotTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, store := newFakeSource(), newMemoryStore()
		sink := &failingSwaps{Reference: sinktest.NewReference()}
		for key := range int64(20) {
			f.commit(fakeChange{replicator.Insert, fakeRow{key: key, version: 1, body: fmt.Sprint("row ", key)}})
		}
		next := newPipeline(f, sink, store, "a", "b")
		next.OnUnlogged = pipeline.Repair
		p := start(next)
		p.caughtUp(t, f)
		p.rebuild(t, pipeline.BySwap, "a")
		for sink.swapped.Load() == 0 { // the swap fails, and is tried again later
			time.Sleep(100 * time.Millisecond)
		}
		f.untold = 20
		f.commit(fakeChange{replicator.Insert, fakeRow{key: 7, version: 2, body: "untold"}})
		p.caughtUp(t, f)
		compared(t, p, "a", 7)
		p.rebuilt(t)
		if _, due := p.Swapped()["a"]; due {
			t.Error("the view is to be compared again: it was swapped for one that lacks what the log didn't tell")
		}
		compared(t, p, "b", 7)
		p.stopped(t)
		holds(t, f, sink.Reference, "a", "b")
	})
}

// compared compares a view with the source, by re-reading the cell that changed.
func compared(t *testing.T, p *started, view string, key int64) {
	t.Helper()
	at := p.Swapped()[view]
	if at == 0 {
		t.Errorf("view %s is not to be compared", view)
	}
	if err := p.Look(t.Context(), view, []replicator.Cell{fakeCell(key)}); err != nil {
		t.Fatal(err)
	}
	p.Compared(view, at)
}
