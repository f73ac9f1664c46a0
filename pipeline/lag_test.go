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

// downSink is a sink whose calls fail while it is down.
type downSink struct {
	replicator.Sink
	down atomic.Bool
}

var errDown = errors.New("the sink is down")

func (s *downSink) Marks(ctx context.Context, source string) ([]replicator.Mark, error) {
	if s.down.Load() {
		return nil, errDown
	}
	return s.Sink.Marks(ctx, source)
}

func (s *downSink) Open(ctx context.Context, source string, views []*replicator.View) (replicator.Target, error) {
	if s.down.Load() {
		return nil, errDown
	}
	t, err := s.Sink.Open(ctx, source, views)
	return downTarget{t, s}, err
}

type downTarget struct {
	replicator.Target
	sink *downSink
}

func (t downTarget) Apply(ctx context.Context, ops []replicator.Op) (replicator.Applied, error) {
	if t.sink.down.Load() {
		return replicator.Applied{}, errDown
	}
	return t.Target.Apply(ctx, ops)
}

func (t downTarget) Mark(ctx context.Context, at replicator.Standing) error {
	if t.sink.down.Load() {
		return errDown
	}
	return t.Target.Mark(ctx, at)
}

// During an outage, the lag counts from the oldest change that is not shown. If there is none, it counts from when the
// views had last caught up.
func TestTheLagGrowsThroughAnOutage(t *testing.T) {
	const outage = 5 * time.Minute
	for name, c := range map[string]struct {
		breaks, mends func(f *fakeSource, s *downSink)
		retries       bool
	}{
		"the sink is down": {
			func(_ *fakeSource, s *downSink) { s.down.Store(true) }, func(_ *fakeSource,
				s *downSink) {
				s.down.Store(false)
			}, true},
		"the source is down": {
			func(f *fakeSource, _ *downSink) { f.set(func() { f.broken, f.mute = errDown, errDown }) },
			func(f *fakeSource, _ *downSink) { f.set(func() { f.broken = nil }) }, true},
		"the source's log does not come": {
			func(f *fakeSource, _ *downSink) { f.set(func() { f.behind = 1 }) },
			func(f *fakeSource, _ *downSink) { f.set(func() { f.behind = 0 }); f.commit() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, sink := newFakeSource(), &downSink{Sink: sinktest.NewReference()}
				p := start(newPipeline(f, sink, newMemoryStore(), "a"))
				f.commit(fakeChange{replicator.Insert, fakeRow{key: 1, version: 1, body: "x"}})
				p.caughtUp(t, f)
				time.Sleep(time.Hour) // without a change, so there is no lag
				if lag := p.Status(nil)[0].LagSeconds; lag == nil || *lag != 0 {
					t.Fatalf("before the outage the lag is %v", lag)
				}
				c.breaks(f, sink)
				f.commit(fakeChange{replicator.Insert, fakeRow{key: 1, version: 2, body: "y"}})
				for past := time.Minute; past <= outage; past += time.Minute {
					time.Sleep(time.Minute)
					st := p.Status(nil)[0]
					if st.LagSeconds == nil {
						t.Fatalf("after %s the lag is not known", past)
					}
					if lag := time.Duration(*st.LagSeconds * float64(time.Second)); lag < past-time.Second || lag > past+time.Second {
						t.Errorf("after %s the lag is %s", past, lag)
					}
					if (st.State == replicator.StateRetrying) != c.retries || (st.Error != "") != c.retries {
						t.Errorf("after %s: %s, %q", past, st.State, st.Error)
					}
				}
				c.mends(f, sink)
				p.caughtUp(t, f)
				time.Sleep(time.Second)
				if lag := p.Status(nil)[0].LagSeconds; lag == nil || *lag != 0 {
					t.Errorf("after the outage the lag is %v", lag)
				}
				p.stopped(t)
			})
		})
	}
}

// set changes fields of the source under its lock.
func (f *fakeSource) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}
