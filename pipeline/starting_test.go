package pipeline_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"replicator"
	"replicator/pipeline"
	"replicator/sinks/sinktest"
)

// During an outage at the start, a pause succeeds at once, and is still in effect when the outage ends. So are pauses
// from before a new configuration.
func TestAPauseInAnOutageAtTheStartIsTakenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sink := newFakeSource(), &downSink{Sink: sinktest.NewReference()}
		f.commit(rows(3)...)
		sink.down.Store(true)
		c := newPipeline(f, sink, newMemoryStore(), "a", "b", "c", "d").Config
		c.Paused = []string{"c", "d"}
		p := start(pipeline.New(c))
		time.Sleep(time.Minute)
		asked := time.Now()
		for _, err := range []error{
			p.Pause(t.Context(), "a"), p.Pause(t.Context(), "a"), p.Pause(t.Context(), "b"),
			p.Resume(t.Context(), "b"), p.Resume(t.Context(), "d"),
		} {
			if err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(asked); took > 0 {
			t.Errorf("it took %s", took)
		}
		areIn(t, p, replicator.StatePaused, replicator.StateRetrying, replicator.StatePaused, replicator.StateRetrying)
		sink.down.Store(false)
		time.Sleep(time.Minute)
		areIn(t, p, replicator.StatePaused, replicator.StateRunning, replicator.StatePaused, replicator.StateRunning)
		for _, view := range []string{"a", "c"} {
			if err := p.Resume(t.Context(), view); err != nil {
				t.Error(err)
			}
		}
		p.caughtUp(t, f)
		holds(t, f, sink.Sink.(*sinktest.Reference), "a")
		holds(t, f, sink.Sink.(*sinktest.Reference), "c")
		p.stopped(t)
	})
}

func areIn(t *testing.T, p *started, states ...string) {
	t.Helper()
	for i, st := range p.Status(nil) {
		if st.State != states[i] {
			t.Errorf("view %s is %s (%s), want %s", st.View, st.State, st.Error, states[i])
		}
	}
}

// During an outage at the start, a request to rebuild fails at once with the reason.
func TestARebuildInAnOutageAtTheStartIsToldWhatIsWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sink := newFakeSource(), &downSink{Sink: sinktest.NewReference()}
		sink.down.Store(true)
		p := start(newPipeline(f, sink, newMemoryStore(), "a"))
		time.Sleep(time.Minute)
		asked := time.Now()
		err := p.Rebuild(t.Context(), []string{"a"}, pipeline.BySwap, "")
		if !errors.Is(err, replicator.ErrNotServing) || !errors.Is(err, errDown) || time.Since(asked) > 0 {
			t.Errorf("after %s: %v", time.Since(asked), err)
		}
		sink.down.Store(false)
		p.caughtUp(t, f)
		if err := p.Rebuild(t.Context(), []string{"a"}, pipeline.BySwap, ""); err != nil {
			t.Error(err)
		}
		p.stopped(t)
	})
}

// After an outage, views may run separately for a while, and disagree. Until they run together again, they must not all
// be shown as running.
func TestAfterAnOutageViewsThatRunApartAreNotBothShownAsRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sink := newFakeSource(), &downSink{Sink: sinktest.NewReference()}
		f.commit(rows(3)...)
		p := start(newPipeline(f, sink, newMemoryStore(), "a", "b", "c"))
		p.caughtUp(t, f)
		for outage := range 10 {
			sink.down.Store(true)
			f.commit(rows(3)...)
			time.Sleep(20 * time.Millisecond)
			for _, err := range []error{p.Pause(t.Context(), "a"), p.Resume(t.Context(), "a")} {
				if err != nil {
					t.Error(err)
				}
			}
			time.Sleep(time.Duration(30*outage) * time.Millisecond)
			sink.down.Store(false)
			agreeOnceShownSo(t, p)
		}
		p.stopped(t)
	})
}

// agreeOnceShownSo fails the test if some view is not shown as running after all views were.
func agreeOnceShownSo(t *testing.T, p *started) {
	t.Helper()
	together := false
	for range 10_000 {
		time.Sleep(time.Millisecond)
		apart := ""
		for _, st := range p.Status(nil) {
			if st.State != replicator.StateRunning {
				apart = st.View + " as " + st.State
			}
		}
		if together && apart != "" {
			t.Errorf("all views were shown as running, and then %s", apart)
			return
		}
		together = together || apart == ""
	}
	if !together {
		t.Error("the views never ran together")
	}
}
