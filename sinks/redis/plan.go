package redis

import (
	"cmp"
	"errors"
	"slices"

	"replicator"
)

// entity is what a batch does to one entity.
type entity struct {
	key  string // of its record
	text string // its own key, as templates show it
	ops  []int  // by their place in the batch

	stored  string            // what the record held when it was read; "" if there was none
	blocked map[target]string // keys that hold another type, and which
	plan    plan
	next    string // the record that is written, in its stored form
}

// target is a key as one view uses it.
type target struct {
	id   viewID
	kind byte
	key  string
}

// plan is what has to be done to an entity, decided on what its record held.
type plan struct {
	record   *record // as it is to be
	changed  bool    // it is another than it was
	changes  []change
	stale    []int
	rejected []replicator.Rejected
	dead     []replicator.ValueAt
}

// change is what happens to one key.
type change struct {
	target
	strict bool // something is added: another type at the key is an error
	fields int  // of a hash: how many are set
	args   []string
}

// move is a cell's contribution to a view that is replaced.
type move struct {
	k        *keeper
	cell     replicator.Cell
	old, new []claim
	rewrite  bool // also where nothing changes: somebody may have changed it by hand
}

// errNewer: another process has begun a later generation of the view.
var errNewer = errors.New("another replicator has forgotten or redefined the view since this one opened it")

// batch is what the entities of a batch are decided by.
type batch struct {
	keepers []*keeper
	ops     []replicator.Op
	apart   bool // keys and records live apart: in a cluster

	moves []move // for decide to use again
	text  []byte
}

// decide plans what the batch does to the entity. It is the only place that asks State.Next.
func (e *entity) decide(b *batch) error {
	r, err := parseRecord(e.stored)
	if err != nil {
		return replicator.Fatal(errors.Join(err, errors.New("delete it and fill the sink's views anew")))
	}
	p := plan{record: r}
	b.moves = b.moves[:0]
	for _, i := range e.ops {
		op := &b.ops[i]
		stale := len(op.Values) > 0
		var dead []replicator.ValueAt
		for _, value := range op.Values {
			k := b.keepers[value.View]
			known := viewRecord{id: k.id, generation: k.generation, state: replicator.Unseen}
			if v := r.find(op.Cell, k.id); v != nil {
				if v.generation > k.generation {
					return errNewer
				}
				known = *v
			}
			forgotten := known.generation != k.generation
			if forgotten {
				known.generation, known.state = k.generation, replicator.Unseen
			}
			next, applies := known.state.Next(*op)
			if !applies {
				if known.dead() && !forgotten {
					dead = append(dead, replicator.ValueAt{Op: i, View: value.View})
				}
				if next != known.state {
					known.state, p.changed = next, true
					r.set(op.Cell, known)
				}
				continue
			}
			stale = false
			m := move{k: k, cell: op.Cell, rewrite: op.AsOf != 0 || op.Rewrite || forgotten}
			claims, err := k.claims(op.Cell, value)
			if claims, err = e.unblocked(k, claims, err); err != nil {
				p.rejected = append(p.rejected, replicator.Rejected{Op: i, View: value.View, Err: err})
			}
			if err != nil || value.Err != nil {
				claims = []claim{{kind: kindDead, key: k.dead}}
			}
			m.new = claims
			b.text = appendClaims(b.text[:0], claims)
			same := string(b.text) == known.claims
			if next == known.state && same && !m.rewrite {
				continue // the same once more
			}
			if !same || m.rewrite {
				if m.rewrite || !otherValues(known.claims, b.text) { // else what is new stands where the old was
					if m.old, err = parseClaims(known.claims); err != nil {
						return replicator.Fatal(err)
					}
				}
				b.moves = append(b.moves, m)
			}
			if known.state, p.changed = next, true; !same {
				known.claims = string(b.text)
			}
			r.set(op.Cell, known)
		}
		if stale {
			p.stale, p.dead = append(p.stale, i), append(p.dead, dead...)
		}
	}
	if p.changed {
		if p.changes, err = e.changes(r, b.moves, b.apart); err != nil {
			return err
		}
		if b.apart {
			r.intend(p.changes)
		}
	}
	e.plan = p
	return nil
}

