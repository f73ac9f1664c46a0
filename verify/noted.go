package verify

import "hash/maphash"

// noted is a set of limited size that remembers by a 64-bit hash which things were counted. In a set of a million, a
// new thing is mistaken for a known one with a probability of 2^-44.
type noted[T comparable] struct {
	seed maphash.Seed
	of   map[uint64]struct{}
}

// remembered is how many counted differences a run remembers. Beyond that, two passes may count the same difference.
const remembered = 1 << 20

func newNoted[T comparable]() noted[T] {
	return noted[T]{seed: maphash.MakeSeed(), of: map[uint64]struct{}{}}
}

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
