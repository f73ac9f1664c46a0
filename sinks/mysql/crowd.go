package mysql

import (
	"cmp"
	"database/sql"
	"hash/maphash"
	"slices"
	"sync"
)

// Where several cells of a key feed an index, its entries are written again when one of the cells changes: what two
// cells claim stays as long as one does. That is simple, and cheap while a key has a few cells. Of a key with many of
// them, a crowd, only what differs is written, and what the other cells contribute is looked at only if it matters:
//
//   - Entries that come are inserted. A unique key over fields and key takes what is there already for the same.
//   - Where an entry goes, or the table has no such key, what all cells claim is compared with all that the table holds
//     of the key. So it is when a cell is repaired, and when this target changes the key for the first time: then what
//     stands there of an older definition of the view, or was put there by hand, goes, as it does for keys with few
//     cells.
//
// Comparing reads what the key's cells claim, which takes longer the more there are, but keeps no more of it than some
// bytes a claim. So a batch that takes entries away costs reads in proportion to the crowd, and writes in proportion to
// the batch.

// fewCells is how many cells a key may have before it is a crowd.
const fewCells = 64

// maxCrowds is how many crowds are remembered. Of one that was forgotten all states are read once more.
const maxCrowds = 1000

// crowds are the entities that were seen to have many cells. It is safe for concurrent use.
type crowds struct {
	mu    sync.Mutex
	known map[string]map[int]bool // by entity: the places of the views that were compared since the target was opened
}

func (c *crowds) has(entity string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.known[entity]
	return ok
}

func (c *crowds) add(entity string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = map[string]map[int]bool{}
	}
	if _, ok := c.known[entity]; ok {
		return
	}
	for other := range c.known {
		if len(c.known) < maxCrowds {
			break
		}
		delete(c.known, other)
	}
	c.known[entity] = map[int]bool{}
}

// compared reports whether a view's entries of an entity were compared.
func (c *crowds) compared(entity string, view int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[entity][view]
}

// note says that views' entries were compared, in a transaction that is committed.
func (c *crowds) note(all []crowdView) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range all {
		if views, ok := c.known[one.entity]; ok {
			views[one.view] = true
		}
	}
}

type crowdView struct {
	entity string
	view   int
}

// crowdReading is how the states of crowds are read: those of the batch's cells alone, unless some view needs all.
type crowdReading struct {
	target *Target
	items  []*item
	found  map[string]bool
	named  []*item // of crowds that are known as such
}

// newCrowdReading returns nil if there is no view that tells crowds from others.
func (t *Target) newCrowdReading(items []*item) *crowdReading {
	if !t.valued {
		return nil
	}
	return &crowdReading{target: t, items: items, found: map[string]bool{}}
}

// take reports whether an item's state is read as one of a known crowd's. It may be asked of nil.
func (r *crowdReading) take(it *item) bool {
	if r == nil || !r.found[it.entity] && !r.target.crowds.has(it.entity) {
		return false
	}
	r.found[it.entity] = true
	if r.target.whole {
		return false
	}
	r.named = append(r.named, it)
	return true
}

// reads is how many queries write writes. It may be asked of nil.
func (r *crowdReading) reads() int {
	if r == nil || len(r.named) == 0 {
		return 0
	}
	return 1
}

// write writes the query for the states of the known crowds' cells that the batch has, behind others.
func (r *crowdReading) write(w *writer) {
	if r.reads() == 0 {
		return
	}
	w.write("; SELECT entity, cell, state FROM ", stateTable, " WHERE ")
	between := ""
	for rest := r.named; len(rest) > 0; {
		first, n := rest[0], 0
		for n < len(rest) && rest[n].entity == first.entity {
			n++
		}
		for _, entity := range r.target.entities(nil, first.entity, first.op.Cell.Key) {
			w.write(between, "(entity = ")
			w.text = appendBinary(w.text, entity)
			w.write(" AND cell IN (")
			for i, it := range rest[:n] {
				w.text = appendBinary(appendAfter(w.text, i, ","), it.cell)
			}
			w.write("))")
			between = " OR "
		}
		rest = rest[n:]
	}
}

// add adds what was read to what was found. Once an entity turns out to be a crowd, only the batch's cells are kept.
func (r *crowdReading) add(to heldStates, entity string, h heldState) {
	all := to[entity]
	if len(all) >= r.target.sink.few && !r.found[entity] {
		r.found[entity] = true
		if !r.target.whole {
			to[entity] = slices.DeleteFunc(all, func(h heldState) bool { return !r.has(entity, h.cell) })
		}
	}
	if r.found[entity] && !r.target.whole && !r.has(entity, h.cell) {
		return
	}
	to[entity] = append(to[entity], h)
}

func (r *crowdReading) has(entity, cell string) bool {
	_, ok := findItem(r.items, entity, cell)
	return ok
}

