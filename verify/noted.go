package verify

import "hash/maphash"

// noted is a set of things that a run has counted, up to a number of them: each by 64 bits of a hash, so that what it
// holds does not depend on how long keys are. That a new thing is taken for one of a million is as likely as one in
// 2^44.
type noted[T comparable] struct {
	seed maphash.Seed
	of   map[uint64]struct{}
}

// remembered is how many differences a run knows that it has counted; more may be counted by both passes.
const remembered = 1 << 20

func newNoted[T comparable]() noted[T] {
	return noted[T]{seed: maphash.MakeSeed(), of: map[uint64]struct{}{}}
}

// begun reports whether the set was made.
func (n noted[T]) begun() bool { return n.of != nil }

func (n noted[T]) has(thing T) bool {
	_, has := n.of[maphash.Comparable(n.seed, thing)]
	return has
}

func (n noted[T]) add(thing T) {
	if len(n.of) < remembered {
		n.of[maphash.Comparable(n.seed, thing)] = struct{}{}
	}
}
