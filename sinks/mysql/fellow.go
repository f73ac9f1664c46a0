package mysql

import (
	"context"
	"database/sql"
	"slices"

	"replicator"
	"replicator/internal/wire"
	"replicator/sinks/judge"
)

// Each source, such as a shard, has its own states. If several sources have a row of a cell, a view shows the one that
// came first (judge.Batch.Claim). A later source's row waits: only that source's state has it. The transaction that
// removes the shown row writes the waiting row to the table.

type batchStates struct {
	own    heldStates
	others heldStates         // the other sources' states, by the entity's id at the target's source, as in own
	owners map[string][]owner // by view name: the other sources that feed the view

	horizons map[uint32]int64 // by view id: the log position below which deleted cells may have been forgotten
}

// entities appends the ids that a key has in the table of states, one for each source. The first is `own`, the key's id
// at the target's source. The others are its ids at the other sources that may have rows of the key.
func (t *Target) entities(all []string, own string, key replicator.Key) []string {
	all = append(all, own)
	for _, source := range t.others.Of(key) {
		all = append(all, entityID(source, key))
	}
	return all
}

// place returns the map in which to keep a state that was read (s.own or s.others), and the map's key for the state.
// `own` is the target's source. `entity` is the entity's id in the table of states. If the state is another source's,
// place also sets h.source and h.entity.
func (s *batchStates) place(own string, h *heldState, entity string) (to heldStates, id string) {
	r := wire.NewReader(entity)
	source := r.Text()
	if r.Bad() || source == own {
		return s.own, entity
	}
	h.source, h.entity = source, entity
	return s.others, entityID(own, replicator.Key(r.Rest()))
}

// writeOwners appends the query for the other sources that feed the target's views. A view has a different id in each
// source's states, so the query also reads these ids.
func (w *writer) writeOwners(t *Target) {
	w.write("SELECT name, source, id, salt FROM ", viewsTable, " WHERE name IN (")
	for i, v := range t.views {
		w.text = appendLiteral(appendAfter(w.text, i, ","), v.Name)
	}
	w.write(") AND source IN (")
	for i, source := range t.others.Names() {
		w.text = appendLiteral(appendAfter(w.text, i, ","), source)
	}
	w.write(")")
}

func (s *batchStates) scanOwners(rows *sql.Rows) error {
	s.owners = map[string][]owner{}
	for rows.Next() {
		var view string
		var o owner
		if err := rows.Scan(&view, &o.source, &o.id, &o.salt); err != nil {
			return err
		}
		s.owners[view] = append(s.owners[view], o)
	}
	return rows.Err()
}

// idOf returns the view's id in another source's states; 0 if the other source does not feed the view.
func (s *batchStates) idOf(k *keeper, source string) uint32 {
	for _, o := range s.owners[k.view.Name] {
		if o.source == source {
			return o.id
		}
	}
	return 0
}

func (t *Target) readBatch(ctx context.Context, tx *sql.Tx, items []*item) (*batchStates, error) {
	var entities []string
	for _, it := range items {
		entities = t.entities(entities, it.entity, it.op.Cell.Key)
	}
	slices.Sort(entities)
	found, err := readStates(ctx, tx, slices.Compact(entities))
	if err != nil {
		return nil, err
	}
	s := &batchStates{own: heldStates{}, others: heldStates{}}
	for entity, all := range found {
		for _, h := range all {
			to, id := s.place(t.source, &h, entity)
			to[id] = append(to[id], h)
		}
	}
	if len(t.others) == 0 {
		return s, nil
	}
	w := writer{}
	w.writeOwners(t)
	rows, err := tx.QueryContext(ctx, string(w.text))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	return s, s.scanOwners(rows)
}

// fellow is the state that a cell has at another source, with that source's id of the view.
type fellow struct {
	owner
	held *heldState
}

