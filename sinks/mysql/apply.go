package mysql

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"replicator"
	"replicator/internal/pause"
)

// item is one op of a batch, converted, and what became of it.
type item struct {
	place  int // in the batch
	op     *replicator.Op
	entity string
	cell   string
	values []converted

	// What the transaction at hand decided. A transaction that is repeated decides anew.
	before, after cellState
	applied       []bool // by value
	stale         bool
}

// converted is what an op contributes to one view, in the target's own types.
type converted struct {
	keeper *keeper
	key    []any
	stored []byte // nil: nothing, or nothing that can be held
	digest uint64
	err    error // the value can't be held
}

// Apply implements replicator.Target.
func (t *Target) Apply(ctx context.Context, ops []replicator.Op) (replicator.Applied, error) {
	var applied replicator.Applied
	items := make([]*item, 0, len(ops))
	for i := range ops {
		it := t.convert(i, &ops[i])
		if len(it.entity) > maxEntity || len(it.cell) > maxCell {
			for _, c := range it.values {
				err := fmt.Errorf("the cell's key is longer than the %d bytes that can be remembered", maxEntity)
				applied.Rejected = append(applied.Rejected, replicator.Rejected{Op: i, View: c.keeper.place, Err: err})
			}
			continue
		}
		items = append(items, it)
	}
	// In the order of their keys: neighbours share pages, and batches that meet take their locks in one order.
	slices.SortFunc(items, func(a, b *item) int {
		return cmp.Or(cmp.Compare(a.entity, b.entity), cmp.Compare(a.cell, b.cell))
	})
	for rest := items; len(rest) > 0; {
		n := min(len(rest), maxList)
		if err := t.applyOrSplit(ctx, rest[:n]); err != nil {
			return replicator.Applied{}, t.explain(err)
		}
		rest = rest[n:]
	}
	slices.SortFunc(items, func(a, b *item) int { return cmp.Compare(a.place, b.place) })
	for _, it := range items {
		if it.stale {
			applied.Stale = append(applied.Stale, it.place)
		}
		for i, c := range it.values {
			if c.err != nil && it.applied[i] {
				applied.Rejected = append(applied.Rejected, replicator.Rejected{Op: it.place, View: c.keeper.place, Err: c.err})
			}
			if it.stale && it.before.find(c.keeper.id).dead() {
				applied.Dead = append(applied.Dead, replicator.ValueAt{Op: it.place, View: c.keeper.place})
			}
		}
	}
	return applied, nil
}

// convert makes an item of an op.
func (t *Target) convert(place int, op *replicator.Op) *item {
	it := &item{place: place, op: op, entity: entityID(t.source, op.Cell.Key), cell: cellID(op.Cell)}
	it.values = make([]converted, len(op.Values))
	it.applied = make([]bool, len(op.Values))
	key, err := op.Cell.Key.Values()
	for i, v := range op.Values {
		c := &it.values[i]
		c.keeper = t.kept[v.View]
		if c.err = err; err == nil {
			c.fill(key, op.Version, v, t.server.packet)
		}
		if c.err != nil || v.Err != nil {
			c.reject(c.err)
		}
	}
	return it
}

// fill converts a value. A contribution that is larger than a statement may be can't be stored either.
func (c *converted) fill(key []any, version int64, v replicator.Value, packet int) {
	if c.key, c.err = c.keeper.key(key); c.err != nil || v.Err != nil {
		return
	}
	var rows []row
	for _, e := range v.Entries {
		r, err := c.keeper.kind.row(c.keeper, e, version)
		if err != nil {
			c.err = err
			return
		}
		if r != nil {
			rows = append(rows, r)
		}
	}
	if len(rows) == 0 {
		return
	}
	if len(rows) > 1 && c.keeper.single {
		c.err = fmt.Errorf("the table takes one row a key, and there are %d", len(rows))
		return
	}
	stored := appendRows(nil, rows)
	if 2*len(stored) > packet {
		c.err = fmt.Errorf("%d bytes are too much for the server's max_allowed_packet, %d", len(stored), packet)
		return
	}
	c.stored, c.digest = stored, digest(c.keeper.salt, stored)
}

