package service

import (
	"maps"
	"slices"
	"sync"
	"time"

	"replicator"
)

// gone is up to when views showed everything, of pipelines that have ended: while no other one is known to go on with
// their source, the views' lag is counted from there. Guarded by its mutex.
type gone struct {
	mu    sync.Mutex
	shown map[string]map[string]time.Time // by source and view
}

// newGone begins with how views stood with the configuration before.
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

// forget says that another pipeline goes on with a source.
func (g *gone) forget(source string, views []*replicator.View) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, v := range views {
		delete(g.shown[source], v.Name)
	}
}

// sources are those of which something is remembered.
func (g *gone) sources() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Collect(maps.Keys(g.shown))
}

// of returns what is remembered of a source, by view.
func (g *gone) of(source string) map[string]time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.shown[source])
}

// lag is a view's with what is remembered of one source; nil: nothing.
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

// lags are a view's with all sources of which something is remembered.
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
