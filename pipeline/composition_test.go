package pipeline_test

import (
	"testing"
	"testing/synctest"
	"time"

	"replicator"
	"replicator/sinks/sinktest"
)

// A view that is far behind would take the other views back if it ran with them. So it joins them only when it is known
// to have caught up. It must not join them before the source was asked where its log ends.
func TestAViewThatStandsFarBehindDoesNotTakeOthersBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sink := newFakeSource(), sinktest.NewReference()
		write := func(n int) {
			for i := range n {
				f.commit(fakeChange{replicator.Insert, fakeRow{key: int64(len(f.log)), version: int64(i), body: "x"}})
			}
		}
		write(10)
		pipeline := newPipeline(f, sink, newMemoryStore(), "a", "b")
		pipeline.Interval = time.Hour
		p := start(pipeline)
		p.caughtUp(t, f)
		p.pause(t, "b")
		write(50)
		if err := p.Wait(t.Context(), "60", []string{"a"}); err != nil {
			t.Fatal(err)
		}
		f.set(func() { f.behind = 50 }) // the connection is slow: b gets no changes yet
		p.resume(t, "b")
		time.Sleep(10 * time.Second)
		if st := p.Status(nil); st[0].Applied.Order < 60_000 || st[1].Applied.Order > 10_000 {
			t.Errorf("a stands at %d, b at %d", st[0].Applied.Order, st[1].Applied.Order)
		}
		f.set(func() { f.behind = 0 })
		write(1)
		p.caughtUp(t, f)
		time.Sleep(10 * time.Second)
		p.caughtUp(t, f)
		if st := p.Status(nil); st[0].Applied != st[1].Applied || st[0].State != replicator.StateRunning {
			t.Errorf("they don't run together: %+v", st)
		}
		p.stopped(t)
		holds(t, f, sink, "a", "b")
	})
}
