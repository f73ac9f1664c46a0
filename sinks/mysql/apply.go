package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"replicator"
	"replicator/internal/pause"
	"replicator/sinks/judge"
)

// item is a converted op of a batch, with the current transaction's decisions about the op. A repeated transaction
// decides again.
type item struct {
	opIndex       int
	op            *replicator.Op
	entity        string
	cell          string
	values        []converted
	before, after cellState
	stored        []byte // the cell's state after the op, encoded
	promoted      []promotion
	met           bool // the cell may already have a state in the sink
}

// converted is what an op contributes to one view, in the target's own types.
type converted struct {
	keeper *keeper
	key    []any
	rows   []row  // empty if the op contributes no row, or none that the table can hold
	kept   string // the contribution's rows, encoded, if the cell's state must keep them
	digest uint64
	err    error // why the table can't hold the value; nil: it can

	old     *viewState // the cell's state in the view before the op; nil if none was read
	applies bool
	now     []row // what the view will show for the cell: this source's rows, another source's, or none
	yields  bool  // the view shows another source's row of the cell, and none of this source
	waits   bool  // yields is set, and this source's own row waits in the state until the other row is deleted
	heir    bool  // this source's row is gone, and another source's row was waiting: the view will show that row
	barren  bool  // heir is set, but the server refused the other source's row: the view shows no row for the cell

	one  [1]row   // backing array of rows if there is only one row, to save an allocation
	cell [1][]row // backing array of change.rows if one cell feeds the key, to save an allocation
}

// Apply implements replicator.Target. If the server refuses a row, Apply rejects that row and applies the others.
func (t *Target) Apply(ctx context.Context, ops []replicator.Op) (replicator.Applied, error) {
	batch := judge.NewBatch(ops)
	items := make([]*item, 0, len(ops))
	converter := t.newConverter(ops)
	for i := range ops {
		it := converter.convert(i)
		it.met = t.shared || t.novelty.meet(it.entity, it.cell)
		fits := len(it.entity) <= maxEntity && len(it.cell) <= maxCell
		for n := range it.values {
			if !fits {
				it.values[n].err = fmt.Errorf("the cell's key is longer than the %d bytes that fit", maxEntity)
			}
			if it.values[n].err != nil {
				reason, again := t.makeRoom(ctx, it.values[n].keeper, it.values[n].err)
				if again != nil {
					return replicator.Applied{}, again
				}
				it.values[n].err = reason
			}
			batch.Reject(i, n, it.values[n].err)
		}
		if fits {
			items = append(items, it)
		}
	}
	// Sort by key, so that neighbors share pages, and concurrent batches take their locks in the same order.
	slices.SortFunc(items, func(a, b *item) int {
		return cmp.Or(cmp.Compare(a.entity, b.entity), cmp.Compare(a.cell, b.cell))
	})
	for some := range slices.Chunk(items, maxList) {
		if err := t.applyOrSplit(ctx, batch, some, quickly); err != nil {
			return replicator.Applied{}, t.explain(ctx, err)
		}
	}
	t.marks.Applied()
	return batch.Applied(), nil
}

// converter makes an item of each op of a batch: the op, and its values converted to the types of the views' columns.
// It allocates all items together, and all of their values together.
type converter struct {
	target   *Target
	ops      []replicator.Op
	items    []item
	values   []converted
	entities string // concatenated entity ids of the ops that are not converted yet
	prefix   int    // length of the source's part of each entity id, in bytes
	table    string // the last converted cell's table, column and id: usually the next one's, too
	column   string
	cell     string
	stored   []byte // a reused buffer for the stored form of rows
}

func (t *Target) newConverter(ops []replicator.Op) *converter {
	c := &converter{target: t, ops: ops, items: make([]item, len(ops))}
	values, size := 0, 0
	prefix := entityID(t.source, "")
	for i := range ops {
		values += len(ops[i].Values)
		size += len(prefix) + len(ops[i].Cell.Key)
	}
	entities := make([]byte, 0, size)
	for i := range ops {
		entities = append(append(entities, prefix...), ops[i].Cell.Key...)
	}
	c.values, c.entities, c.prefix = make([]converted, values), string(entities), len(prefix)
	return c
}

