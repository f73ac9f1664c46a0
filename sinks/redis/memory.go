package redis

import (
	"slices"
	"strings"

	"replicator/sinks/judge"
)

// Most small batches have entities that were written a moment ago, or are new. Their records need not be read: the
// script applies the changes only if the records are as assumed, and otherwise returns the actual ones. So such a batch
// takes one round trip instead of two.

const (
	// remembersUpTo is the largest batch, in entities, whose records are cached. Caching a larger one costs more than
	// reading its records.
	remembersUpTo = 64
	// remembered is how many of the newest records are certain to be cached. They have 50 to 300 bytes each.
	remembered = 10_000
	// remembersBytes is the size, in bytes, of the largest record that is cached.
	remembersBytes = 1 << 10
)

// memory caches the newest records that this target wrote, by Redis key. A record has the states of an entity's cells.
type memory struct {
	*judge.Lately[string, string]
	novelty judge.Novelty
}

func newMemory() *memory { return &memory{Lately: judge.NewLately[string, string](remembered)} }

// recall fills in the records that are cached. If most entities were new lately, it assumes that an entity without a
// cached record is new. It doesn't assume that of an entity with a delete or a re-read, which probably has a record.
func (m *memory) recall(b *batch) {
	if b.cluster { // in a cluster, each record must be read, because it may have pending changes
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

// learn caches the records that Sink.write wrote, and notes how many of them were new. `tried` has the entities that it
// tried to write. `again` has those of them that it could not write.
func (m *memory) learn(b *batch, tried []*entity, again map[*entity]bool) {
	if b.cluster {
		return
	}
	created, others := 0, 0
	for _, e := range tried {
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
