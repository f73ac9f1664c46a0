package pipeline_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"replicator"
)

// slowSink is a sink whose batches are slow and sometimes fail, before or after they were applied. So a pipeline that
// treats a batch in flight as applied, or as not applied, would be found out.
type slowSink struct {
	replicator.Sink
	mu   sync.Mutex
	rand *rand.Rand
	calm bool // batches are fast now, and don't fail
}

func (s *slowSink) Open(ctx context.Context, source string, views []*replicator.View) (replicator.Target, error) {
	t, err := s.Sink.Open(ctx, source, views)
	if err != nil {
		return nil, err
	}
	return &slowTarget{Target: t, sink: s}, nil
}

func (s *slowSink) roll(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calm {
		return n
	}
	return s.rand.IntN(n)
}

func (s *slowSink) settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calm = true
}

type slowTarget struct {
	replicator.Target
	sink *slowSink
}

var errSink = errors.New("the sink did not answer")

func (t *slowTarget) Apply(ctx context.Context, ops []replicator.Op) (replicator.Applied, error) {
	fate := t.sink.roll(20)
	if fate == 0 {
		return replicator.Applied{}, errSink
	}
	if fate < 10 {
		select {
		case <-time.After(time.Duration(fate) * 150 * time.Millisecond):
		case <-ctx.Done():
			return replicator.Applied{}, context.Cause(ctx)
		}
	}
	applied, err := t.Target.Apply(ctx, ops)
	if err == nil && fate == 10 {
		return replicator.Applied{}, errSink
	}
	return applied, err
}