// fellows returns the states that the item's cell has at other sources that feed the view: `known` for package judge
// and, in the same order, `all` with the stored form.
func (s *batchStates) fellows(k *keeper, it *item) (known []judge.Fellow, all []fellow) {
	for i := range s.others[it.entity] {
		h := &s.others[it.entity][i]
		if h.cell != it.cell {
			continue
		}
		for _, o := range s.owners[k.view.Name] {
			if v := h.find(o.id); o.source == h.source && v != nil {
				f := judge.Fellow{Source: o.source, Known: v.known(), Barren: v.kept == ""}
				known, all = append(known, f), append(all, fellow{o, h})
			}
		}
	}
	return known, all
}

// leads reports whether a view shows another source's row instead of the item's.
func (s *batchStates) leads(k *keeper, it *item) bool {
	known, _ := s.fellows(k, it)
	return slices.ContainsFunc(known, judge.Fellow.Leads)
}

// promotion is a change to another source's state of an item's cell. Until now the view showed the row of the target's
// source, and the other source's row waited. Now the view shows the other source's row.
type promotion struct {
	held  *heldState // the other source's state of the cell, as it was read
	views cellState  // the same state after the batch, in each view
}

// claim decides which source's row of a cell a view shows. `v` is the state of the cell that this source is about to
// store. If the view shows another source's row, and this source's row must wait, claim adds this source's row to `v`.
func (it *item) claim(batch *judge.Batch, n int, s *batchStates, v *viewState) error {
	c := &it.values[n]
	c.now, c.yields, c.waits, c.heir = c.rows, false, false, false
	known, all := s.fellows(c.keeper, it)
	if len(known) == 0 {
		return nil
	}
	for i := range known {
		known[i].Barren = known[i].Barren || c.barren
	}
	var heir int
	c.yields, c.waits, heir = batch.Claim(it.opIndex, n, v.state, known)
	switch {
	case c.yields && c.applies:
		c.now = nil
		if c.waits {
			if v.digest != deadDigest {
				v.kept = string(appendRows(nil, c.rows))
			}
			v.digest = waitingDigest
		}
	case heir >= 0:
		c.heir = true
		return it.promote(c, all[heir], known[heir].Barren)
	}
	return nil
}

// promote makes a view show the rows that waited in another source's state (f). barren: these rows were rejected or
// refused, so the view shows nothing for the cell.
func (it *item) promote(c *converted, f fellow, barren bool) (err error) {
	i := slices.IndexFunc(it.promoted, func(p promotion) bool { return p.held == f.held })
	if i < 0 {
		i = len(it.promoted)
		it.promoted = append(it.promoted, promotion{held: f.held, views: slices.Clone(f.held.views)})
	}
	p := &it.promoted[i]
	v := p.views.find(f.id)
	if barren {
		c.now, v.digest, v.kept = nil, deadDigest, ""
		return nil
	}
	if c.now, err = parseRows(v.kept); err != nil {
		return err
	}
	if v.digest = noDigest; len(c.now) > 0 {
		v.digest = digest(append(slices.Clone(f.salt), v.kept...))
	}
	if len(c.now) == 0 || !c.keeper.shared && !c.keeper.ledger {
		v.kept = ""
	}
	return nil
}

// shown calls f with what the entity's cells at other sources contribute to a view after the batch.
func (s *batchStates) shown(k *keeper, entity string, items []*item, f func(cell string, rows []row) error) error {
	for i := range s.others[entity] {
		h := &s.others[entity][i]
		views := h.views
		if at, ok := findItem(items, entity, h.cell); ok {
			for _, p := range items[at].promoted {
				if p.held == h {
					views = p.views
				}
			}
		}
		for _, o := range s.owners[k.view.Name] {
			v := views.find(o.id)
			if o.source != h.source || v.contribution() == "" {
				continue
			}
			rows, err := parseRows(v.kept)
			if err != nil {
				return err
			}
			if err := f(h.cell, rows); err != nil {
				return err
			}
		}
	}
	return nil
}

// promoted returns other sources' states that change, because the views show the rows of these sources now. Each state
// is an item, so that it is stored in the same way as the states of the batch.
func promoted(items []*item) (changed []*item) {
	for _, it := range items {
		for _, p := range it.promoted {
			changed = append(changed, &item{entity: p.held.entity, cell: it.cell, stored: p.views.append(nil)})
		}
	}
	return changed
}
