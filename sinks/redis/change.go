package redis

import (
	"cmp"
	"slices"

	"replicator"
)

// changes computes the changes of keys from the batch's moves (each replaces a cell's contribution to a view), given
// the new record. Sets and rankings come first, as the script requires. meet reports that changes of two views have the
// same key. Then all changes keep their order instead, and the first one for a key decides its type.
func (e *entity) changes(b *batch, after *record) (all []change, meet bool, err error) {
	moves, views := b.moves, 0
	all = b.changes.take(2 * len(moves))
	for ; len(moves) > 0; views++ {
		n := 1 // the number of moves of one view
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
	all = staying(all, b.cluster)
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

// staying leaves out changes that would remove what another view shows. In a cluster, each of them becomes a change of
// a set without members. That change removes this view's post (its contribution as stored beside the key), and leaves
// the key as it is.
func staying(all []change, cluster bool) []change {
	if !cluster {
		return slices.DeleteFunc(all, func(ch change) bool { return ch.stays })
	}
	for i := range all {
		if all[i].stays {
			all[i].kind, all[i].args = kindSet, nil
		}
	}
	return all
}

// sameKey reports whether two changes have the same key.
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

// place returns the rank of a change among the changes of an entity. Sets and rankings come first: the script can undo
// them if a later change is refused.
func (ch *change) place() int {
	switch {
	case ch.kind == kindSet:
		return 0
	case ch.kind == kindRanking:
		return 1
	}
	return 2
}

// changer makes the changes of one view.
type changer struct {
	*arena
	entity *entity
	after  *record
	moves  []move
	whole  bool            // changes of sums list all of the entity's amounts, not only the new ones (in a cluster)
	first  int             // out[first] is the view's first change
	places map[viewKey]int // by key: the index of its change in out; nil while the view has few changes
	out    []change
	cells  []cellClaims // what every cell of the entity now contributes; nil until needed
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

// keyChanges makes the changes of keys whose contents depend on all of the entity's cells.
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

// wholeAmounts makes, in a cluster, the change of a key with sums or with a number of claims. The change lists the
// amounts of all claims that the entity's cells have at the key.
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

// at returns the change of a key. If the key has none yet, at adds one, and isNew is true.
func (c *changer) at(t viewKey) (ch *change, isNew bool) {
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

// leave removes the change that begin has just added.
func (c *changer) leave(t viewKey) {
	c.out = c.out[:len(c.out)-1]
	delete(c.places, t)
}

// begin adds a change of a key. It returns the change, and the contributions of all the entity's cells. If the key
// already has a change, it returns nil.
func (c *changer) begin(t viewKey) (ch *change, cells []cellClaims, err error) {
	ch, isNew := c.at(t)
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
				one.claims = c.moves[m].new // these claims have the rows' values, which the record may lack
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

// setChange adds the entity to a set, or removes it once none of its cells claims the set.
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
		ch.stays, _, err = c.claimedByOthers(t)
	}
	return err
}

// claimedByOthers reports whether another view shows something of the entity at a key, and returns the rows of such
// views at the key. This can happen only if a move removes what an earlier definition put at the key: views may have
// exchanged their keys, or a new view may have replaced one that ended. Two views of one configuration never share a
// key.
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

// claimedBy reports whether one of the cells claims a key.
func (t viewKey) claimedBy(cells []cellClaims) bool {
	return slices.ContainsFunc(cells, func(one cellClaims) bool {
		return slices.ContainsFunc(one.claims, func(x claim) bool { return x.kind == t.kind && x.key == t.key })
	})
}

// few is the length up to which a list is searched element by element, without a map.
const few = 16

// amountChanges makes the changes of keys with sums: old claims are subtracted, new ones are added.
func (c *changer) amountChanges(id viewID, m move) {
	add := func(x claim, amount string) *change {
		ch, _ := c.at(viewKey{id, x.kind, x.key})
		ch.args = append(ch.args, cmp.Or(x.member, c.entity.text), amount)
		return ch
	}
	added := map[claim]int{} // how often each new claim occurs
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
			add(x, x.again()).strict = true
		}
	}
}
