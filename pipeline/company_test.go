package pipeline_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"replicator"
	"replicator/sinks/sinktest"
)

// Two replicators of the same views notice each other within a minute, and each logs that once. A minute after one has
// ended, the other shows it no more. A program's own marks from before a restart don't count as another replicator's.
func TestASecondReplicatorOfTheSameViewsIsSeenByBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, sink := newFakeSource(), sinktest.NewReference()
		var logs [2]logText
		stores := [2]*memoryStore{newMemoryStore(), newMemoryStore()}
		begin := func(i int) *started {
			p := newPipeline(source, sink, stores[i], "a", "b")
			p.Log = slog.New(slog.NewTextHandler(&logs[i], nil))
			return start(p)
		}
		minute := func() {
			for key := range int64(39) {
				source.commit(fakeChange{replicator.Insert, fakeRow{key: key, version: time.Now().Unix(), body: "x"}})
				time.Sleep(1537 * time.Millisecond) // not a multiple of the marks' interval
			}
		}
		shared := func(p *started, want bool) {
			t.Helper()
			for _, st := range p.Status(nil) {
				if st.Shared != want || st.State != replicator.StateRunning {
					t.Errorf("shared is %t of view %s, want %t: %+v", st.Shared, st.View, want, st)
				}
			}
		}
		first := begin(0)
		first.caughtUp(t, source)
		minute()
		first.stopped(t)
		first = begin(0)
		minute()
		shared(first, false)
		time.Sleep(300 * time.Millisecond)
		second := begin(1)
		minute()
		shared(first, true)
		shared(second, true)
		minute()
		first.stopped(t)
		minute()
		shared(second, false)
		second.stopped(t)
		holds(t, source, sink, "a")
		for i := range logs {
			if n := strings.Count(logs[i].String(), "another replicator also maintains"); n != 1 {
				t.Errorf("replicator %d says it %d times:\n%s", i, n, logs[i].String())
			}
		}
	})
}
