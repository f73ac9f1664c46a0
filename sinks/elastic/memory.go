package elastic

import (
	"slices"

	"replicator"
	"replicator/sinks/judge"
)

// memory remembers documents that this target wrote lately, so that an update costs one request instead of two. If
// memory is out of date, the conditional write fails, and the document is read. The document is also read if a change
// is stale according to memory.
type memory struct{ *judge.Lately[address, memo] }

type address struct {
	view int
	id   string
}

// memo is what memory keeps about a document with one cell.
type memo struct {
	slot      string
	state     replicator.State
	seq, term int64
}

// remembered is the minimum number of documents that memory keeps, at some 150 bytes each.
const remembered = 50_000

func newMemory() memory { return memory{judge.NewLately[address, memo](remembered)} }

// note remembers a document that was written, and forgets a document whose write failed.
func (m memory) note(d *document) {
	if d.keeper.merged {
		return // memory would have to keep the other cells' fields, too
	}
	at, name := address{d.keeper.place, d.id}, d.changes[0].slot.name
	s := d.next.find(name)
	if !d.written || s == nil {
		m.Forget(at)
		return
	}
	m.Note(at, memo{slot: name, state: s.State, seq: d.seq, term: d.term})
}

// recall fills in what memory has of the batch's documents, so that they need not be read.
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

// guess assumes that documents are new if most were new lately, so that a create costs one request instead of two. It
// does not guess about documents with a reset, which probably exist, or with a change below the horizon, which needs
// the stored state.
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

// learn records how many documents of the batch were new, and how many were not. The next batch's `guess` depends on
// these numbers.
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
