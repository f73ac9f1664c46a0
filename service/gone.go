package service

import (
	"maps"
	"slices"
	"sync"
	"time"

	"replicator"
)

// gone remembers up to which time views were complete when their pipelines ended. A view's lag counts from that time
// until another pipeline reads the source. mu guards the map.
type gone struct {
	mu    sync.Mutex
	shown map[string]map[string]time.Time // by source and view: the time up to which the view was complete
}

func newGone(before map[string]handedOn) *gone {
	g := &gone{shown: map[string]map[string]time.Time{}}
	for source, of := range before {
		g.remember(source, of.shown)
	}
	return g
}

func (g *gone) remember(source string, shown map[string]time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shown[source] == nil {
		g.shown[source] = map[string]time.Time{}
	}
	maps.Copy(g.shown[source], shown)
}

// forget removes, for a source, the times up to which views were complete. Another pipeline reads the source now.
func (g *gone) forget(source string, views []*replicator.View) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, v := range views {
		delete(g.shown[source], v.Name)
	}
}

func (g *gone) sources() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Collect(maps.Keys(g.shown))
}

func (g *gone) of(source string) map[string]time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.shown[source])
}

// lag returns how many seconds a view lags behind a source that no pipeline reads any more; nil if that is unknown.
func (g *gone) lag(source, view string) *float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	at, known := g.shown[source][view]
	if !known {
		return nil
	}
	seconds := time.Since(at).Seconds()
	return &seconds
}

// lags returns how many seconds the view lags behind each source that no pipeline reads any more.
func (g *gone) lags(view string) (all []float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, of := range g.shown {
		if at, known := of[view]; known {
			all = append(all, time.Since(at).Seconds())
		}
	}
	return all
}
