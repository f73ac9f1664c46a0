package pipeline

import (
	"hash/maphash"

	"replicator"
)

// cellIndex finds a lane's pending changes by cell. It is a hash table of linked lists, and the pending changes are the
// lists' elements. So it takes half the memory of a map, and most lookups touch one pointer. The lane's mutex guards
// it.
type cellIndex struct {
	seed  maphash.Seed
	lists []*pending // indexed by the last bits of a cell's hash; the length is a power of two
	cells int        // number of cells in the index; never more than len(lists)
}

const fewestLists = 64

func newCellIndex() cellIndex {
	return cellIndex{seed: maphash.MakeSeed(), lists: make([]*pending, fewestLists)}
}

// list returns the list for a hash. The list may also contain cells with other hashes.
func (x *cellIndex) list(hash uint64) **pending { return &x.lists[hash&uint64(len(x.lists)-1)] }

func (x *cellIndex) find(c *replicator.Cell) (p *pending, hash uint64) {
	const odd = 0x9e3779b97f4a7c15 // so that (key "a", column "b") and (key "b", column "a") have different hashes
	hash = maphash.String(x.seed, string(c.Key))*odd + maphash.String(x.seed, c.Column)
	for p = *x.list(hash); p != nil && (p.hash != hash || p.cell != *c); p = p.next {
	}
	return p, hash
}

// add adds the first pending change of a cell. The caller has called find, which returned nil and the hash.
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

func (x *cellIndex) remove(p *pending) {
	at := x.list(p.hash)
	for *at != p {
		at = &(*at).next
	}
	*at, p.next = p.next, nil
	x.cells--
}
