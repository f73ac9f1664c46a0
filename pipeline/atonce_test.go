package pipeline_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"replicator"
	"replicator/pipeline"
)

// slowServer calls asked after each question for the log's end, and opens before each Open.
type slowServer struct {
	fakeServer
	asked, opens func()
}

func (s slowServer) Latest(ctx context.Context, known []replicator.Position) (replicator.Position, error) {
	at, err := s.fakeServer.Latest(ctx, known)
	s.asked()
	return at, err
}

func (s slowServer) Open(ctx context.Context, known []replicator.Position, tables ...string) (replicator.Reader, error) {
	s.opens()
	return s.fakeServer.Open(ctx, known, tables...)
}

// Two replicators begin a view, on two servers, before either of them has marked it. They must not use the same epoch
// for the Orders of two logs. The replicator that marks second takes the view over.
func TestTwoReplicatorsDoNotBeginAViewInOneEpoch(t *testing.T) {
	for _, planned := range []bool{true, false} {
		t.Run(fmt.Sprint("the second one has only planned where it begins: ", planned), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRivals(t)
				r.update()
				var first *started
				other := sync.OnceFunc(func() {
					first = r.start(0, "A")
					first.caughtUp(t, r.source)
				})
				slow := slowServer{fakeServer{r.source, "B"}, func() {}, other}
				if planned {
					slow.asked, slow.opens = other, func() {}
				}
				second := start(newPipeline(slow, r.sink, r.stores[1], "a"))
				r.isIn(second, replicator.StateRunning, 10*time.Second)
				r.isIn(first, replicator.StateFailed, 10*time.Second)
				r.update()
				second.caughtUp(t, r.source)
				if got := r.epoch(); got != 1 {
					t.Errorf("it is epoch %d", got)
				}
				holds(t, r.source, r.sink, "a")
				first.stopped(t)
				second.stopped(t)
			})
		})
	}
}

// Another replicator takes over a view that is being filled, and fills it. The view then counts as filled.
func TestAFillThatAnotherReplicatorHasOvertakenIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRivals(t)
		r.update()
		first := r.start(0, "A")
		first.caughtUp(t, r.source)
		first.stopped(t)
		for name, c := range r.stores[0].checkpoints { // as if the fill had been interrupted
			c.Fill = map[string]replicator.Progress{}
			for _, table := range replicator.Feeding([]*replicator.View{fakeView("a")}) {
				c.Fill[table] = replicator.Progress{}
			}
			r.stores[0].checkpoints[name] = c
		}
		second := r.start(1, "B")
		second.caughtUp(t, r.source)
		second.rebuild(t, pipeline.InPlace, "a")
		time.Sleep(time.Minute)
		second.caughtUp(t, r.source)
		second.stopped(t)
		r.update()
		again := r.start(0, "A")
		r.isIn(again, replicator.StateRunning, 10*time.Second)
		again.caughtUp(t, r.source)
		holds(t, r.source, r.sink, "a")
		if got := r.epoch(); got != 2 {
			t.Errorf("it is epoch %d", got)
		}
		again.stopped(t)
	})
}
