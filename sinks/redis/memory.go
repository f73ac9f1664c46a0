package redis

import (
	"slices"
	"strings"

	"replicator/sinks/judge"
)

// Live work is small batches of entities that were written a moment ago, or that are new. Their records need not be
// read: the script takes them only if they are as they were thought to be, and else answers with what they are. So such
// a batch takes one round trip instead of two. What nothing has to be written for was not compared by any script: it is
// read, and decided again.

const (
	// few entities in a batch are remembered: to remember those of a large one costs more than to read them.
	remembersUpTo = 64
	// remembered is how many records are remembered at least, of some 300 bytes each.
	remembered = 10_000
	// remembersBytes is the largest record that is.
	remembersBytes = 1 << 10
)

// memory knows the records that this target wrote last, of those written lately, by their keys.
type memory struct {
	*judge.Lately[string, string]
	novelty judge.Novelty
}

func newMemory() *memory { return &memory{Lately: judge.NewLately[string, string](remembered)} }

// recall takes what is remembered of entities for known, and others for new where most have been lately. A look is at
// an entity that is known.
func (m *memory) recall(b *batch) {
	if b.cluster { // there a record may have to be finished, which only who reads it can tell
		return
	}
	guess := m.novelty.Likely()
	for _, e := range b.list {
		if len(b.list) <= remembersUpTo {
			e.stored, e.known = m.Get(e.key)
		}
		if !e.known && guess {
			e.known = !slices.ContainsFunc(e.ops, func(op int) bool { return b.ops[op].AsOf != 0 })
		}
		e.assumed = e.known
	}
}

// learn notes what became of entities that were to be written.
func (m *memory) learn(b *batch, written []*entity, again map[*entity]bool) {
	if b.cluster {
		return
	}
	created, others := 0, 0
	for _, e := range written {
		switch {
		case again[e]:
		case e.plan.record.nonce == "":
			created++
		case !e.assumed:
			others++
		}
		switch {
		case len(b.list) > remembersUpTo:
		case again[e] || len(e.next) > remembersBytes:
			m.Forget(e.key)
		default:
			m.Note(strings.Clone(e.key), strings.Clone(e.next))
		}
	}
	m.novelty.Learn(created, others)
}
