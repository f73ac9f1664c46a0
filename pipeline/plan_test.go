package pipeline_test

import (
	"testing"
	"testing/synctest"

	"replicator/pipeline"
	"replicator/sinks/sinktest"
)

// TestWhatARunWouldDoIsForeseen, and nothing of it done.
func TestWhatARunWouldDoIsForeseen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
		f.commit(rows(3)...)
		p := start(newPipeline(f, sink, store, "same", "refuse", "rebuild", "lost", "gone"))
		p.caughtUp(t, f)
		p.stopped(t)
		if err := sink.Forget(t.Context(), "lost"); err != nil {
			t.Fatal(err)
		}
		if err := sink.Forget(t.Context(), "gone"); err != nil {
			t.Fatal(err)
		}
		saved, err := store.Checkpoints(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		next := newPipeline(f, sink, store, "same", "refuse", "rebuild", "new")
		next.Views[1].Fingerprint, next.Views[2].Fingerprint, next.Views[2].OnChange = "2", "2", "rebuild"
		losing := newPipeline(f, sink, store, "lost")
		losing.OnLost = "rebuild"
		stopping := newPipeline(f, sink, store, "gone")
		for p, want := range map[*pipeline.Pipeline]map[string]pipeline.Outcome{
			next: {"same": pipeline.Continues, "refuse": pipeline.Refused, "rebuild": pipeline.Rebuilds,
				"new": pipeline.Begins},
			losing: {"lost": pipeline.Refills}, stopping: {"gone": pipeline.Refused},
		} {
			plan, err := p.Plan(t.Context(), saved)
			if err != nil || len(plan) != len(want) {
				t.Fatalf("%v, %v", plan, err)
			}
			for name, outcome := range want {
				if got := plan[name]; got.Outcome != outcome || (got.Err != nil) != (outcome == pipeline.Refused) {
					t.Errorf("%s: %+v, want %d", name, got, outcome)
				}
			}
		}
		if after, _ := store.Checkpoints(t.Context()); len(after) != len(saved) {
			t.Errorf("%d checkpoints were saved", len(after)-len(saved))
		}
	})
}
