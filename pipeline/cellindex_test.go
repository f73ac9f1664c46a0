package pipeline

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"replicator"
)

// Only three hashes are used, so cells share them. The index must still find the same cells as a map.
func TestCellsOfOneHashAreToldApart(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	x := newCellIndex()
	model := map[replicator.Cell]*pending{}
	cells := make([]replicator.Cell, 40)
	for i := range cells {
		cells[i] = replicator.Cell{Table: "t", Key: replicator.Key(rune('a' + i))}
	}
	find := func(c replicator.Cell) *pending {
		p, _ := x.find(&c)
		if p != nil {
			return p
		}
		for p = *x.list(uint64(c.Key[0] % 3)); p != nil && p.cell != c; p = p.next { // like find, but with another hash
		}
		return p
	}
	for range 10_000 {
		c := cells[random.IntN(len(cells))]
		p := find(c)
		switch {
		case p != model[c]:
			t.Fatalf("cell %s: %v, not %v", c, p, model[c])
		case p == nil:
			p = &pending{cell: c}
			x.add(p, uint64(c.Key[0]%3))
			model[c] = p
		default:
			x.remove(p)
			delete(model, c)
		}
	}
	for _, p := range model {
		x.remove(p)
	}
	for _, p := range x.lists {
		if p != nil {
			t.Errorf("cell %s is left", p.cell)
		}
	}
	if x.cells != 0 {
		t.Errorf("%d cells are left", x.cells)
	}
}

// The number of cells grows beyond the initial number of lists, and then shrinks.
func TestCellsAreFoundHoweverManyWait(t *testing.T) {
	x := newCellIndex()
	waiting := make([]pending, 40*fewestLists)
	for i := range waiting {
		p := &waiting[i]
		p.cell = replicator.Cell{Table: "t", Key: replicator.Key(strconv.Itoa(i))}
		found, hash := x.find(&p.cell)
		if found != nil {
			t.Fatalf("%s is taken for %s", p.cell, found.cell)
		}
		x.add(p, hash)
	}
	for i := range waiting {
		p := &waiting[i]
		if found, _ := x.find(&p.cell); found != p {
			t.Fatalf("cell %s: %v is found", p.cell, found)
		}
		x.remove(p)
		if found, _ := x.find(&p.cell); found != nil {
			t.Fatalf("%s is found after it was removed", p.cell)
		}
	}
	if x.cells != 0 {
		t.Errorf("%d cells are left", x.cells)
	}
}

func TestACellIsFoundByAllThatItConsistsOf(t *testing.T) {
	x := newCellIndex()
	cells := []replicator.Cell{
		{Table: "t", Key: "a", Column: "b"}, {Table: "t", Key: "b", Column: "a"}, {Table: "u", Key: "a", Column: "b"},
		{Table: "t", Key: "a"}, {Table: "t", Key: "ab"}, {Table: "t", Column: "ab"},
	}
	waiting := make([]pending, len(cells))
	for i := range cells {
		p, hash := x.find(&cells[i])
		if p != nil {
			t.Fatalf("%s is taken for %s", cells[i], p.cell)
		}
		waiting[i].cell = cells[i]
		x.add(&waiting[i], hash)
	}
	for i := range cells {
		if p, _ := x.find(&cells[i]); p != &waiting[i] {
			t.Errorf("%s is not found", cells[i])
		}
	}
}
