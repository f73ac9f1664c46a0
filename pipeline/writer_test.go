package pipeline_test

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"weak"

	"replicator"
	"replicator/sinks/sinktest"
)

// heldSink is a sink in which each call of Apply waits until the test sends on pass.
type heldSink struct {
	replicator.Sink
	pass chan struct{}
}

func (s heldSink) Open(ctx context.Context, source string, views []*replicator.View) (replicator.Target, error) {
	target, err := s.Sink.Open(ctx, source, views)
	return heldTarget{target, s.pass}, err
}

type heldTarget struct {
	replicator.Target
	pass chan struct{}
}

func (t heldTarget) Apply(ctx context.Context, ops []replicator.Op) (replicator.Applied, error) {
	<-t.pass
	return t.Target.Apply(ctx, ops)
}

// rowWatcher counts the evaluated rows that are still in memory.
type rowWatcher struct {
	replicator.Evaluator
	mu   sync.Mutex
	rows []weak.Pointer[replicator.Row]
}

func (w *rowWatcher) Evaluate(cell replicator.Cell, row *replicator.Row) []replicator.Value {
	w.mu.Lock()
	w.rows = append(w.rows, weak.Make(row))
	w.mu.Unlock()
	return w.Evaluator.Evaluate(cell, row)
}

func (w *rowWatcher) held() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	runtime.GC()
	for _, p := range w.rows {
		if p.Value() != nil {
			n++
		}
	}
	return n
}

// Rows whose size was given back to the budget must not stay in memory. Otherwise the reader would fill the memory a
// second time.
func TestRowsAreFreedAsSoonAsTheyAreApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sink := newFakeSource(), heldSink{sinktest.NewReference(), make(chan struct{})}
		watcher := &rowWatcher{}
		p := newPipeline(f, sink, newMemoryStore(), "a")
		p.Lanes, p.Memory = 1, 64<<20
		p.Compile = func(views []*replicator.View) (replicator.Evaluator, error) {
			watcher.Evaluator = bodyEvaluator{views}
			return watcher, nil
		}
		running := start(p)
		synctest.Wait()
		const rows, piece = 2000, 800 // a call of Apply takes at most piece cells
		f.commit(fakeChange{replicator.Insert, fakeRow{key: rows, version: 1, body: "x"}})
		synctest.Wait() // the lane applies this row; later ones wait, and are taken together
		var changes []fakeChange
		for key := range int64(rows) {
			changes = append(changes, fakeChange{replicator.Insert, fakeRow{key: key, version: 1, body: "x"}})
		}
		f.commit(changes...)
		synctest.Wait()
		for _, applied := range []int{1, 1 + piece, 1 + 2*piece} {
			sink.pass <- struct{}{}
			synctest.Wait()
			if want := min(piece, rows+1-applied); watcher.held() > want {
				t.Errorf("%d rows are applied, %d are in the sink's hands, and %d that were evaluated are held",
					applied, want, watcher.held())
			}
		}
		close(sink.pass)
		running.stopped(t)
	})
}

// firstLetter contributes only the first letter of the body.
type firstLetter struct{ bodyEvaluator }

func (e firstLetter) Evaluate(cell replicator.Cell, row *replicator.Row) []replicator.Value {
	if row != nil {
		row = &replicator.Row{Body: row.Body[:1]}
	}
	return e.bodyEvaluator.Evaluate(cell, row)
}

// The rows that a re-read returns are not taken from the budget, so the number of rows per read is limited.
func TestALookReadsNoMoreRowsAtOnceThanABatchHasRoomFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const cells, body, memory = 100, 20 << 10, 512 << 10
		f, sink := newFakeSource(), heldSink{sinktest.NewReference(), make(chan struct{})}
		var cellsOf []replicator.Cell
		for key := range int64(cells) {
			f.commit(fakeChange{replicator.Insert, fakeRow{key: key, version: 1, body: "x" + strings.Repeat(" ", body)}})
			cellsOf = append(cellsOf, fakeCell(key))
		}
		watcher := &rowWatcher{}
		p := newPipeline(f, sink, newMemoryStore(), "a")
		p.Lanes, p.Memory, p.StartAt = 1, memory, "latest"
		p.Compile = func(views []*replicator.View) (replicator.Evaluator, error) {
			watcher.Evaluator = firstLetter{bodyEvaluator{views}}
			return watcher, nil
		}
		running := start(p)
		synctest.Wait()
		done := make(chan error)
		go func() { done <- p.Look(t.Context(), "a", cellsOf) }()
		most := 0
		for looking := true; looking; {
			synctest.Wait()
			most = max(most, watcher.held())
			select {
			case sink.pass <- struct{}{}:
			case err := <-done:
				if looking = false; err != nil {
					t.Error(err)
				}
			}
		}
		if room := memory/2/body + 1; most > room {
			t.Errorf("a look held %d rows of %d KiB; a batch has room for %d", most, body>>10, room)
		}
		if len(watcher.rows) < cells {
			t.Errorf("%d rows were looked at, of %d", len(watcher.rows), cells)
		}
		close(sink.pass)
		running.stopped(t)
	})
}
