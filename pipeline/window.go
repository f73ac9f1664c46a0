package pipeline

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"

	"replicator"
)

// window records which cells change in the log while a scan reads a chunk. Once the chunk has arrived, the window
// records only the chunk's cells, so that `touched` does not grow while the log reader catches up.
type window struct {
	active  atomic.Bool
	mu      sync.Mutex
	touched map[replicator.Cell]int64 // by cell: log position of the latest change that the log reader delivered
	cells   map[replicator.Cell]bool  // the cells of the chunk that the scan reads; nil: it has not arrived
	low     int64                     // the log's position before the chunk was read
	high    int64                     // the log's position after the chunk was read; 0: the chunk has not arrived
	passed  chan struct{}             // closed once the log reader has reached the position `high`
}

func (w *window) open() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.touched, w.cells, w.high, w.passed = map[replicator.Cell]int64{}, nil, 0, make(chan struct{})
	w.active.Store(true)
}

func (w *window) close() {
	w.active.Store(false)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.touched, w.cells, w.passed = nil, nil, nil
}

func (w *window) touch(c *replicator.Change) {
	if !w.active.Load() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.touched == nil || w.cells != nil && (c.Order <= w.low || !w.cells[c.Cell]) {
		return
	}
	w.touched[c.Cell] = max(w.touched[c.Cell], c.Order)
}

func (w *window) reached(order int64) {
	if !w.active.Load() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.passed != nil && w.high != 0 && order >= w.high {
		close(w.passed)
		w.passed = nil
	}
}

// wait waits until the log reader has reached the position high. It returns those of the given cells that changed in
// the log after the position low. committed is the reader's position.
func (w *window) wait(ctx context.Context, low, high int64, cells map[replicator.Cell]bool, committed *atomic.Int64) (
	map[replicator.Cell]bool, error,
) {
	w.mu.Lock()
	w.low, w.high, w.cells = low, high, cells
	passed := w.passed
	maps.DeleteFunc(w.touched, func(c replicator.Cell, order int64) bool { return order <= low || !cells[c] })
	w.mu.Unlock()
	// Load `committed` only after w.high is set: if the log reader reaches w.high later, `reached` closes `passed`.
	if committed.Load() < high {
		select {
		case <-passed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	touched := make(map[replicator.Cell]bool, len(w.touched))
	for c := range w.touched {
		touched[c] = true
	}
	return touched, nil
}
