package mysql

import (
	"cmp"
	"database/sql"
	"hash/maphash"
	"slices"
	"sync"
)

// An entry of an index stays as long as one cell of its key contributes it. So a change of a cell normally rewrites all
// of the key's entries. For a key with very many cells (a crowd), only differences are written: new entries are
// inserted. Only if an entry must be removed, or the table's rows can't be trusted, are the contributions of all cells
// read, and compared with all of the key's rows.

// fewCells is how many cells a key of an index may have before a change writes only the differences, instead of all of
// the key's entries.
const fewCells = 64

// maxCrowds is how many keys with very many cells are remembered. A forgotten one must be found again, by reading all
// of its states.
const maxCrowds = 1000

// crowds remembers the entities that have very many cells. It is safe for concurrent use.
type crowds struct {
	mu sync.Mutex

	// known has the entities that have very many cells. Its value is a set of view indexes: in these views, the
	// entity's rows were compared with all of the entity's contributions since the target was opened.
	known map[string]map[int]bool
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

func (c *crowds) compared(entity string, view int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[entity][view]
}

// note records that the rows of these entities in these views were compared with all contributions. It must be called
// after the commit.
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

// crowdReading notices, while a batch reads states, which keys have very many cells (crowds). Of such a key it reads
// only the states of the batch's own cells, unless some view needs the states of all cells.
type crowdReading struct {
	target *Target
	items  []*item
	found  map[string]bool // the batch's entities that have very many cells
	alone  []*item         // the items of which only the own cell's state is read, not those of the key's other cells
}

// newCrowdReading returns the crowdReading of a batch; nil if no view treats crowds (keys with very many cells)
// differently from other keys.
func (t *Target) newCrowdReading(items []*item) *crowdReading {
	if !t.valued {
		return nil
	}
	return &crowdReading{target: t, items: items, found: map[string]bool{}}
}

// take decides which states a batch reads for an item (a converted op). If the item's key has very many cells, and no
// view needs the states of all of them, take returns true and adds the item to r.alone. The batch then reads only the
// state of the item's own cell. r may be nil.
func (r *crowdReading) take(it *item) bool {
	if r == nil || !r.found[it.entity] && !r.target.crowds.has(it.entity) {
		return false
	}
	r.found[it.entity] = true
	if r.target.whole {
		return false
	}
	r.alone = append(r.alone, it)
	return true
}

// reads returns the number of queries that the method write appends. r may be nil.
func (r *crowdReading) reads() int {
	if r == nil || len(r.alone) == 0 {
		return 0
	}
	return 1
}

// write appends a query for the states of single cells, whose keys have too many cells to read all of them.
func (r *crowdReading) write(w *writer) {
	if r.reads() == 0 {
		return
	}
	w.write("; SELECT entity, cell, state FROM ", stateTable, " WHERE ")
	between := ""
	for rest := r.alone; len(rest) > 0; {
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

// add keeps a state that was read. Once an entity turns out to have very many cells, it keeps only states of the
// batch's cells, unless some view needs all of them.
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

// findItem finds a cell by binary search among items that are sorted by entity and cell.
func findItem(items []*item, entity, cell string) (int, bool) {
	return slices.BinarySearchFunc(items, cell, func(it *item, cell string) int {
		return cmp.Or(cmp.Compare(it.entity, entity), cmp.Compare(it.cell, cell))
	})
}

// byValue reports whether the entries of a key with very many cells can be written one by one. For that, values must be
// equal if, and only if, the server shows them as the same text.
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

func (k *keeper) findDistinct(sh *shape) {
	names := k.keyNames()
	for _, c := range k.fields {
		names = append(names, c.name)
	}
	k.distinct = slices.ContainsFunc(sh.indexes, func(x index) bool { return x.exactly(names) })
}

// crowd is what a batch changes in one index view, for one key with very many cells.
type crowd struct {
	k       *keeper
	entity  string
	key     []any
	items   []*item
	come    []row // what the changed cells contribute now
	compare bool  // all contributions must be compared with the table's rows of the key
}

// crowdsOf finds the keys with very many cells (crowds) whose contributions to a view change.
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

// change sets c.come and c.compare from the batch's items, and reports whether any contribution changes.
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
	if len(c.come) > 0 && !k.distinct || !k.fresh.Load() && !t.crowds.compared(c.entity, k.viewIndex) {
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

// writeCrowds writes a view's entries of crowds, which are keys with very many cells. It returns the crowds whose
// contributions it compared with the table.
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
				return nil, &viewError{view: k.viewIndex, err: err}
			}
			compared = append(compared, crowdView{c.entity, k.viewIndex})
		}
		keys := slices.Repeat([][]any{c.key}, len(rows))
		if err := w.insert(k, rows, keys, w.onExisting(k)); err != nil {
			return nil, err
		}
	}
	return compared, nil
}

// onExisting returns the end of an INSERT of index entries, which says what changes if an entry exists already. The key
// columns get the new variant of the key, because a collation may treat two variants as equal. If a unique key covers
// exactly the entry (keeper.distinct), the version column gets the higher of the two versions.
func (w *writer) onExisting(k *keeper) string {
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

// claim is a value that at least one cell of a key contributes to an index.
type claim struct {
	version any  // the highest version; nil if the table has no column for it
	held    bool // the table has a correct row of the value, and only that one
	wrong   bool // the table has a row of the value with a wrong version or key, or two rows: all of them are deleted
}

type claims map[uint64]claim

var claimSeed = maphash.MakeSeed()

// valueHash identifies a row's value in this process by 64 bits. With a million values, one process in 37 million has a
// collision.
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

// compareCrowd compares a view's rows of a key that has very many cells with the contributions of all these cells. It
// deletes the rows that no cell contributes, and returns the rows that the table lacks.
//
// The table's unique key may treat the values of two cells as equal. The table then has one row for both, and each
// comparison inserts the missing value again.
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

// eachClaim calls f with what each cell of the key, from every source, contributes after the batch.
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

// unclaimed returns the key's rows in the table that no cell contributes. In `all`, it sets claim.held for each value
// that has a correct row. It also finds rows of other variants of the key, which the table's collation treats as equal
// to it. Such a row is wrong if any cell contributes to the key. Otherwise unclaimed leaves it out, because it belongs
// to an entity whose key is that variant.
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

func (w *writer) removeRows(k *keeper, rows []row) error {
	columns := append(slices.Clone(k.fields), k.keys...)
	changes := make([]change, len(rows))
	for i, r := range rows {
		changes[i].key = r
	}
	return w.removeWhere(k, changes, columns, exactly(columns))
}

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
