package pipeline_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"replicator"
	"replicator/sinks/sinktest"
)

// fileSink fails the test if rows are applied while the saved position does not name the log's latest file.
type fileSink struct {
	replicator.Sink
	t      *testing.T
	source *fakeSource
	store  *memoryStore

	applied int
}

func (s *fileSink) Open(ctx context.Context, source string, views []*replicator.View) (replicator.Target, error) {
	target, err := s.Sink.Open(ctx, source, views)
	return &fileTarget{target, s}, err
}

type fileTarget struct {
	replicator.Target
	sink *fileSink
}

func (f *fileTarget) Apply(ctx context.Context, ops []replicator.Op) (replicator.Applied, error) {
	f.sink.source.mu.Lock()
	f.sink.applied++
	file := f.sink.source.file
	f.sink.source.mu.Unlock()
	saved, err := f.sink.store.Checkpoints(ctx)
	if err != nil || len(saved) != 1 || file > 0 && !strings.HasSuffix(saved[0].Position.Token, fmt.Sprintf("+%d", file)) {
		f.sink.t.Errorf("rows of file %d are applied, and saved is %+v, %v", file, saved, err)
	}
	return f.Target.Apply(ctx, ops)
}

// Before rows from a new log file are applied, a position that names the file must be saved.
func TestAFileIsNamedBeforeItsRowsAreApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, store := newFakeSource(), newMemoryStore()
		sink := &fileSink{Sink: sinktest.NewReference(), t: t, source: f, store: store}
		f.commit(rows(1)...)
		p := startCaughtUp(t, f, newPipeline(f, sink, store, "a"))
		for file := range 3 {
			f.set(func() { f.file = file + 1 })
			f.commit(fakeChange{replicator.Insert, fakeRow{key: int64(file), version: 2, body: "y"}})
			p.caughtUp(t, f)
		}
		p.stopped(t)
		if sink.applied < 4 {
			t.Errorf("%d batches were applied", sink.applied)
		}
	})
}
