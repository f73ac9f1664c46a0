package pipeline_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"replicator"
	"replicator/sinks/sinktest"
)

// expandingEvaluator returns values that are much larger than the body, like a compressed body.
type expandingEvaluator struct{ bodyEvaluator }

const expanded = 1 << 10

func (e expandingEvaluator) Evaluate(c replicator.Cell, row *replicator.Row) []replicator.Value {
	values := e.bodyEvaluator.Evaluate(c, row)
	for i := range values {
		for j := range values[i].Entries {
			values[i].Entries[j].Fields[0] = strings.Repeat("x", expanded)
		}
	}
	return values
}

// weighingSink records the largest calls of Apply: by bytes of contributed text, and by number of contributions.
type weighingSink struct {
	replicator.Sink
	most, contributions atomic.Int64
}

func (s *weighingSink) Open(ctx context.Context, source string, views []*replicator.View) (replicator.Target, error) {
	t, err := s.Sink.Open(ctx, source, views)
	return &weighingTarget{t, s}, err
}

type weighingTarget struct {
	replicator.Target
	sink *weighingSink
}

func (t *weighingTarget) Apply(ctx context.Context, ops []replicator.Op) (replicator.Applied, error) {
	n, contributions := int64(0), 0
	for _, op := range ops {
		contributions += len(op.Values)
		for _, v := range op.Values {
			for _, e := range v.Entries {
				n += int64(len(e.Fields[0].(string)))
			}
		}
	}
	t.sink.most.Store(max(t.sink.most.Load(), n))
	t.sink.contributions.Store(max(t.sink.contributions.Load(), int64(contributions)))
	return t.Target.Apply(ctx, ops)
}

func TestWhatBodiesComeToIsBoundedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeSource()
		for key := range int64(100) {
			f.commit(fakeChange{replicator.Insert, fakeRow{key: key, version: 1, body: "b"}})
		}
		sink := &weighingSink{Sink: sinktest.NewReference()}
		p := newPipeline(f, sink, newMemoryStore(), "v")
		p.Memory, p.Lanes = 20*expanded, 2 // a batch may hold a quarter of it
		p.StartAt = "earliest"
		p.Compile = func(vs []*replicator.View) (replicator.Evaluator, error) {
			return expandingEvaluator{bodyEvaluator{vs}}, nil
		}
		s := start(p)
		s.caughtUp(t, f)
		s.stopped(t)
		if most := sink.most.Load(); most == 0 || most > 6*expanded {
			t.Errorf("one batch holds %d bytes of contributions, more than a quarter of the budget and a body", most)
		}
		if held := len(sink.Sink.(*sinktest.Reference).Read(fakeView("v"))); held != 100 {
			t.Errorf("%d of 100 cells are held", held)
		}
	})
}

// A cell that feeds many views makes many small contributions, and each needs more memory than its text.
func TestManyViewsOfACellAreBoundedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeSource()
		for key := range int64(100) {
			f.commit(fakeChange{replicator.Insert, fakeRow{key: key, version: 1, body: "b"}})
		}
		var names []string
		for n := range 100 {
			names = append(names, fmt.Sprint("v", n))
		}
		sink := &weighingSink{Sink: sinktest.NewReference()}
		p := newPipeline(f, sink, newMemoryStore(), names...)
		p.Memory, p.Lanes = 4<<20, 2 // a batch may hold 1 MiB
		p.StartAt = "earliest"
		s := start(p)
		s.caughtUp(t, f)
		s.stopped(t)
		if most := sink.contributions.Load(); most == 0 || most > 4000 {
			t.Errorf("one batch has %d contributions", most)
		}
		holds(t, f, sink.Sink.(*sinktest.Reference), "v0")
	})
}
