package redis

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A slice that the slab hands out is empty, zero and large enough, and overlaps no other one until the reset. The slab
// keeps no more memory than the largest batches need.
func TestASlabGivesNothingOutTwice(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var s slab[int]
	for batch := range 200 {
		var given [][]int
		most := 1 + random.IntN(1+batch*batch)
		for i := range 1 + random.IntN(200) {
			n := random.IntN(most)
			part := s.take(n)
			if len(part) != 0 || cap(part) != n {
				t.Fatalf("asked for %d: %d of %d are given", n, len(part), cap(part))
			}
			part = part[:n]
			if slices.ContainsFunc(part, func(x int) bool { return x != 0 }) {
				t.Fatalf("%d that are not all zero", n)
			}
			for j := range part {
				part[j] = i + 1
			}
			given = append(given, part)
		}
		for i, part := range given {
			if slices.ContainsFunc(part, func(x int) bool { return x != i+1 }) {
				t.Fatalf("part %d was given out again", i)
			}
		}
		s.reset()
	}
	kept := 0
	for _, chunk := range s.chunks {
		kept += len(chunk)
	}
	if largest := 200 * 200 * 200; kept > 2*largest {
		t.Errorf("%d are kept, of at most %d that a batch took", kept, largest)
	}
}

func TestATextGivesBackWhatItDoesNotNeed(t *testing.T) {
	var a arena
	b := append(a.bytes.take(64), "short"...)
	first := a.keep(b)
	used := a.bytes.used
	moved := a.keep(append(a.bytes.take(4), "longer than that"...))
	last := a.keep(append(a.bytes.take(8), "end"...))
	if used != len("short") || a.bytes.used != used+4+len("end") {
		t.Errorf("%d bytes are taken for a short text, %d in all", used, a.bytes.used)
	}
	if first != "short" || moved != "longer than that" || last != "end" {
		t.Errorf("the texts are %q, %q and %q", first, moved, last)
	}
}