func (c *converter) convert(opIndex int) *item {
	t, op, it := c.target, &c.ops[opIndex], &c.items[opIndex]
	if cell := op.Cell; c.cell == "" || cell.Table != c.table || cell.Column != c.column {
		c.table, c.column, c.cell = cell.Table, cell.Column, cellID(cell)
	}
	size := c.prefix + len(op.Cell.Key)
	it.opIndex, it.op, it.entity, it.cell = opIndex, op, c.entities[:size], c.cell
	c.entities = c.entities[size:]
	it.values, c.values = c.values[:len(op.Values):len(op.Values)], c.values[len(op.Values):]
	key, err := op.Cell.Key.Values()
	for i, v := range op.Values {
		value := &it.values[i]
		value.keeper = t.kept[v.View]
		if value.err = err; err == nil {
			c.stored = value.convert(key, op.Version, v, t.server.packet, c.stored[:0])
		}
		if value.err != nil || v.Err != nil {
			value.reject(value.err)
		}
	}
	return it
}

// convert converts a value to the types of the view's columns. It rejects a value that is too large for a statement. It
// appends the rows' stored form to the buffer `stored`, and returns that buffer, for reuse.
func (c *converted) convert(key []any, version int64, v replicator.Value, packet int, stored []byte) []byte {
	if c.key, c.err = c.keeper.key(key); c.err != nil || v.Err != nil {
		return stored
	}
	c.rows = c.one[:0]
	for _, e := range v.Entries {
		r, err := c.keeper.kind.row(c.keeper, e, version)
		if err != nil {
			c.err = err
			return stored
		}
		if r != nil {
			c.rows = append(c.rows, r)
		}
	}
	if len(c.rows) == 0 {
		return stored
	}
	if len(c.rows) > 1 && c.keeper.single {
		c.err = fmt.Errorf("the table has one row for each key, but the cell contributes %d rows", len(c.rows))
		return stored
	}
	stored = appendRows(append(stored, c.keeper.salt...), c.rows)
	form := stored[len(c.keeper.salt):]
	if 2*len(form) > packet {
		if n := quotedSize(form); n > packet {
			c.err = fmt.Errorf("the row takes %d bytes in a statement, which is more than the server's "+
				"max_allowed_packet, %d", n, packet)
			return stored
		}
	}
	c.digest = digest(stored)
	if c.keeper.shared || c.keeper.ledger {
		c.kept = string(form)
	}
	return stored
}

func (c *converted) reject(err error) {
	c.rows, c.kept, c.digest, c.err = nil, "", deadDigest, err
}

type mode int

const (
	// quickly is the mode that sends several statements together, and guesses which cells are new (see novelty).
	quickly mode = iota

	// carefully is the mode that makes no guesses and sends each statement alone, to find out which one the server
	// refuses.
	carefully
)

// applyOrSplit applies items in one transaction. If the server refuses a statement, applyOrSplit repeats the
// transaction, and sends each statement alone. If a row is the cause, or the batch is too large, it splits the batch.
// It rejects a row that the server refuses even alone.
func (t *Target) applyOrSplit(ctx context.Context, batch *judge.Batch, items []*item, mode mode) error {
	unordered := t.unordered()
	err := t.applyPatiently(ctx, batch, items, mode)
	if mode == quickly && refuses(err) && (len(items) == 1 || !tooMuch(err)) {
		if is(err, errDuplicate) {
			t.guesses.Store(false)
		}
		mode = carefully
		err = t.applyPatiently(ctx, batch, items, mode)
	}
	if again, failed := t.unorder(ctx, err, unordered); failed != nil {
		return failed
	} else if again {
		return t.applyOrSplit(ctx, batch, items, quickly)
	}
	reason := rowReason(err)
	switch {
	case err == nil || reason == "" && !tooMuch(err):
		return err
	// A view was assumed to have no other program's rows (fresh.go). Repeat without that assumption.
	case reason != "" && t.endFreshness():
		return t.applyOrSplit(ctx, batch, items, mode)
	case len(items) > 1:
		half := len(items) / 2
		if err := t.applyOrSplit(ctx, batch, items[:half], mode); err != nil {
			return err
		}
		return t.applyOrSplit(ctx, batch, items[half:], mode)
	}
	var at *viewError
	if reason == "" || !errors.As(err, &at) {
		return err
	}
	rejected := false
	for i := range items[0].values {
		c := &items[0].values[i]
		if c.heir && (c.keeper.viewIndex == at.view || at.view == allViews) {
			c.barren, rejected = true, true
		}
		if (c.keeper.viewIndex == at.view || at.view == allViews) && len(c.rows) > 0 {
			c.reject(errors.New(reason))
			batch.Reject(items[0].opIndex, i, c.err)
			rejected = true
		}
	}
	if !rejected {
		return t.cannotTakeBack(at, err) // no row is the cause: the server refused to subtract an old amount
	}
	return t.applyOrSplit(ctx, batch, items, mode)
}

