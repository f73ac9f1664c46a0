package pipeline_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"replicator"
	"replicator/sinks/sinktest"
)

// fanOut is a source with a single change, of a joined row that is part of endlessly many entries. Finding a page of
// their cells takes a second.
type fanOut struct {
	*fakeSource
	asked chan string // the after parameter of each call of Referring
}

func (f *fanOut) Open(ctx context.Context, at []replicator.Position, tables ...string) (replicator.Reader, error) {
	r, err := f.fakeSource.Open(ctx, at, tables...)
	if err != nil {
		return nil, err
	}
	return &fanOutReader{r.(*fakeReader), f}, nil
}

type fanOutReader struct {
	*fakeReader
	source *fanOut
}

func (r *fanOutReader) Read(ctx context.Context, h replicator.Handler) error {
	key, _ := replicator.MakeKey(int64(7))
	h.Commit(r.start.Order, time.Time{})
	if r.start.Order == 0 {
		err := h.Refer(ctx, &replicator.Reference{Table: "cell", Lookup: "l", Values: key, Order: 1, Time: time.Now()})
		if err != nil {
			return err
		}
		h.Commit(1000, time.Now())
	}
	<-ctx.Done()
	return ctx.Err()
}

func (r *fanOutReader) Referring(
	_ context.Context, _ []replicator.Reference, after string, _ int,
) ([]replicator.Cell, string, error) {
	time.Sleep(time.Second)
	r.source.asked <- after
	return []replicator.Cell{fakeCell(int64(len(after)))}, after + "x", nil
}

// A stop during a large fan-out waits for one page at most. After the next start, the fan-out begins again.
func TestAStopLeavesALargeFanOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fanOut{fakeSource: newFakeSource(), asked: make(chan string, 100)}
		sink, store := sinktest.NewReference(), newMemoryStore()
		for range 2 {
			p := newPipeline(f, sink, store, "a")
			p.StartAt = "latest"
			p.Views[0].Joins = []replicator.Join{{Name: "other", Table: "other",
				On: []replicator.JoinOn{{Column: "id", Path: "id"}}}}
			s := start(p)
			for _, want := range []string{"", "x", "xx"} {
				if after := <-f.asked; after != want {
					t.Fatalf("a page after %q was asked for, not after %q", after, want)
				}
			}
			began := time.Now()
			s.stopped(t)
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("the stop took %s", took)
			}
			if at := store.checkpoints["a"].Position; at.Order > 0 {
				t.Errorf("the position behind the change is saved: %d", at.Order)
			}
			for len(f.asked) > 0 {
				<-f.asked
			}
		}
	})
}
