package checkpoint

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"replicator"
)

// index knows which dead letters exist. It has its own lock, so that a look-up never waits for a disk or a server.
type index struct {
	mu      sync.RWMutex
	entries map[letterID]entry
	counts  map[string]int // by view: the number of dead letters; only views that have some
	last    int64          // the last number given to a dead letter
}

type entry struct {
	number int64 // a letter that is saved again gets a new number
	at     int64 // the letter's offset in the file store's log, or its `place` in the MySQL store's table
	size   int64 // the size of the letter's line in the log, in bytes; 0 in the MySQL store
	view   string
	source string
}

func newIndex() *index { return &index{entries: map[letterID]entry{}, counts: map[string]int{}} }

func (x *index) put(id letterID, e entry) entry {
	x.mu.Lock()
	defer x.mu.Unlock()
	before := x.remove(id)
	x.last++
	e.number = x.last
	x.entries[id] = e
	x.counts[e.view]++
	return before
}

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

// replace replaces the contents of x by those of other, which the caller must not use any more. The dead letters get
// new numbers, because a number is never used twice.
func (x *index) replace(other *index) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for id, e := range other.entries {
		e.number += x.last
		other.entries[id] = e
	}
	x.entries, x.counts, x.last = other.entries, other.counts, x.last+other.last
}

func (x *index) get(id letterID) entry {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.entries[id]
}

// of returns the ids of the dead letters that a source's cells have in the view. A view usually has no letters, and
// then the call costs nearly nothing.
func (x *index) of(view, source string, cells []replicator.Cell) []letterID {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.counts[view] == 0 {
		return nil
	}
	var ids []letterID
	for _, c := range cells {
		if id, has := x.find(view, source, c); has {
			ids = append(ids, id)
		}
	}
	return ids
}

// number returns the number of the dead letter that a source's cell has in the view; 0 if there is none. A letter that
// is saved again gets a new number.
func (x *index) number(view, source string, c replicator.Cell) int64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	id, _ := x.find(view, source, c)
	return x.entries[id].number
}

// idIfNumber returns the id of the dead letter that a source's cell has in the view, if the letter has the given
// number. It returns nil if there is no letter, or if it was saved again and so has a new number.
func (x *index) idIfNumber(view, source string, c replicator.Cell, number int64) []letterID {
	x.mu.RLock()
	defer x.mu.RUnlock()
	id, has := x.find(view, source, c)
	if !has || x.entries[id].number != number {
		return nil
	}
	return []letterID{id}
}

// id returns the id that a dead letter of a source's cell in the view has, or would have.
func (x *index) id(view, source string, c replicator.Cell) letterID {
	x.mu.RLock()
	defer x.mu.RUnlock()
	id, _ := x.find(view, source, c)
	return id
}

// find returns the id of the dead letter of a source's cell in the view, and reports whether there is such a letter.
// Ids were once made without the source, and letters from that time keep their id.
func (x *index) find(view, source string, c replicator.Cell) (id letterID, has bool) {
	former := idOf(view, "", c)
	if e, has := x.entries[former]; has && e.source == source {
		return former, true
	}
	id = idOf(view, source, c)
	_, has = x.entries[id]
	return id, has
}

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
