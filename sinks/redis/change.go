package redis

import (
	"cmp"
	"slices"

	"replicator"
)

// changes returns the changes of keys that carry out b.moves. A move replaces one cell's contribution to one view.
// `after` is the entity's new record. Changes of sets and rankings come first, as the script requires. But if several
// views change the same key (`meet`), the changes are not sorted: the first one decides the key's type.
func (e *entity) changes(b *batch, after *record) (all []change, meet bool, err error) {
	moves, views := b.moves, 0
	all = b.changes.take(2 * len(moves))
	for ; len(moves) > 0; views++ {
		n := 1 // moves[:n] will be those of one view
		for i := 1; i < len(moves); i++ {
			if moves[i].k == moves[0].k {
				moves[i], moves[n] = moves[n], moves[i]
				n++
			}
		}
		c := &b.changer
		*c = changer{arena: &b.arena, entity: e, after: after, moves: moves[:n], whole: b.cluster, first: len(all), out: all}
		if err := c.run(); err != nil {
			return nil, false, err
		}
		for i := range c.out[c.first:] {
			if ch := &c.out[c.first+i]; ch.strict {
				ch.goes = moves[0].k.goes
			}
		}
		all, moves = c.out, moves[n:]
	}
	all = dropShownByOthers(all, b.cluster)
	for i := range all {
		if _, is := e.blocked[all[i].viewKey]; is {
			all[i].strict, all[i].goes = false, asIs
		}
	}
	if meet = views > 1 && sameKey(all); !meet {
		slices.SortStableFunc(all, func(a, b change) int { return cmp.Compare(a.place(), b.place()) })
	}
	return all, meet, nil
}

// dropShownByOthers drops each change that would remove what another view still shows at the same key. In a cluster,
// the change must still remove the post: the entity's contribution through the change's own view, stored beside the
// key. So it is replaced by a change that does only that.
func dropShownByOthers(all []change, cluster bool) []change {
	if !cluster {
		return slices.DeleteFunc(all, func(ch change) bool { return ch.shownByOthers })
	}
	for i := range all {
		if all[i].shownByOthers {
			all[i].kind, all[i].args = kindSet, nil
		}
	}
	return all
}

func sameKey(all []change) bool {
	if len(all) > few {
		keys := make(map[string]bool, len(all))
		for i := range all {
			keys[all[i].key] = true
		}
		return len(keys) < len(all)
	}
	for i := range all {
		for j := range i {
			if all[i].key == all[j].key {
				return true
			}
		}
	}
	return false
}

// place ranks the changes of an entity. Sets and rankings come first, because the script can undo them if a later
// change is refused.
func (ch *change) place() int {
	switch {
	case ch.kind == kindSet:
		return 0
	case ch.kind == kindRanking:
		return 1
	}
	return 2
}

// changer computes how one entity's keys change for one view.
type changer struct {
	*arena
	entity *entity
	after  *record
	moves  []move
	whole  bool            // in a cluster: changes of sums list all of the entity's amounts, not only the new ones
	first  int             // where the view's changes begin in `out`
	places map[viewKey]int // by key: the index of its change in `out`; nil while the view has few changes
	out    []change
	cells  []cellClaims // what each cell of the entity now contributes; nil until needed
	one    [1]cellClaims
}

type cellClaims struct {
	cell   replicator.Cell
	claims []claim
}

func (c *changer) run() (err error) {
	for _, m := range c.moves {
		if err := c.keyChanges(m); err != nil {
			return err
		}
		if !c.whole {
			c.amountChanges(m.k.shows, m)
		}
	}
	return nil
}

func (c *changer) keyChanges(m move) error {
	if err := c.changesOf(m, m.old); err != nil {
		return err
	}
	return c.changesOf(m, m.new)
}

