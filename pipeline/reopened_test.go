package pipeline_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"replicator"
	"replicator/sinks/sinktest"
)

// swappedSink is a sink in which another program swaps a rebuilt view in.
type swappedSink struct {
	replicator.Sink
	swapped atomic.Bool
}

func (s *swappedSink) Open(ctx context.Context, source string, views []*replicator.View) (replicator.Target, error) {
	target, err := s.Sink.Open(ctx, source, views)
	return swappedTarget{target, s}, err
}

type swappedTarget struct {
	replicator.Target
	sink *swappedSink
}

func (t swappedTarget) Apply(ctx context.Context, ops []replicator.Op) (replicator.Applied, error) {
	if t.sink.swapped.Swap(false) {
		return replicator.Applied{}, fmt.Errorf("a view was swapped in: %w", replicator.ErrOpenAgain)
	}
	return t.Target.Apply(ctx, ops)
}

// After a swap, the sink's other views must be opened again, but nothing is wrong, so no error may be logged.
func TestViewsThatAreOpenedAgainAreNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sink := newFakeSource(), &swappedSink{Sink: sinktest.NewReference()}
		made := newPipeline(f, sink, newMemoryStore(), "a")
		var text logText
		made.Log = slog.New(slog.NewTextHandler(&text, nil))
		p := start(made)
		p.caughtUp(t, f)
		sink.swapped.Store(true)
		history(f, rand.New(rand.NewPCG(11, 11)), 5)
		p.caughtUp(t, f)
		p.stopped(t)
		if log := text.String(); strings.Contains(log, "level=ERROR") || !strings.Contains(log, "opens the views again") {
			t.Errorf("the log says\n%s", log)
		}
	})
}
