package checkpoint

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"replicator"
)

// index knows which dead letters exist, and where: at is an offset into the file store's log, or a place in the order
// of the MySQL store. It has a lock of its own, so that asking whether there are letters never waits for a disk or a
// server.
type index struct {
	mu      sync.RWMutex
	entries map[letterID]entry
	counts  map[string]int // by view; views without letters are not there
}

type entry struct {
	at   int64
	size int64
	view string
}

func newIndex() *index { return &index{entries: map[letterID]entry{}, counts: map[string]int{}} }

// put enters a letter and returns what it replaces.
func (x *index) put(id letterID, e entry) entry {
	x.mu.Lock()
	defer x.mu.Unlock()
	before := x.remove(id)
	x.entries[id] = e
	x.counts[e.view]++
	return before
}

// take removes a letter and returns what was known of it.
func (x *index) take(id letterID) entry {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.remove(id)
}

func (x *index) remove(id letterID) entry {
	e, ok := x.entries[id]
	if !ok {
		return entry{}
	}
	delete(x.entries, id)
	if x.counts[e.view]--; x.counts[e.view] == 0 {
		delete(x.counts, e.view)
	}
	return e
}

// replace makes x know what other knows, and nothing else. other is not used any more.
func (x *index) replace(other *index) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.entries, x.counts = other.entries, other.counts
}

func (x *index) get(id letterID) entry {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.entries[id]
}

// of returns the ids of those cells that have a letter in the view: most often none, which costs next to nothing.
func (x *index) of(view string, cells []replicator.Cell) []letterID {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.counts[view] == 0 {
		return nil
	}
	var ids []letterID
	for _, c := range cells {
		id := idOf(view, c)
		if _, has := x.entries[id]; has {
			ids = append(ids, id)
		}
	}
	return ids
}

// has reports whether a cell has a letter in the view.
func (x *index) has(view string, c replicator.Cell) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	_, has := x.entries[idOf(view, c)]
	return has
}

// known returns those of the ids that letters have, each once.
func (x *index) known(texts []string) []letterID {
	x.mu.RLock()
	defer x.mu.RUnlock()
	ids := make(map[letterID]bool, len(texts))
	for _, text := range texts {
		if id, ok := parseID(text); ok {
			if _, has := x.entries[id]; has {
				ids[id] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(ids))
}

// ordered returns the letters of a view ("": all), oldest first.
func (x *index) ordered(view string) []letterID {
	x.mu.RLock()
	defer x.mu.RUnlock()
	ids := make([]letterID, 0, len(x.entries))
	for id, e := range x.entries {
		if view == "" || e.view == view {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b letterID) int { return cmp.Compare(x.entries[a].at, x.entries[b].at) })
	return ids
}

func (x *index) count() map[string]int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return maps.Clone(x.counts)
}
