package sinktest

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"replicator"
)

// claims is a random history of a source's two shards. Both have rows for the same cells: each changes and deletes its
// rows, entities move from one shard to the other, and for a while both shards may have a row. The shards are read
// independently, so their changes are applied in any interleaving, and again after crashes.
type claims struct {
	*fixture
	names   []string
	sides   map[string]*claimant
	owner   map[replicator.Cell]string // by cell: the source whose row the views show
	letters map[letter]bool            // the dead letters that a store should have
	now     int64
	trace   []string
}

// claimant is a shard: its rows, its log, and what a sink should know about it by now.
type claimant struct {
	name   string
	target replicator.Target
	log    []claimed
	done   int // how many changes in `log` were applied to the target
	rows   map[replicator.Cell]body
	known  map[replicator.Cell]replicator.State // the states that a sink should know by now
	bodies map[replicator.Cell]body             // the rows that a sink should know by now; a deleted cell has none
}

// claimed is a change of a shard's cell. A nil body means that the row was deleted.
type claimed struct {
	cell  replicator.Cell
	order int64
	body  body
}

type letter struct {
	source string
	view   int
	cell   replicator.Cell
}

// testClaims gives two sources rows of the same cells. All views must always show the row of one and the same source
// (nothing, if that row has no entry in a view). The other source must have a dead letter for its row.
func testClaims(f *fixture) {
	if _, ok := f.target.(replicator.Tidier); !ok { // a sink without this interface keeps each source's cells apart
		f.t.Skip("the target does not report other sources' cells")
	}
	f.spread(3)
	f.claimedBy("one", "other")
	f.claimedBy("one/0", "other/0") // a source can also be a partition of a Kafka topic
}

func (f *fixture) claimedBy(one, other string) {
	f.t.Helper()
	targets := map[string]replicator.Target{}
	for _, name := range []string{one, other} {
		targets[name] = open(f.t, f.s, name, f.s.Views)
	}
	seeds := uint64(2)
	if soak(f.t) > 0 {
		seeds = 50
	}
	for seed := range seeds {
		f.texts = map[string]bool{}
		c := &claims{fixture: f, names: []string{one, other}, sides: map[string]*claimant{},
			owner: map[replicator.Cell]string{}, letters: map[letter]bool{}, now: 100 + 1000*int64(seed)}
		f.rnd = rand.New(rand.NewPCG(seed, 0xc1a1))
		for _, name := range c.names {
			c.sides[name] = &claimant{name: name, target: targets[name],
				rows: map[replicator.Cell]body{}, known: map[replicator.Cell]replicator.State{},
				bodies: map[replicator.Cell]body{}}
		}
		c.play()
	}
}

func (c *claims) play() {
	c.t.Helper()
	bodies := c.fresh(30)
	for _, b := range bodies {
		c.spoil(b)
	}
	for len(bodies) > 0 {
		side := c.sides[c.names[c.rnd.IntN(2)]]
		switch n := c.rnd.IntN(10); {
		case n < 4:
			cell, b := c.cells[c.rnd.IntN(len(c.cells))], body(nil)
			if side.rows[cell] == nil || c.rnd.IntN(2) == 0 {
				b, bodies = bodies[0], bodies[1:]
			}
			c.change(side, cell, b)
		case n == 4:
			side.done = max(0, side.done-c.rnd.IntN(5)) // a crash: the last changes are applied again
		default:
			c.step(side)
			if c.rnd.IntN(10) == 0 {
				c.check("between two steps")
			}
		}
	}
	c.drain()
	c.check("while two sources have rows of one key")
	for _, cell := range c.cells {
		if one, other := c.sides[c.names[0]], c.sides[c.names[1]]; one.rows[cell] != nil && other.rows[cell] != nil {
			c.change(c.sides[c.names[c.rnd.IntN(2)]], cell, nil)
		}
	}
	c.drain()
	c.check("once each key is in one source")
	for _, cell := range c.cells {
		for _, side := range c.sides {
			if got := side.bodies[cell]; (got == nil) != (side.rows[cell] == nil) || got != nil && c.owner[cell] != side.name {
				c.t.Fatalf("the model is wrong: for %s source %s has %v", cell, side.name, side.rows[cell])
			}
			c.change(side, cell, nil)
		}
	}
	c.drain()
	c.check("after all was deleted")
	if len(c.letters) > 0 {
		c.t.Fatalf("dead letters are left after all was deleted: %v\n%s", c.letters, c.story())
	}
}

// spoil changes some bodies so that views show nothing for them: a field is missing, or can't be computed.
func (c *claims) spoil(b body) {
	switch c.rnd.IntN(8) {
	case 0:
		b[hidden] = true
	case 1:
		b[unreadable] = c.s.Views[c.rnd.IntN(len(c.s.Views))].Name
	case 2, 3:
		fields := c.s.Views[c.rnd.IntN(len(c.s.Views))].Fields
		delete(b, fields[c.rnd.IntN(len(fields))].Path)
	}
}

func (c *claims) change(s *claimant, cell replicator.Cell, b body) {
	c.now++
	if b == nil {
		delete(s.rows, cell)
	} else {
		s.rows[cell] = b
	}
	s.log = append(s.log, claimed{cell, c.now, b})
}

