package server

import (
	"context"
	"slices"
	"sync"
	"time"

	"replicator"
)

// watch looks at the program now and then, whether or not somebody asks: the page shows how it was.
type watch struct {
	controller Controller
	metrics    *Metrics
	history    *history

	mu   sync.Mutex // guards what follows
	seen []SourceStats
}

func newWatch(c Controller, m *Metrics) *watch {
	return &watch{controller: c, metrics: m, history: newHistory()}
}

// run looks until ctx is done. What can't be seen is a gap.
func (w *watch) run(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var asked time.Time // the sources, which answer from afar
	for {
		w.look(ctx)
		if time.Since(asked) >= historyStep {
			w.lookAtSources(ctx)
			asked = time.Now()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (w *watch) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookEvery)
	defer cancel()
	_, _ = w.views(ctx) // who asks is told what is wrong
}

// views is the status of views with what is known of how they were.
func (w *watch) views(ctx context.Context) ([]replicator.ViewStatus, error) {
	views, err := w.controller.Status(ctx)
	if err != nil {
		return nil, err
	}
	views = append([]replicator.ViewStatus{}, views...)
	w.history.look(time.Now(), views)
	return views, nil
}

func (s *Server) views(ctx context.Context) ([]replicator.ViewStatus, error) {
	return s.watch.views(ctx)
}

// lookAtSources asks the sources for their positions.
func (w *watch) lookAtSources(ctx context.Context) {
	get := w.metrics.now.sources.Load()
	if get == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	seen := (*get)(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = seen
}

// sources are what the sources were when they were asked last, a few seconds ago.
func (w *watch) sources() []SourceStats {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.seen)
}