// attempts limits how often a transaction that ends in a deadlock is tried. While tables are small, the server reads
// them from end to end even for a few keys, so concurrent batches collide even without common keys.
const attempts = 10

func (t *Target) applyPatiently(ctx context.Context, batch *judge.Batch, items []*item, mode mode) error {
	return patiently(ctx, func() error { return t.applyOnce(ctx, batch, items, mode) })
}

// patiently repeats `do` as long as it ends in a deadlock, but calls it at most `attempts` times in all.
func patiently(ctx context.Context, do func() error) error {
	for i := 1; ; i++ {
		err := do()
		if err == nil || !transient(err) || i == attempts {
			return err
		}
		if err := pause.For(ctx, rand.N(time.Duration(i)*10*time.Millisecond)); err != nil {
			return err
		}
	}
}

// explain adds the view and the table to an error, or the GRANT that is missing.
func (t *Target) explain(ctx context.Context, err error) error {
	var at *viewError
	if errors.As(err, &at) && at.view != allViews {
		v := t.views[at.view]
		database, _ := split(settingsOf(v).Table, t.sink.database)
		said := classify(at.err, fmt.Sprintf("view %s, table %s", v.Name, settingsOf(v).Table))
		said = t.sink.withGrant(ctx, said, at.err, database)
		if ofTable(at.err) {
			return replicator.OfView(said, v.Name)
		}
		return said
	}
	return t.sink.withGrant(ctx, classify(err, "applying a batch"), err, t.sink.database)
}

func (t *Target) applyOnce(ctx context.Context, batch *judge.Batch, items []*item, mode mode) error {
	return t.sink.onConnection(ctx, func(conn *sql.Conn) error {
		w := &writer{ctx: ctx, conn: conn, server: t.server, epoch: t.epoch, apart: mode == carefully}
		return t.applyIn(w, batch, items, mode == quickly && t.guesses.Load() && len(t.others) == 0)
	})
}

// applyIn applies items in a transaction. If guess is set, it takes cells that were in no earlier batch of the target
// for new, and doesn't read their states (novelty.go).
func (t *Target) applyIn(w *writer, batch *judge.Batch, items []*item, guess bool) error {
	states, crowded, err := t.begin(w, items, guess)
	if err != nil {
		return err
	}
	var unseen, changed []*item
	stored := make([]byte, 0, 64*len(items))
	for _, it := range items {
		held := states.own.of(it.entity, it.cell)
		if err := it.decide(batch, held.views, states, t.retired); err != nil {
			return err
		}
		from := len(stored)
		stored = it.after.append(stored)
		it.stored = stored[from:]
		switch {
		case held.stored == "" && len(it.after) > 0:
			unseen = append(unseen, it)
		case held.stored == "":
		case string(it.stored) != held.stored:
			changed = append(changed, it)
		}
	}
	if err := w.writeStates(unseen, ""); err != nil {
		return err
	}
	var compared []crowdView
	for _, k := range t.kept {
		changes, err := t.changes(k, items, states, crowded, guess)
		if err != nil {
			return err
		}
		if len(changes) > 0 {
			if err := k.kind.write(w, k, changes); err != nil {
				return err
			}
		}
		if k.valued && len(crowded) > 0 {
			some, err := t.writeCrowds(w, k, items, states, crowded)
			if err != nil {
				return err
			}
			compared = append(compared, some...)
		}
	}
	replace := w.server.rowAlias() + " ON DUPLICATE KEY UPDATE state = " + w.server.newRow("state")
	if err := w.writeStates(append(changed, promoted(items)...), replace); err != nil {
		return err
	}
	err = w.commit()
	if err == nil {
		t.crowds.note(compared)
	}
	return err
}