// drain reads both sources to the ends of their logs.
func (c *claims) drain() {
	c.t.Helper()
	for {
		var behind []*claimant
		for _, name := range c.names {
			if s := c.sides[name]; s.done < len(s.log) {
				behind = append(behind, s)
			}
		}
		if len(behind) == 0 {
			return
		}
		c.step(behind[c.rnd.IntN(len(behind))])
	}
}

// step applies some of a source's next changes in one batch. Of several changes of one cell, it applies only the last.
func (c *claims) step(s *claimant) {
	c.t.Helper()
	n := min(1+c.rnd.IntN(4), len(s.log)-s.done)
	var batch []claimed
	for _, e := range s.log[s.done:][:n] {
		batch = append(slices.DeleteFunc(batch, func(o claimed) bool { return o.cell == e.cell }), e)
	}
	if s.done += n; len(batch) == 0 {
		return
	}
	ops := make([]replicator.Op, len(batch))
	for i, e := range batch {
		what := "put"
		if ops[i] = c.put(e.cell, e.order, e.order, e.body); e.body == nil {
			ops[i], what = c.reset(e.cell, replicator.NoVersion, e.order, nil), "delete"
		}
		c.trace = append(c.trace, fmt.Sprintf("source %s: %s of %s at position %d", s.name, what, e.cell, e.order))
	}
	applied, err := s.target.Apply(c.t.Context(), slices.Clone(ops))
	if err != nil {
		c.t.Fatalf("Apply: %v\n%s", err, c.story())
	}
	for i, e := range batch {
		c.expect(s, e, ops[i])
		for _, v := range ops[i].Values {
			delete(c.letters, letter{s.name, v.View, e.cell})
			if v.Err != nil && !slices.Contains(applied.Stale, i) {
				c.letters[letter{s.name, v.View, e.cell}] = true
			}
		}
	}
	for _, d := range applied.Dead {
		c.letters[letter{s.name, d.View, batch[d.Op].cell}] = true
	}
	for _, r := range applied.Rejected {
		if !errors.Is(r.Err, replicator.ErrClaimed) {
			c.t.Fatalf("%v\n%s", r.Err, c.story())
		}
		c.letters[letter{s.name, r.View, batch[r.Op].cell}] = true
	}
	for _, e := range applied.Elsewhere {
		delete(c.letters, letter{e.Source, e.View, batch[e.Op].cell})
	}
}

// expect computes what the sink should do with an op. It updates the cell's expected state, body and owner.
func (c *claims) expect(s *claimant, e claimed, op replicator.Op) {
	state, seen := s.known[e.cell]
	if !seen {
		state = replicator.Unseen
	}
	next, applies := state.Next(op)
	if s.known[e.cell] = next; !applies {
		return
	}
	if s.bodies[e.cell] = e.body; e.body == nil {
		delete(s.bodies, e.cell)
	}
	switch owner := c.owner[e.cell]; {
	case e.body != nil && owner == "":
		c.owner[e.cell] = s.name
	case e.body == nil && owner == s.name:
		delete(c.owner, e.cell)
		for _, other := range c.names {
			if c.sides[other].bodies[e.cell] != nil {
				c.owner[e.cell] = other
			}
		}
	}
}

// check compares the views with the rows that they should show, and the dead letters with the rows that are not shown.
func (c *claims) check(when string) {
	c.t.Helper()
	shown, waiting := map[replicator.Cell]body{}, map[letter]bool{}
	for _, s := range c.sides {
		for cell, b := range s.bodies {
			own := c.owner[cell] == s.name
			if own {
				shown[cell] = b
			}
			for i, v := range c.s.Views {
				if v.Feeds(cell) && (!own || b[unreadable] == v.Name) {
					waiting[letter{s.name, i, cell}] = true
				}
			}
		}
	}
	for _, v := range c.s.Views {
		var from []contribution
		for cell, b := range shown {
			if v.Feeds(cell) {
				from = append(from, contribution{cell, c.s.entries(v, cell, b)})
			}
		}
		if got, want := c.s.Read(c.t, v), contents(v, from); !maps.Equal(got, want) {
			c.t.Fatalf("%s, view %s holds\n%s\nwant\n%s\n%s", when, v.Name, list(got), list(want), c.story())
		}
	}
	if !maps.Equal(c.letters, waiting) {
		c.t.Fatalf("%s, the dead letters are\n%v\nwant\n%v\n%s", when, c.letters, waiting, c.story())
	}
	dead := map[letter]bool{}
	for _, s := range c.sides {
		c.target = s.target
		for i := range c.s.Views {
			for _, cell := range c.listed(i) {
				dead[letter{s.name, i, cell}] = true
			}
		}
	}
	if !maps.Equal(dead, waiting) {
		c.t.Fatalf("%s, Dead lists\n%v\nwant\n%v\n%s", when, dead, waiting, c.story())
	}
}

func (c *claims) story() string {
	text := ""
	for _, line := range c.trace {
		text += line + "\n"
	}
	return text
}
