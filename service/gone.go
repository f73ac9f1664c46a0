package service

import (
	"maps"
	"slices"
	"sync"
	"time"

	"replicator"
)

// gone remembers, for pipelines that have ended, the time up to which their views were complete. A view's lag counts
// from that time until another pipeline continues with the source. The mutex guards the map.
type gone struct {
	mu    sync.Mutex
	shown map[string]map[string]time.Time // by source and view: the time up to which the view was complete
}

// newGone returns a gone that has the times from the previous configuration's pipelines.
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

// forget removes the times of a source's views. The caller knows that another pipeline continues with the source.
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

// lag returns a view's lag for one source, in seconds; nil if no time is remembered.
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

// lags returns a view's lags for all remembered sources.
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