func (c *changer) changesOf(m move, list []claim) (err error) {
	for i := range list {
		t := viewKey{m.k.shows, list[i].kind, list[i].key}
		switch t.kind {
		case kindHash, kindJSON:
			err = c.rowChange(t)
		case kindSet:
			err = c.setChange(t, m)
		case kindDead, kindWaiting:
		default:
			if c.whole {
				err = c.wholeAmounts(t)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// wholeAmounts adds the change of a key with sums or counts of members, in a cluster. The change lists all that the
// entity now contributes to the key, because the script replaces the entity's earlier contribution as a whole.
func (c *changer) wholeAmounts(t viewKey) error {
	ch, cells, err := c.begin(t)
	if ch == nil || err != nil {
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

// changeAt returns the change of a key. If c.out has none yet, changeAt adds one, and isNew is true.
func (c *changer) changeAt(t viewKey) (ch *change, isNew bool) {
	i, known := c.places[t]
	if c.places == nil {
		i = slices.IndexFunc(c.out[c.first:], func(ch change) bool { return ch.viewKey == t })
		known = i >= 0
		i += c.first
	}
	if known {
		return &c.out[i], false
	}
	c.out = append(c.out, change{viewKey: t})
	switch n := len(c.out) - c.first; {
	case c.places != nil:
		c.places[t] = len(c.out) - 1
	case n > few:
		c.places = make(map[viewKey]int, 2*n)
		for i := c.first; i < len(c.out); i++ {
			c.places[c.out[i].viewKey] = i
		}
	}
	return &c.out[len(c.out)-1], true
}

// leave takes back the change that the method begin has just added.
func (c *changer) leave(t viewKey) {
	c.out = c.out[:len(c.out)-1]
	delete(c.places, t)
}

// begin adds a change of a key. It returns the change, and the contributions of all the entity's cells. If the key
// already has a change, it returns nil.
func (c *changer) begin(t viewKey) (ch *change, cells []cellClaims, err error) {
	ch, isNew := c.changeAt(t)
	if !isNew {
		return nil, nil, nil
	}
	cells, err = c.contributions()
	return ch, cells, err
}

// contributions returns what all cells of the entity now contribute to the view, from every source.
func (c *changer) contributions() ([]cellClaims, error) {
	if c.cells != nil {
		return c.cells, nil
	}
	k := c.moves[0].k
	c.cells = c.one[:0]
	for i := range c.after.cells {
		cr := &c.after.cells[i]
		for _, id := range k.ids {
			known := cr.view(id)
			if known == nil {
				continue
			}
			one := cellClaims{cell: cr.cell}
			is := func(m move) bool { return m.cell == cr.cell && m.id == id }
			if m := slices.IndexFunc(c.moves, is); m >= 0 {
				one.claims = c.moves[m].new // with the fields' values, which the record may lack
			} else {
				var err error
				if one.claims, err = c.arena.parseClaims(known.claims); err != nil {
					return nil, replicator.Fatal(err)
				}
			}
			c.cells = append(c.cells, one)
		}
	}
	if len(c.cells) > 1 {
		sortCells(k.view, c.cells)
	}
	return c.cells, nil
}

// setChange adds the entity's key to a set, or removes it once none of the entity's cells contributes to the set.
func (c *changer) setChange(t viewKey, m move) error {
	is := func(x claim) bool { return x.kind == t.kind && x.key == t.key }
	if !m.rewrite && len(m.old)+len(m.new) <= few && slices.ContainsFunc(m.old, is) && slices.ContainsFunc(m.new, is) {
		return nil
	}
	ch, cells, err := c.begin(t)
	if ch == nil || err != nil {
		return err
	}
	ch.args = append(c.args.take(2), c.entity.text, "-1")
	switch {
	case t.claimedBy(cells):
		ch.args[1], ch.strict = "1", true
	default:
		ch.shownByOthers, _, err = c.claimedByOthers(t)
	}
	return err
}

// claimedByOthers reports whether another view shows something of the entity at a key, and returns that view's rows
// there. Two views of one configuration never share a key. So this happens only while contributions of an earlier
// definition are removed, as after two views exchanged their keys.
func (c *changer) claimedByOthers(t viewKey) (claimed bool, rows []*row, err error) {
	if !slices.ContainsFunc(c.moves, func(m move) bool { return m.former }) {
		return false, nil, nil
	}
	for _, cell := range c.after.cells {
		for _, v := range cell.views {
			if slices.Contains(c.moves[0].k.ids, v.id) || !v.contributes() {
				continue
			}
			claims, err := parseClaims(v.claims)
			if err != nil {
				return false, nil, replicator.Fatal(err)
			}
			for _, x := range claims {
				if x.kind == t.kind && x.key == t.key {
					claimed, rows = true, append(rows, x.row)
				}
			}
		}
	}
	return claimed, rows, nil
}

func (t viewKey) claimedBy(cells []cellClaims) bool {
	return slices.ContainsFunc(cells, func(one cellClaims) bool {
		return slices.ContainsFunc(one.claims, func(x claim) bool { return x.kind == t.kind && x.key == t.key })
	})
}

// few is the length up to which a list is searched element by element, without a map.
const few = 16

// amountChanges makes the changes of sums for one move, which replaces a cell's contribution. They subtract the amounts
// of the old contribution, and add those of the new one. An amount in both contributions needs no change. But with
// m.rewrite it gets one that adds nothing: the script then writes the sum to the view's key again.
func (c *changer) amountChanges(id viewID, m move) {
	add := func(x claim, amount string) *change {
		ch, _ := c.changeAt(viewKey{id, x.kind, x.key})
		ch.args = append(ch.args, cmp.Or(x.member, c.entity.text), amount)
		return ch
	}
	added := map[claim]int{}
	for _, x := range m.new {
		if x.counts() {
			added[x]++
		}
	}
	for _, x := range m.old {
		switch {
		case !x.counts():
		case added[x] > 0:
			added[x]--
		default:
			add(x, x.takenBack())
		}
	}
	for _, x := range m.new {
		switch {
		case !x.counts():
		case added[x] > 0:
			added[x]--
			add(x, x.added()).strict = true
		case m.rewrite:
			add(x, x.addingNothing()).strict = true
		}
	}
}
