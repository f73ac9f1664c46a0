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

// busyStore answers nobody while it is busy.
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

// A machine under load takes long to say how far a paused view was: that it is paused is known all the same.
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