// reject makes a value contribute nothing.
func (c *converted) reject(err error) { c.stored, c.digest, c.err = nil, deadDigest, err }

// applyOrSplit applies items in one transaction; if the server refuses one because of a value, in smaller ones, until
// the value is found and rejected.
func (t *Target) applyOrSplit(ctx context.Context, items []*item) error {
	err := t.applyPatiently(ctx, items)
	reason := dataReason(err)
	var at *viewError
	if reason == "" || !errors.As(err, &at) {
		return err
	}
	if t.grown() { // perhaps because of what somebody else wrote
		return t.applyOrSplit(ctx, items)
	}
	if len(items) > 1 {
		half := len(items) / 2
		if err := t.applyOrSplit(ctx, items[:half]); err != nil {
			return err
		}
		return t.applyOrSplit(ctx, items[half:])
	}
	rejected := false
	for i := range items[0].values {
		c := &items[0].values[i]
		if (c.keeper.place == at.view || at.view == allViews) && c.stored != nil {
			c.reject(errors.New(reason))
			rejected = true
		}
	}
	if !rejected {
		return t.cannotTakeBack(at, err) // not because of what this item brings
	}
	return t.applyOrSplit(ctx, items)
}

// attempts is how often a transaction is tried that the server chose to give up for another one. Small tables are read
// from end to end even for a few keys, and then lanes that share no key meet; that passes as the tables grow.
const attempts = 10

func (t *Target) applyPatiently(ctx context.Context, items []*item) error {
	for i := 1; ; i++ {
		err := t.applyOnce(ctx, items)
		if err == nil || !transient(err) || i == attempts {
			return err
		}
		if err := pause.For(ctx, rand.N(time.Duration(i)*10*time.Millisecond)); err != nil {
			return err
		}
	}
}

// explain says where an error happened, and what it means.
func (t *Target) explain(err error) error {
	var at *viewError
	if errors.As(err, &at) && at.view != allViews {
		v := t.views[at.view]
		said := classify(at.err, fmt.Sprintf("view %s, table %s", v.Name, v.Table))
		if ofTable(at.err) {
			return replicator.OfView(said, v.Name)
		}
		return said
	}
	return classify(err, "applying a batch")
}

// applyOnce applies items in one transaction.
func (t *Target) applyOnce(ctx context.Context, items []*item) error {
	tx, err := t.sink.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	w := &writer{ctx: ctx, tx: tx, server: t.server, epoch: t.epoch}
	if err := t.applyIn(w, items); err != nil {
		return rollback(tx, err)
	}
	return tx.Commit()
}

func (t *Target) applyIn(w *writer, items []*item) error {
	partitions := make([]int, 0, len(items))
	entities := make([]string, 0, len(items))
	var cells []string
	for _, it := range items {
		partitions = append(partitions, it.op.Cell.Key.Partition())
		entities = append(entities, it.entity)
		if !t.shared && !slices.Contains(cells, it.cell) {
			cells = append(cells, it.cell)
		}
	}
	if len(cells) > 16 { // the product of the two lists is what the server looks up
		cells = nil
	}
	slices.Sort(partitions)
	if err := w.lock(slices.Compact(partitions)); err != nil {
		return err
	}
	states, err := readStates(w.ctx, w.tx, slices.Compact(entities), cells)
	if err != nil {
		return err
	}
	var changed []*item
	for _, it := range items {
		it.decide(states[it.entity][it.cell], t.retired)
		if !bytes.Equal(it.before.append(nil), it.after.append(nil)) {
			changed = append(changed, it)
		}
	}
	for i, k := range t.kept {
		changes, err := t.changes(i, items, states)
		if err != nil {
			return err
		}
		if len(changes) > 0 {
			if err := k.kind.write(w, k, changes); err != nil {
				return err
			}
		}
	}
	if err := w.writeStates(changed); err != nil {
		return err
	}
	return w.writeDead(items)
}