// findItem finds the place of a cell among items in order.
func findItem(items []*item, entity, cell string) (int, bool) {
	return slices.BinarySearchFunc(items, cell, func(it *item, cell string) int {
		return cmp.Or(cmp.Compare(it.entity, entity), cmp.Compare(it.cell, cell))
	})
}

// byValue reports whether what several cells of a key contribute to the view can be written value by value: values are
// equal if what the server shows of them is.
func (k *keeper) byValue() bool {
	if _, ok := k.kind.(indexKind); !ok || !k.shared || k.version != nil && integerBits[k.version.typ] == 0 {
		return false
	}
	return !slices.ContainsFunc(k.managed(), func(c *column) bool {
		switch c.typ {
		case "float", "double", "json", "set", "bit":
			return true
		}
		return false
	})
}

// findDistinct looks for a unique key that takes a value of a key once.
func (k *keeper) findDistinct(sh *shape) {
	names := k.keyNames()
	for _, c := range k.fields {
		names = append(names, c.name)
	}
	k.distinct = slices.ContainsFunc(sh.indexes, func(x index) bool { return x.exactly(names) })
}

// crowd is an entity with many cells, as a batch changes it in one view.
type crowd struct {
	k       *keeper
	entity  string
	key     []any
	items   []*item // the entity's
	come    []row   // what the changed cells contribute now
	compare bool
}

// crowdsOf finds the crowds whose contributions to a view change.
func (t *Target) crowdsOf(k *keeper, items []*item, crowded map[string]bool) (all []*crowd, err error) {
	for len(items) > 0 {
		entity := items[0].entity
		n := 1
		for n < len(items) && items[n].entity == entity {
			n++
		}
		if crowded[entity] {
			c := &crowd{k: k, entity: entity, items: items[:n]}
			changed, err := t.change(c)
			if err != nil {
				return nil, err
			}
			if changed {
				all = append(all, c)
			}
		}
		items = items[n:]
	}
	return all, nil
}

// change finds what the entity's cells in the batch change.
func (t *Target) change(c *crowd) (changed bool, err error) {
	k := c.k
	var gone []row
	for _, it := range c.items {
		for i := range it.values {
			v := &it.values[i]
			if v.keeper != k || !v.changes(it.op) {
				continue
			}
			changed, c.key = true, v.key
			c.compare = c.compare || it.op.Rewrite
			c.come = append(c.come, v.now...)
			if kept := v.old.contribution(); kept != "" {
				old, err := parseRows(kept)
				if err != nil {
					return false, err
				}
				gone = append(gone, old...)
			}
		}
	}
	c.come = distinct([][]row{c.come}, len(k.fields))
	if len(c.come) > 0 && !k.distinct || !k.fresh.Load() && !t.crowds.compared(c.entity, k.place) {
		c.compare = true
	}
	if c.compare || len(gone) == 0 {
		return changed, nil
	}
	stays := claims{}
	stays.add(k, c.come)
	for _, r := range gone {
		claim, ok := stays[k.valueHash(r)]
		if !ok || k.version != nil && newer(r[len(k.fields)], claim.version) {
			c.compare = true
		}
	}
	return changed, nil
}

// writeCrowds writes what changed of crowds, and returns those that were compared.
func (t *Target) writeCrowds(
	w *writer, k *keeper, items []*item, s *batchStates, crowded map[string]bool,
) (compared []crowdView, err error) {
	all, err := t.crowdsOf(k, items, crowded)
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		rows := c.come
		if c.compare {
			if rows, err = t.compareCrowd(w, c, s); err != nil {
				return nil, &viewError{view: k.place, err: err}
			}
			compared = append(compared, crowdView{c.entity, k.place})
		}
		keys := slices.Repeat([][]any{c.key}, len(rows))
		if err := w.insert(k, rows, keys, w.claimed(k)); err != nil {
			return nil, err
		}
	}
	return compared, nil
}

// claimed is what is done where a row's unique key is there already: it gets the key as it is spelt now, and the higher
// version.
func (w *writer) claimed(k *keeper) string {
	suffix := w.server.rowAlias() + " ON DUPLICATE KEY UPDATE "
	for i, c := range k.keys {
		if i > 0 {
			suffix += ", "
		}
		suffix += c.quoted + " = " + w.server.newRow(c.quoted)
	}
	if v := k.version; v != nil && k.distinct {
		held, own := k.table+"."+v.quoted, w.server.newRow(v.quoted)
		suffix += ", " + v.quoted + " = COALESCE(GREATEST(" + held + ", " + own + "), " + own + ")"
	}
	return suffix
}

// claim is a value that some cell of a key contributes.
type claim struct {
	version any  // the highest; nil if the table has no column for it
	held    bool // the table has its row
	wrong   bool // the table has rows of it that go
}

// claims are those of a key's cells, by the values' hashes.
type claims map[uint64]claim

var claimSeed = maphash.MakeSeed()

