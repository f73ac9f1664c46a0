package pipeline_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"replicator"
	"replicator/pipeline"
	"replicator/sinks/sinktest"
)

// changing returns the sink and the store of a pipeline that was stopped while it rebuilt view a, slowly, to definition
// 2.
func changing(t *testing.T, f *fakeSource) (sink *sinktest.Reference, store *memoryStore) {
	t.Helper()
	sink, store = sinktest.NewReference(), newMemoryStore()
	f.commit(rows(100)...)
	p := startCaughtUp(t, f, newPipeline(f, sink, store, "a", "b"))
	p.stopped(t)
	next := newPipeline(f, sink, store, "a", "b")
	next.Views[0].Fingerprint, next.Views[0].OnChange, next.Rate = "2", "rebuild", 10
	p = start(next)
	time.Sleep(4 * time.Second)
	if st := p.Status(nil)[0]; st.State != replicator.StateRebuilding {
		t.Fatalf("it is not being rebuilt: %+v", st)
	}
	p.stopped(t)
	return sink, store
}

func TestARebuildToTheDefinitionOfTheFileGoesOnThoughTheFileNowRefusesChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeSource()
		sink, store := changing(t, f)
		var log logText
		next := newPipeline(f, sink, store, "a", "b")
		next.Views[0].Fingerprint, next.Rate = "2", 10
		next.Log = slog.New(slog.NewTextHandler(&log, nil))
		saved, _ := store.Checkpoints(t.Context())
		plan, err := next.Plan(t.Context(), saved)
		if a := plan["a"]; err != nil || a.Outcome != pipeline.Continues || !a.Rebuilding || plan["b"].Rebuilding {
			t.Errorf("planned: %+v, %v", plan, err)
		}
		p := start(next)
		time.Sleep(time.Second)
		if st := p.Status(nil)[0]; st.State != replicator.StateRebuilding || st.Error != "" {
			t.Errorf("while it is rebuilt: %+v", st)
		}
		p.caughtUp(t, f) // a wait must not end with an error
		p.stopped(t)
		if strings.Contains(log.String(), "level=ERROR") {
			t.Errorf("logged:\n%s", &log)
		}
		holds(t, f, sink, "a")
	})
}

func TestARebuildToAnotherDefinitionThanTheFilesDoesNotRunTheView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeSource()
		sink, store := changing(t, f)
		next := newPipeline(f, sink, store, "a", "b")
		next.Views[0].Fingerprint = "3"
		saved, _ := store.Checkpoints(t.Context())
		plan, err := next.Plan(t.Context(), saved)
		if a := plan["a"]; err != nil || a.Outcome != pipeline.Refused {
			t.Errorf("planned: %+v, %v", plan, err)
		}
		p := start(next)
		time.Sleep(time.Second)
		if st := p.Status(nil)[0]; st.State != replicator.StateFailed {
			t.Errorf("state %s, want failed", st.State)
		}
		p.stopped(t)
	})
}

// Until a changed view is rebuilt, it shows its old definition's contents, which are not kept up to date. Its status
// must say so, and its lag must grow.
func TestWhatShowsAnEarlierDefinitionUntilItIsRebuiltIsNotKeptUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeSource()
		sink, store := changing(t, f)
		next := newPipeline(f, sink, store, "a", "b")
		next.Views[0].Fingerprint, next.Views[0].OnChange, next.Rate = "2", "rebuild", 10
		p := start(next)
		time.Sleep(4 * time.Second)
		a, b := p.Status(nil)[0], p.Status(nil)[1]
		if a.State != replicator.StateRebuilding || !a.Frozen || a.KeptUp() || b.Frozen || !b.KeptUp() {
			t.Errorf("while it is rebuilt: %+v and %+v", a, b)
		}
		lagged(t, a, 8*time.Second) // since the previous process got the new definition
		p.rebuilt(t)
		p.rebuild(t, pipeline.BySwap, "a")
		time.Sleep(2 * time.Second)
		for range 300 { // also during the swap
			if st := p.Status(nil)[0]; st.Frozen {
				t.Fatalf("while one of its definition stands in for it: %+v", st)
			}
			time.Sleep(50 * time.Millisecond)
		}
		p.rebuilt(t)
		p.stopped(t)
	})
}