// decide judges the op for each of its views.
func (it *item) decide(before cellState, retired map[uint32]bool) {
	it.before = before
	it.after = slices.DeleteFunc(slices.Clone(before), func(v viewState) bool { return retired[v.view] })
	it.stale = len(it.values) > 0
	for i := range it.values {
		c := &it.values[i]
		state := replicator.Unseen
		old := before.find(c.keeper.id)
		if old != nil {
			state = old.state
		}
		next, ok := state.Next(*it.op)
		it.applied[i] = ok
		if !ok {
			if old != nil {
				it.after.find(c.keeper.id).state = next
			}
			continue
		}
		it.stale = false
		v := viewState{view: c.keeper.id, state: next, digest: c.digest}
		if c.keeper.shared || c.keeper.ledger {
			v.kept = c.stored
		}
		if old != nil {
			*it.after.find(c.keeper.id) = v
		} else {
			it.after = append(it.after, v)
		}
	}
}

// changes finds the keys whose contributions to view n changed: those whose digest did, those that the view sees for
// the first time, and those that were looked at in full, because a repair writes what the state says is there already.
func (t *Target) changes(n int, items []*item, states map[string]map[string]cellState) ([]change, error) {
	k := t.kept[n]
	if k.ledger {
		return ledgerChanges(k, items)
	}
	var changes []change
	at := map[string]int{} // by entity: where its change stands
	for _, it := range items {
		for i := range it.values {
			c := &it.values[i]
			if c.keeper != k || !it.applied[i] || c.key == nil {
				continue
			}
			old := it.before.find(k.id)
			rewrite := it.op.AsOf != 0 || it.op.Rewrite
			if old != nil && old.digest == c.digest && !rewrite {
				continue
			}
			held := old == nil && !k.fresh.Load() || old.contributes() || rewrite
			if !k.shared {
				rows, err := contribution(c.stored)
				if err != nil {
					return nil, err
				}
				changes = append(changes, change{key: c.key, rows: [][]row{rows}, held: held})
			} else if _, ok := at[it.entity]; !ok {
				at[it.entity] = len(changes)
				changes = append(changes, change{key: c.key, held: true})
			}
		}
	}
	if !k.shared {
		return changes, nil
	}
	for entity, i := range at {
		rows, err := t.gather(k, entity, items, states[entity])
		if err != nil {
			return nil, err
		}
		changes[i].rows = rows
	}
	return changes, nil
}

// gather collects what all cells of an entity contribute to a view, those of the batch included, in the order of its
// feeds.
func (t *Target) gather(k *keeper, entity string, items []*item, states map[string]cellState) ([][]row, error) {
	type part struct {
		feed int
		cell replicator.Cell
		kept []byte
	}
	var parts []part
	take := func(cell string, state cellState) error {
		v := state.find(k.id)
		if v == nil || len(v.kept) == 0 {
			return nil
		}
		c, err := parseCell(t.source, []byte(entity), []byte(cell))
		if err != nil {
			return err
		}
		parts = append(parts, part{feed: k.view.Feed(c), cell: c, kept: v.kept})
		return nil
	}
	here := map[string]bool{}
	first, _ := slices.BinarySearchFunc(items, entity, func(it *item, e string) int { return cmp.Compare(it.entity, e) })
	for _, it := range items[first:] {
		if it.entity != entity {
			break
		}
		here[it.cell] = true
		if err := take(it.cell, it.after); err != nil {
			return nil, err
		}
	}
	for cell, state := range states {
		if !here[cell] {
			if err := take(cell, state); err != nil {
				return nil, err
			}
		}
	}
	slices.SortFunc(parts, func(a, b part) int {
		return cmp.Or(cmp.Compare(a.feed, b.feed), cmp.Compare(a.cell.Table, b.cell.Table), cmp.Compare(a.cell.Column, b.cell.Column))
	})
	var rows [][]row
	for _, p := range parts {
		r, err := parseRows(p.kept)
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// contribution is the rows of a stored form; none if it is nil.
func contribution(stored []byte) ([]row, error) {
	if stored == nil {
		return nil, nil
	}
	return parseRows(stored)
}