// unblocked rejects claims to a key that holds another type.
func (e *entity) unblocked(k *keeper, claims []claim, err error) ([]claim, error) {
	if err != nil {
		return nil, err
	}
	for _, c := range claims {
		if found, is := e.blocked[target{k.id, c.kind, c.key}]; is {
			return nil, wrongType(c.key, found)
		}
	}
	return claims, nil
}

// changes are what moves mean for the keys, given the record that is to be.
func (e *entity) changes(after *record, moves []move, whole bool) ([]change, error) {
	var all []change
	for len(moves) > 0 {
		n := 1 // moves of one view
		for i := 1; i < len(moves); i++ {
			if moves[i].k == moves[0].k {
				moves[i], moves[n] = moves[n], moves[i]
				n++
			}
		}
		c := changer{entity: e, after: after, moves: moves[:n], whole: whole, first: len(all), out: all}
		if err := c.run(); err != nil {
			return nil, err
		}
		all, moves = c.out, moves[n:]
	}
	for i := range all {
		if _, is := e.blocked[all[i].target]; is {
			all[i].strict = false
		}
	}
	return all, nil
}

// changer makes the changes of one view.
type changer struct {
	entity *entity
	after  *record
	moves  []move
	whole  bool           // amounts are all that the entity claims; else what is to be added
	first  int            // the view's first change in out
	places map[target]int // in out; nil while they are few
	out    []change
	cells  []cellClaims // what every cell of the entity contributes now; nil until it is asked for
	one    [1]cellClaims
}

type cellClaims struct {
	cell   replicator.Cell
	claims []claim
}

func (c *changer) run() error {
	id := c.moves[0].k.id
	for _, m := range c.moves {
		for _, list := range [][]claim{m.old, m.new} {
			for i := range list {
				t := target{id, list[i].kind, list[i].key}
				var err error
				switch t.kind {
				case kindHash, kindJSON:
					err = c.rowChange(t)
				case kindSet, kindDead:
					err = c.setChange(t, m)
				default:
					if c.whole {
						err = c.wholeAmounts(t)
					}
				}
				if err != nil {
					return err
				}
			}
		}
		if !c.whole {
			c.amountChanges(id, m)
		}
	}
	return nil
}

// wholeAmounts lists all that the entity's cells claim at a key.
func (c *changer) wholeAmounts(t target) error {
	ch, fresh := c.at(t)
	if !fresh {
		return nil
	}
	cells, err := c.contributions()
	if err != nil {
		return err
	}
	for _, one := range cells {
		for _, x := range one.claims {
			if x.kind == t.kind && x.key == t.key {
				ch.args = append(ch.args, cmp.Or(x.member, c.entity.text), x.added())
			}
		}
	}
	ch.strict = len(ch.args) > 0
	return nil
}

// at returns the change of a key, which is there once.
func (c *changer) at(t target) (ch *change, fresh bool) {
	i, known := c.places[t]
	if c.places == nil {
		i = slices.IndexFunc(c.out[c.first:], func(ch change) bool { return ch.target == t })
		known = i >= 0
		i += c.first
	}
	if known {
		return &c.out[i], false
	}
	c.out = append(c.out, change{target: t})
	switch n := len(c.out) - c.first; {
	case c.places != nil:
		c.places[t] = len(c.out) - 1
	case n > few:
		c.places = make(map[target]int, 2*n)
		for i := c.first; i < len(c.out); i++ {
			c.places[c.out[i].target] = i
		}
	}
	return &c.out[len(c.out)-1], true
}

// contributions are what all cells of the entity contribute to the view, as it is to be.
func (c *changer) contributions() ([]cellClaims, error) {
	if c.cells != nil {
		return c.cells, nil
	}
	id, view := c.moves[0].k.id, c.moves[0].k.view
	c.cells = c.one[:0]
	for i := range c.after.cells {
		cr := &c.after.cells[i]
		at := slices.IndexFunc(cr.views, func(v viewRecord) bool { return v.id == id })
		if at < 0 {
			continue
		}
		one := cellClaims{cell: cr.cell}
		if m := slices.IndexFunc(c.moves, func(m move) bool { return m.cell == cr.cell }); m >= 0 {
			one.claims = c.moves[m].new // with values, which the record may not have
		} else {
			var err error
			if one.claims, err = parseClaims(cr.views[at].claims); err != nil {
				return nil, replicator.Fatal(err)
			}
		}
		c.cells = append(c.cells, one)
	}
	if len(c.cells) > 1 {
		sortCells(view, c.cells)
	}
	return c.cells, nil
}

