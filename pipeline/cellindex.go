package pipeline

import (
	"hash/maphash"

	"replicator"
)

// cellIndex finds what waits in a lane by its cell. It is a hash table whose lists run through what waits itself, so
// that most changes touch one pointer of a small table: of a cell that nothing waits of, the list is empty. A map has a
// slot to be found and a slot to be emptied for each, which leave the processor's cache where much is in flight, and
// twice the memory for the collector to mark. The lane's mutex guards it.
type cellIndex struct {
	seed  maphash.Seed
	lists []*pending // by the hash's last bits: a power of two of them, no fewer than there are cells
	cells int
}

// fewestLists is how many lists there are at first.
const fewestLists = 64

func newCellIndex() cellIndex {
	return cellIndex{seed: maphash.MakeSeed(), lists: make([]*pending, fewestLists)}
}

// list is where the cells of a hash are, among others.
func (x *cellIndex) list(hash uint64) **pending { return &x.lists[hash&uint64(len(x.lists)-1)] }

// find returns what waits of a cell, nil if nothing does, and the cell's hash.
func (x *cellIndex) find(c *replicator.Cell) (p *pending, hash uint64) {
	const odd = 0x9e3779b97f4a7c15 // so that texts that change places don't meet
	hash = maphash.String(x.seed, string(c.Key))*odd + maphash.String(x.seed, c.Column)
	for p = *x.list(hash); p != nil && (p.hash != hash || p.cell != *c); p = p.next {
	}
	return p, hash
}

// add adds what find did not find.
func (x *cellIndex) add(p *pending, hash uint64) {
	if x.cells == len(x.lists) {
		x.grow()
	}
	x.cells++
	p.hash = hash
	x.push(p)
}

func (x *cellIndex) push(p *pending) {
	list := x.list(p.hash)
	p.next, *list = *list, p
}

// grow doubles the lists.
func (x *cellIndex) grow() {
	old := x.lists
	x.lists = make([]*pending, 2*len(old))
	for _, p := range old {
		for p != nil {
			next := p.next
			x.push(p)
			p = next
		}
	}
}

// remove removes what was added.
func (x *cellIndex) remove(p *pending) {
	at := x.list(p.hash)
	for *at != p {
		at = &(*at).next
	}
	*at, p.next = p.next, nil
	x.cells--
}
