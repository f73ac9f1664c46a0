package pipeline_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"replicator"
	"replicator/sinks/sinktest"
)

// busyStore does not answer while it is busy.
type busyStore struct {
	*memoryStore
	busy atomic.Bool
}

func (s *busyStore) Checkpoints(ctx context.Context) ([]replicator.Checkpoint, error) {
	if s.busy.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.memoryStore.Checkpoints(ctx)
}

// On a machine under load, reading the position of a paused view may time out. Wait must still report that the view is
// paused.
func TestAWaitForAPausedViewSaysSoThoughItsTimeRanOutInAQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sink, store := newFakeSource(), sinktest.NewReference(), &busyStore{memoryStore: newMemoryStore()}
		f.commit(fakeChange{replicator.Insert, fakeRow{key: 1, version: 1, body: "x"}})
		p := startCaughtUp(t, f, newPipeline(f, sink, store, "a"))
		p.pause(t, "a")
		store.busy.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.Wait(ctx, "1", []string{"a"}); !errors.Is(err, replicator.ErrPaused) {
			t.Errorf("it ends with %v", err)
		}
		store.busy.Store(false)
		p.stopped(t)
	})
}