// sortCells puts cells in the order in which a view takes fields from them.
func sortCells(view *replicator.View, cells []cellClaims) {
	rank := func(cell replicator.Cell) int { // a cell that the view's definition no longer names comes last
		if n := view.Feed(cell); n >= 0 {
			return n
		}
		return len(view.From)
	}
	slices.SortStableFunc(cells, func(a, b cellClaims) int {
		return cmp.Or(cmp.Compare(rank(a.cell), rank(b.cell)), cmp.Compare(a.cell.Column, b.cell.Column),
			cmp.Compare(a.cell.Table, b.cell.Table), cmp.Compare(a.cell.Key, b.cell.Key))
	})
}

// setChange keeps the entity in a set as long as one of its cells says so.
func (c *changer) setChange(t target, m move) error {
	is := func(x claim) bool { return x.kind == t.kind && x.key == t.key }
	if !m.rewrite && len(m.old)+len(m.new) <= few && slices.ContainsFunc(m.old, is) && slices.ContainsFunc(m.new, is) {
		return nil
	}
	ch, fresh := c.at(t)
	if !fresh {
		return nil
	}
	cells, err := c.contributions()
	if err != nil {
		return err
	}
	ch.args = []string{c.entity.text, "-1"}
	if slices.ContainsFunc(cells, func(one cellClaims) bool { return slices.ContainsFunc(one.claims, is) }) {
		ch.args[1], ch.strict = "1", true
	}
	return nil
}

// few is how many claims are compared one by one.
const few = 16

// amountChanges are the changes of keys to which amounts are added: what was claimed is taken back, what is claimed now
// is added.
func (c *changer) amountChanges(id viewID, m move) {
	type place struct {
		target
		member, amount string
	}
	kept := map[place]int{} // claims that stay as they are
	for _, x := range m.new {
		if x.counts() {
			kept[place{target{id, x.kind, x.key}, x.member, x.amount}]++
		}
	}
	add := func(x claim, amount string) *change {
		ch, _ := c.at(target{id, x.kind, x.key})
		ch.args = append(ch.args, cmp.Or(x.member, c.entity.text), amount)
		return ch
	}
	again := map[place]int{}
	for _, x := range m.old {
		if !x.counts() {
			continue
		}
		p := place{target{id, x.kind, x.key}, x.member, x.amount}
		if kept[p] > 0 {
			kept[p]--
			again[p]++
			continue
		}
		add(x, x.takenBack())
	}
	for _, x := range m.new {
		if !x.counts() {
			continue
		}
		p := place{target{id, x.kind, x.key}, x.member, x.amount}
		switch {
		case again[p] == 0:
			add(x, x.added()).strict = true
		case m.rewrite:
			again[p]--
			add(x, x.again()).strict = true
		default:
			again[p]--
		}
	}
}

// counts reports whether several entities may claim the same.
func (c *claim) counts() bool {
	switch c.kind {
	case kindMembers, kindUnique, kindCounter, kindRanking:
		return true
	}
	return false
}

// counted is the amount that a claim stands for.
func (c *claim) counted() string { return cmp.Or(c.amount, "1") }

// added is how the scripts are told of a claim that is new: the amount, and in a ranking, which counts claims, that it
// is one more.
func (c *claim) added() string {
	if c.kind == kindRanking {
		return "+" + c.counted()
	}
	return c.counted()
}

// takenBack is how they are told that a claim is gone.
func (c *claim) takenBack() string {
	if c.kind == kindRanking {
		return "-" + c.counted()
	}
	return negated(c.counted())
}

// again is how they are told to show once more what they remember.
func (c *claim) again() string {
	if c.kind == kindRanking {
		return "="
	}
	return "0"
}
