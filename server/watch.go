package server

import (
	"context"
	"slices"
	"sync"
	"time"

	"replicator"
)

// watch observes the program at regular intervals, so that the page can show the last hour even if it was not open.
type watch struct {
	controller Controller
	metrics    *Metrics
	history    *history

	mu   sync.Mutex // guards the fields below
	seen []SourceStats
}

func newWatch(c Controller, m *Metrics) *watch {
	return &watch{controller: c, metrics: m, history: newHistory()}
}

// run observes the program until ctx is done. A failed observation leaves a gap in the history.
func (w *watch) run(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var asked time.Time // when the sources were last asked; they are remote, so they are asked only every historyStep
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
	_, _ = w.views(ctx) // the error is ignored here, because a client that asks for the status gets the same error
}

// views returns the status of views, and records it in the history.
func (w *watch) views(ctx context.Context) ([]replicator.ViewStatus, error) {
	views, err := w.controller.Status(ctx)
	if err != nil {
		return nil, err
	}
	views = append([]replicator.ViewStatus{}, views...)
	w.history.record(time.Now(), views)
	return views, nil
}

func (s *Server) views(ctx context.Context) ([]replicator.ViewStatus, error) {
	return s.watch.views(ctx)
}

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

// sources returns the stats that the sources had when they were last asked, some seconds ago.
func (w *watch) sources() []SourceStats {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.seen)
}
