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

// brokenSink is a sink that applies nothing while it is broken.
type brokenSink struct {
	replicator.Sink
	broken atomic.Bool
}

func (s *brokenSink) Open(ctx context.Context, source string, views []*replicator.View) (replicator.Target, error) {
	target, err := s.Sink.Open(ctx, source, views)
	return brokenTarget{target, s}, err
}

type brokenTarget struct {
	replicator.Target
	sink *brokenSink
}

func (t brokenTarget) Apply(ctx context.Context, ops []replicator.Op) (replicator.Applied, error) {
	if t.sink.broken.Load() {
		return replicator.Applied{}, errBroken
	}
	return t.Target.Apply(ctx, ops)
}

func TestALookEndsWithTheSessionThatItWasAskedOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, store, sink := newFakeSource(), newMemoryStore(), &brokenSink{Sink: sinktest.NewReference()}
		p := start(newPipeline(f, sink, store, "a"))
		f.commit(fakeChange{replicator.Insert, fakeRow{key: 1, version: 1, body: "x"}})
		p.caughtUp(t, f)
		sink.broken.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := p.Look(ctx, "a", []replicator.Cell{fakeCell(1)}); !errors.Is(err, replicator.ErrNotServing) {
			t.Errorf("a look at a cell whose session failed: %v", err)
		}
		sink.broken.Store(false)
		time.Sleep(time.Minute)
		if err := p.Look(ctx, "a", []replicator.Cell{fakeCell(1)}); err != nil {
			t.Error(err)
		}
		p.stopped(t)
	})
}
