package checkpoint

import (
	"cmp"
	"maps"
	"slices"

	"replicator"
)

// index knows which dead letters exist, and where: at is an offset into the file store's log, or a place in the order of
// the MySQL store.
type index struct {
	entries map[letterID]entry
	counts  map[string]int // by view; views without letters are not there
}

type entry struct {
	at   int64
	size int64
	view string // shared: see put
}

func newIndex() *index { return &index{entries: map[letterID]entry{}, counts: map[string]int{}} }

// put enters a letter and returns what it replaces.
func (x *index) put(id letterID, e entry) entry {
	before := x.take(id)
	x.entries[id] = e
	x.counts[e.view]++
	return before
}

// take removes a letter and returns what was known of it.
func (x *index) take(id letterID) entry {
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

// of returns the ids of those cells that have a letter in the view: most often none, which costs nothing.
func (x *index) of(view string, cells []replicator.Cell) []letterID {
	if x.counts[view] == 0 {
		return nil
	}
	var ids []letterID
	for _, c := range cells {
		if id := idOf(view, c); x.has(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

func (x *index) has(id letterID) bool { _, ok := x.entries[id]; return ok }

// known returns those of the ids that letters have, each once.
func (x *index) known(texts []string) []letterID {
	var ids []letterID
	for _, text := range texts {
		if id, ok := parseID(text); ok && x.has(id) && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// ordered returns the letters of a view ("": all), oldest first.
func (x *index) ordered(view string) []letterID {
	ids := make([]letterID, 0, len(x.entries))
	for id, e := range x.entries {
		if view == "" || e.view == view {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b letterID) int { return cmp.Compare(x.entries[a].at, x.entries[b].at) })
	return ids
}

func (x *index) count() map[string]int { return maps.Clone(x.counts) }
