package elastic

import (
	"slices"

	"replicator"
	"replicator/sinks/judge"
)

// memory knows how documents were when this target wrote them last, of those written lately: an update of one then
// costs one request instead of two. What it says may be out of date. A write is conditional on it, so it then fails and
// the document is read; and what it takes for stale is read first.
type memory struct{ *judge.Lately[address, memo] }

// address is where a document is: in a view, by its id.
type address struct {
	view int
	id   string
}

// memo is what is remembered of a document with one cell.
type memo struct {
	slot      string
	state     replicator.State
	seq, term int64
}

// remembered is how many documents are remembered at least, some 150 bytes each.
const remembered = 50_000

func newMemory() memory { return memory{judge.NewLately[address, memo](remembered)} }

// note remembers a document that was written, and forgets one whose write failed.
func (m memory) note(d *document) {
	if d.keeper.merged {
		return // fields of other cells would have to be remembered, too
	}
	at, name := address{d.keeper.place, d.id}, d.changes[0].slot.name
	s := d.next.find(name)
	if !d.written || s == nil {
		m.Forget(at)
		return
	}
	m.Note(at, memo{slot: name, state: s.State, seq: d.seq, term: d.term})
}

// recall takes what is remembered of documents for known.
func (b *batch) recall() {
	for _, d := range b.documents {
		if d.keeper.merged {
			continue
		}
		s := &d.changes[0].slot
		m, ok := b.target.memory.Get(address{d.keeper.place, d.id})
		if !ok || m.slot != s.name {
			continue
		}
		d.known, d.remembered, d.exists, d.seq, d.term = true, true, true, m.seq, m.term
		d.read = contents{{name: s.name, key: s.key, Known: judge.Known{State: m.state}}}
	}
}

// guess takes documents for new where most have been lately: a create then costs one request, and one more where it is
// wrong. A look is at a cell that is known, and of what is below the horizon it has to be known what stands there.
func (b *batch) guess() {
	if !b.target.novelty.Likely() {
		return
	}
	for _, d := range b.documents {
		d.known = d.known || !slices.ContainsFunc(d.changes, func(c change) bool {
			return b.ops[c.op].AsOf != 0 || b.ops[c.op].Order < d.horizon
		})
	}
}

// learn notes how many documents were new.
func (b *batch) learn() {
	created, others := 0, 0
	for _, d := range b.documents {
		switch {
		case !d.exists:
			created++
		case !d.remembered:
			others++
		}
	}
	b.target.novelty.Learn(created, others)
}
