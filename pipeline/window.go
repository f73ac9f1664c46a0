package pipeline

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"

	"replicator"
)

// window records which cells the tail touches while a scan reads a chunk. Until the chunk has arrived, it records every
// cell. After that, it records only the chunk's cells, and only changes after the chunk's Low. Otherwise a tail that is
// far behind would fill the window with every cell that it passes.
type window struct {
	active  atomic.Bool
	mu      sync.Mutex
	touched map[replicator.Cell]int64 // by cell: the log position of the tail's latest change
	cells   map[replicator.Cell]bool  // the chunk's cells; nil: the chunk has not arrived
	low     int64                     // the chunk's Low
	high    int64                     // the chunk's High; 0: the chunk has not arrived
	passed  chan struct{}             // closed once the tail has passed the chunk's High
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

// touch records that the tail has read a change.
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

// reached records that the tail has passed a transaction's end.
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

// wait waits until the tail has passed high, and returns which of a chunk's cells the tail touched after low. committed
// is the tail's position.
func (w *window) wait(ctx context.Context, low, high int64, cells map[replicator.Cell]bool, committed *atomic.Int64) (
	map[replicator.Cell]bool, error,
) {
	w.mu.Lock()
	w.low, w.high, w.cells = low, high, cells
	passed := w.passed
	maps.DeleteFunc(w.touched, func(c replicator.Cell, order int64) bool { return order <= low || !cells[c] })
	w.mu.Unlock()
	if committed.Load() < high { // loaded after w.high was set, so a tail that passes high from now on closes passed
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