// valueHash is a short name for a row's value, in this process. There are 2^64 of them: of a million values two have
// one name in one process of 37 millions.
func (k *keeper) valueHash(r row) uint64 {
	return maphash.Bytes(claimSeed, appendRows(nil, []row{r[:len(k.fields)]}))
}

func (c claims) add(k *keeper, rows []row) {
	for _, r := range rows {
		h := k.valueHash(r)
		held, ok := c[h]
		if k.version != nil && (!ok || newer(r[len(k.fields)], held.version)) {
			held.version = r[len(k.fields)]
		}
		c[h] = held
	}
}

// compareCrowd compares what all of a crowd's cells claim with what the table holds of the key, has the rows deleted
// that nobody claims, and returns those to be inserted. Two cells' values that the table's unique key takes for one are
// inserted whenever one of them has no row of its own.
func (t *Target) compareCrowd(w *writer, c *crowd, s *batchStates) (missing []row, err error) {
	k, all := c.k, claims{}
	claimed := func(rows []row) { all.add(k, rows) }
	if err := t.eachClaim(w, c, s, claimed); err != nil {
		return nil, err
	}
	wrong, err := w.unclaimed(c, all)
	if err != nil {
		return nil, err
	}
	if err := w.removeRows(k, wrong); err != nil {
		return nil, err
	}
	lacking := 0
	for _, claim := range all {
		if !claim.held {
			lacking++
		}
	}
	if lacking == 0 {
		return nil, nil
	}
	take := func(rows []row) {
		for _, r := range rows {
			h := k.valueHash(r)
			claim := all[h]
			if claim.held || k.version != nil && claim.version != r[len(k.fields)] {
				continue
			}
			claim.held = true
			all[h] = claim
			missing = append(missing, r)
		}
	}
	return missing, t.eachClaim(w, c, s, take)
}

// eachClaim gives f what each cell of a crowd contributes, those of the batch as they are now, whichever source it is of.
func (t *Target) eachClaim(w *writer, c *crowd, s *batchStates, f func(rows []row)) error {
	give := func(kept string) error {
		rows, err := parseRows(kept)
		f(rows)
		return err
	}
	for _, it := range c.items {
		if err := give(it.after.find(c.k.id).contribution()); err != nil {
			return err
		}
	}
	if err := s.shown(c.k, c.entity, c.items, func(cell string, rows []row) error {
		if _, own := findItem(c.items, c.entity, cell); own {
			f(rows)
		}
		return nil
	}); err != nil {
		return err
	}
	w.writeReading(t.entities(nil, c.entity, c.items[0].op.Cell.Key), nil)
	return w.query(func(rows *sql.Rows) error {
		return scanStates(rows, func(entity, cell []byte, state cellState, _ string) error {
			if _, own := findItem(c.items, c.entity, string(cell)); own {
				return nil
			}
			id, h := c.k.id, heldState{}
			if s.place(t.source, &h, string(entity)); h.source != "" {
				if id = s.idOf(c.k, h.source); id == 0 {
					return nil
				}
			}
			return give(state.find(id).contribution())
		})
	})
}

// unclaimed notes which claims the table holds, and returns the rows of a crowd's key that are none: fields and key.
// The rows of a key that is only spelt in another way, as the table's collation has it, are another's if nothing is
// claimed.
func (w *writer) unclaimed(c *crowd, all claims) (wrong []row, err error) {
	k := c.k
	columns := append(slices.Clone(k.fields), k.keys...)
	key := string(appendRows(nil, []row{c.key}))
	w.write("SELECT ", selectList(k.managed()), " FROM ", k.table, " WHERE ")
	w.oneOf(k.keys, 1, func(int) []any { return c.key })
	query := w.taken(&w.text)
	if err := w.send(); err != nil {
		return nil, err
	}
	err = eachBound(w.ctx, w.conn, k.managed(), func(r row) {
		h := k.valueHash(r)
		claim, ok := all[h]
		own := string(appendRows(nil, []row{r[len(k.fields):len(columns)]})) == key
		switch {
		case !own && len(all) == 0:
		case own && ok && !claim.held && !claim.wrong && (k.version == nil || r[len(columns)] == claim.version):
			claim.held = true
		default:
			claim.held, claim.wrong = false, true
			wrong = append(wrong, r[:len(columns)])
		}
		if ok {
			all[h] = claim
		}
	}, query)
	return wrong, err
}

// removeRows deletes rows: fields and key, as they are spelt.
func (w *writer) removeRows(k *keeper, rows []row) error {
	columns := append(slices.Clone(k.fields), k.keys...)
	changes := make([]change, len(rows))
	for i, r := range rows {
		changes[i].key = r
	}
	return w.removeWhere(k, changes, columns, exactly(columns))
}

// query sends what waits and the query that was written, and gives scan its result.
func (w *writer) query(scan func(rows *sql.Rows) error) error {
	query := w.taken(&w.text)
	if err := w.send(); err != nil {
		return err
	}
	rows, err := w.conn.QueryContext(w.ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	return scan(rows)
}