// begin locks the partitions of the items' keys, and reads the states of the items' cells. If views merge cells, it
// reads the states of all cells of the items' keys.
func (t *Target) begin(w *writer, items []*item, guess bool) (*batchStates, map[string]bool, error) {
	partitions := make([]int, 0, len(items))
	entities := make([]string, 0, len(items))
	var cells []string
	crowds := t.newCrowdReading(items)
	for _, it := range items {
		partitions = append(partitions, it.op.Cell.Key.Partition())
		if !it.met && guess || crowds.take(it) {
			continue
		}
		entities = t.entities(entities, it.entity, it.op.Cell.Key)
		if !t.shared && !slices.Contains(cells, it.cell) {
			cells = append(cells, it.cell)
		}
	}
	if len(cells) > 16 { // too many: the server would look up every combination of entity and cell
		cells = nil
	}
	slices.Sort(partitions)
	slices.Sort(entities)
	states, err := w.begin(t, slices.Compact(partitions), slices.Compact(entities), cells, crowds)
	if err != nil || crowds == nil {
		return states, nil, err
	}
	for entity := range crowds.found {
		t.crowds.add(entity)
	}
	return states, crowds.found, nil
}

// decide determines, for each view that the op has a value for, whether the op applies, and what the cell's state is
// after the op.
func (it *item) decide(batch *judge.Batch, before cellState, states *batchStates, retired map[uint32]bool) error {
	it.before, it.promoted = before, nil
	it.after = make(cellState, 0, max(len(before), len(it.values)))
	for _, v := range before {
		if !retired[v.view] {
			it.after = append(it.after, v)
		}
	}
	unknown := batch.Unknown(it.opIndex, func(value int) judge.Known { return it.judged(value, states) })
	for i := range it.values {
		c := &it.values[i]
		c.old = before.find(c.keeper.id)
		if unknown {
			c.applies, c.now, c.yields, c.waits, c.heir = false, nil, false, false, false
			continue
		}
		var next replicator.State
		next, c.applies = batch.Judge(it.opIndex, i, it.judged(i, states))
		v := viewState{view: c.keeper.id, state: next, digest: c.digest, kept: c.kept}
		if err := it.claim(batch, i, states, &v); err != nil {
			return err
		}
		switch {
		case c.applies:
			if c.old != nil {
				*it.after.find(c.keeper.id) = v
			} else {
				it.after = append(it.after, v)
			}
		case c.old != nil:
			it.after.find(c.keeper.id).state = next
		}
	}
	return nil
}

// changes reports whether the transaction must write an op's contribution to the table. While the view shows another
// source's row (yields), it must write only if the view merges cells (shared) and still shows this source's
// contribution, which must go.
func (c *converted) changes(op *replicator.Op) bool {
	if c.yields && !(c.keeper.shared && c.old.known().Shown) {
		return false
	}
	return c.applies && c.key != nil && (c.heir || c.old == nil || c.old.digest != c.digest || rewrites(op))
}

// rewrites reports whether an op writes the contribution even if the state says that it is stored already.
func rewrites(op *replicator.Op) bool { return op.AsOf != 0 || op.Rewrite }

// changes returns the keys whose rows must be written: their contribution changed, the view sees them for the first
// time, or they were read again. A repair must write even what the state says is stored.
func (t *Target) changes(
	k *keeper, items []*item, states *batchStates, crowded map[string]bool, guess bool,
) ([]change, error) {
	if k.ledger {
		return ledgerChanges(k, items)
	}
	var changes []change
	entity := "" // the entity of the last change; an entity's items are adjacent
	for _, it := range items {
		for i := range it.values {
			c := &it.values[i]
			if c.keeper != k || !c.changes(it.op) || k.valued && crowded[it.entity] {
				continue
			}
			if changes == nil {
				changes = make([]change, 0, len(items))
			}
			switch {
			case !k.shared:
				absent := k.fresh.Load() || guess && k.single && len(c.rows) > 0
				held := c.old == nil && !absent || c.old.known().Shown || rewrites(it.op)
				if c.old != nil && t.source != "" { // a former source may have put rows of the key into the table
					held = true
				}
				c.cell[0] = c.now
				changes = append(changes, change{key: c.key, rows: c.cell[:], held: held})
			case it.entity != entity:
				entity = it.entity
				rows, err := t.gather(k, entity, items, states)
				if err != nil {
					return nil, err
				}
				changes = append(changes, change{key: c.key, rows: rows, held: true})
			}
		}
	}
	return changes, nil
}
