package pipeline_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"replicator"
	"replicator/sinks/sinktest"
)

// lacking is a source that was opened for some views. While lacks is set, a column of view b is missing.
type lacking struct {
	*fakeSource
	views []string
	lacks *atomic.Bool
}

func (s lacking) Open(ctx context.Context, at []replicator.Position, tables ...string) (replicator.Reader, error) {
	if s.lacks.Load() && slices.Contains(s.views, "b") {
		return nil, replicator.OfView(replicator.Fatal(errors.New("there is no column y")), "b")
	}
	return s.fakeSource.Open(ctx, at, tables...)
}

// A run opens the source with the columns that its own views need. So a column that is missing for one view stops no
// other view of the table. The failed view continues from its position when the column is back.
func TestASourceIsOpenedAsTheViewsOfARunNeedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(6, 6))
		f, sink, store, lacks := newFakeSource(), sinktest.NewReference(), newMemoryStore(), &atomic.Bool{}
		pipeline := newPipeline(f, sink, store, "a", "b", "c")
		pipeline.SourceOf = func(views []*replicator.View) (replicator.Source, error) {
			return lacking{f, viewNames(views), lacks}, nil
		}
		history(f, r, 20)
		lacks.Store(true)
		p := start(pipeline)
		p.states(t, map[string]string{
			"a": replicator.StateRunning, "b": replicator.StateFailed, "c": replicator.StateRunning,
		})
		history(f, r, 20)
		if err := p.Wait(t.Context(), "40", []string{"a", "c"}); err != nil {
			t.Fatal(err)
		}
		holds(t, f, sink, "a", "c")
		lacks.Store(false)
		p.states(t, map[string]string{
			"a": replicator.StateRunning, "b": replicator.StateRunning, "c": replicator.StateRunning,
		})
		p.endsWith(t, f, sink, "b")
	})
}
