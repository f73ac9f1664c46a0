package pipeline_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"replicator"
	"replicator/pipeline"
	"replicator/sinks/sinktest"
)

// Plan must return what Run would do, and do nothing.
func TestWhatARunWouldDoIsForeseen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
		f.commit(rows(3)...)
		p := startCaughtUp(t, f, newPipeline(f, sink, store, "same", "refuse", "rebuild", "lost", "gone"))
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
		f.commit(rows(1)...)
		f.purged = 2 // 2 transactions are purged; the views have read only one
		for onLost, want := range map[string]pipeline.Outcome{"stop": pipeline.Refused, "rebuild": pipeline.Refills} {
			p := newPipeline(f, sink, store, "same")
			p.OnLost = onLost
			plan, err := p.Plan(t.Context(), saved)
			if got := plan["same"]; err != nil || got.Outcome != want || !errors.Is(got.Err, replicator.ErrLost) {
				t.Errorf("the log is gone, on_lost = %s: %+v, %v", onLost, got, err)
			}
			if refused, _ := p.Foresee(t.Context(), saved); (refused["same"] != nil) != (onLost == "stop") {
				t.Errorf("the log is gone, on_lost = %s: foreseen is %v", onLost, refused)
			}
		}
		if after, _ := store.Checkpoints(t.Context()); len(after) != len(saved) {
			t.Errorf("%d checkpoints were saved", len(after)-len(saved))
		}
	})
}
