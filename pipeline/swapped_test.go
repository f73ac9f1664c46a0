package pipeline_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"replicator"
	"replicator/sinks/sinktest"
)

// A table took another's place, and the views were not compared since: the sink says so where the store is lost, until
// they have been.
func TestAComparisonThatIsDueOutlivesTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(11, 11))
		f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
		history(f, r, 20)
		p := start(newPipeline(f, sink, store, "a"))
		p.caughtUp(t, f)
		p.stopped(t)
		checkpoints, _ := store.Checkpoints(t.Context())
		checkpoints[0].Swapped = 3000
		if err := store.Save(t.Context(), checkpoints); err != nil {
			t.Fatal(err)
		}
		again := func(store replicator.Store, due int64) *started {
			t.Helper()
			history(f, r, 5)
			p := start(newPipeline(f, sink, store, "a"))
			p.caughtUp(t, f)
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
