package elastic

import (
	"sync"

	"replicator"
)

// memory knows how documents were when this target wrote them last, of those written lately: an update of one then
// costs one request instead of two. What it says may be out of date. A write is conditional on it, so it then fails and
// the document is read; and what it takes for stale is read first.
type memory struct {
	mu         sync.Mutex
	young, old map[place]memo
}

// place is a document's: a view, and an id in its index.
type place struct {
	view int
	id   string
}

// memo is what is remembered of a document with one cell.
type memo struct {
	slot      string
	state     replicator.State
	seq, term int64
}

// maxYoung is how many documents the younger half holds, some 150 bytes each. The older half goes when it is full.
const maxYoung = 50_000

func (m *memory) get(p place) (memo, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d, ok := m.young[p]; ok {
		return d, true
	}
	d, ok := m.old[p]
	return d, ok
}

// note remembers a document that was written, and forgets one whose write failed.
func (m *memory) note(d *document) {
	if d.keeper.merged {
		return // fields of other cells would have to be remembered, too
	}
	c := d.changes[0]
	p := place{c.view, d.id}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.old, p)
	s := d.next[c.slot]
	if !d.written || s == nil {
		delete(m.young, p)
		return
	}
	if m.young == nil || len(m.young) >= maxYoung {
		m.young, m.old = map[place]memo{}, m.young
	}
	m.young[p] = memo{slot: c.slot, state: s.state, seq: d.seq, term: d.term}
}

// recall takes what is remembered of documents for known.
func (b *batch) recall() {
	for _, d := range b.documents {
		if d.keeper.merged {
			continue
		}
		c := d.changes[0]
		m, ok := b.target.memory.get(place{c.view, d.id})
		if !ok || m.slot != c.slot {
			continue
		}
		d.known, d.remembered, d.exists, d.seq, d.term = true, true, true, m.seq, m.term
		d.read = contents{m.slot: {key: c.do.Cell.Key, state: m.state}}
	}
}
