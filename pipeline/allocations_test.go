package pipeline

import (
	"context"
	"runtime"
	"testing"
	"time"

	"replicator"
)

// freeTarget accepts all ops and does nothing, so that only the engine is measured.
type freeTarget struct{ replicator.Target }

func (freeTarget) Apply(context.Context, []replicator.Op) (replicator.Applied, error) {
	return replicator.Applied{}, nil
}

// freeEvaluator returns the same values for every cell, without allocating.
type freeEvaluator struct{ values []replicator.Value }

func (e freeEvaluator) Evaluate(replicator.Cell, *replicator.Row) []replicator.Value { return e.values }

// freeStore has no dead letters.
type freeStore struct{ replicator.Store }

func (freeStore) Raise(context.Context, string, string, []replicator.Cell) error { return nil }

// freeSource is the only source, so it has no name.
type freeSource struct{ replicator.Source }

func (freeSource) Name() string { return "" }

// freeReader has a log of one file.
type freeReader struct{ replicator.Reader }

func (freeReader) File() int64 { return 0 }

// freeLane returns a lane whose source, sink and store allocate nothing.
func freeLane() *lane {
	cfg := &Config{Name: "sink", Lanes: 1, Source: freeSource{}, Store: freeStore{}}
	cfg.setDefaults()
	views := viewSet{{Name: "v", From: []replicator.Feed{{Table: "t"}}}}
	g := &group{
		shared: &shared{cfg: cfg}, views: views, evaluator: freeEvaluator{make([]replicator.Value, 1)},
		progress: newProgress(views, []replicator.Checkpoint{{View: "v"}}), meter: newMeter(1, time.Second),
		forgetting: &forgetting{},
	}
	b := newBudget(cfg.Memory, cfg.Lanes)
	w := &writer{
		group: g, target: freeTarget{}, budget: b, letters: &letters{group: g}, spare: make(chan *opBatch, 1),
		saver: &saver{reader: freeReader{}},
	}
	return newLane(b, &reach{}, w.apply)
}

// The number of allocations per cell in the engine does not depend on the machine, and decides how much work the
// garbage collector has. If you reduce it, lower the limits. If you raise it, say why.
func TestACellAllocatesNoMoreInTheEngineThanItDid(t *testing.T) {
	const (
		allocations = 0.02 // per cell; only a batch allocates
		bytes       = 10   // per cell; only a batch allocates

		cells, times = 4 * maxBatch, 20
	)
	rows := make([]*replicator.Row, cells)
	for i := range rows {
		key, err := replicator.MakeKey(int64(i))
		if err != nil {
			t.Fatal(err)
		}
		rows[i] = &replicator.Row{Cell: replicator.Cell{Table: "t", Key: key}, Version: 1}
	}
	l, order := freeLane(), int64(0)
	pass := func() {
		for _, row := range rows {
			order++
			row.Order = order
			l.add(&replicator.Change{Kind: replicator.Insert, Cell: row.Cell, Version: 1, Order: order,
				Time: time.Unix(order/10, 0), Row: row}, 0)
			l.reach.commit(order, time.Time{})
		}
		for batch := l.take(); len(batch) > 0; batch = l.take() {
			if err := l.apply(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
			l.landed()
		}
	}
	pass() // allocates everything that is reused later
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range times {
		pass()
	}
	runtime.ReadMemStats(&after)
	n := float64(after.Mallocs-before.Mallocs) / (times * cells)
	size := float64(after.TotalAlloc-before.TotalAlloc) / (times * cells)
	if n > allocations || size > bytes {
		t.Errorf("%.3f allocations and %.0f bytes a cell; they were at most %.3f and %d", n, size, allocations, bytes)
	}
	t.Logf("%.3f allocations and %.1f bytes a cell", n, size)
}
