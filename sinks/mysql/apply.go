package mysql

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"replicator"
	"replicator/internal/pause"
	"replicator/sinks/judge"
)

// item is one op of a batch, converted, and what the transaction at hand decided about it. One that is repeated decides
// anew.
type item struct {
	place         int // in the batch
	op            *replicator.Op
	entity        string
	cell          string
	values        []converted
	before, after cellState
}

// converted is what an op contributes to one view, in the target's own types.
type converted struct {
	keeper *keeper
	key    []any
	rows   []row  // none: it contributes nothing, or nothing that can be held
	kept   string // their stored form, where the keeper will need it
	digest uint64
	err    error // the value can't be held

	old     *viewState // what is known of the cell in the view
	applies bool
}

// Apply implements replicator.Target.
func (t *Target) Apply(ctx context.Context, ops []replicator.Op) (replicator.Applied, error) {
	batch := judge.NewBatch(ops)
	items := make([]*item, 0, len(ops))
	for i := range ops {
		it := t.convert(i, &ops[i])
		fits := len(it.entity) <= maxEntity && len(it.cell) <= maxCell
		for n := range it.values {
			if !fits {
				it.values[n].err = fmt.Errorf("the cell's key is longer than the %d bytes that can be remembered", maxEntity)
			}
			batch.Reject(i, n, it.values[n].err)
		}
		if fits {
			items = append(items, it)
		}
	}
	// In the order of their keys: neighbours share pages, and batches that meet take their locks in one order.
	slices.SortFunc(items, func(a, b *item) int {
		return cmp.Or(cmp.Compare(a.entity, b.entity), cmp.Compare(a.cell, b.cell))
	})
	for some := range slices.Chunk(items, maxList) {
		if err := t.applyOrSplit(ctx, batch, some); err != nil {
			return replicator.Applied{}, t.explain(err)
		}
	}
	return batch.Applied(), nil
}

// convert makes an item of an op.
func (t *Target) convert(place int, op *replicator.Op) *item {
	it := &item{place: place, op: op, entity: entityID(t.source, op.Cell.Key), cell: cellID(op.Cell)}
	it.values = make([]converted, len(op.Values))
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
	for _, e := range v.Entries {
		r, err := c.keeper.kind.row(c.keeper, e, version)
		if err != nil {
			c.err = err
			return
		}
		if r != nil {
			c.rows = append(c.rows, r)
		}
	}
	if len(c.rows) == 0 {
		return
	}
	if len(c.rows) > 1 && c.keeper.single {
		c.err = fmt.Errorf("the table takes one row a key, and there are %d", len(c.rows))
		return
	}
	stored := appendRows(make([]byte, 0, 64), c.rows)
	if 2*len(stored) > packet {
		c.err = fmt.Errorf("%d bytes are too much for the server's max_allowed_packet, %d", len(stored), packet)
		return
	}
	c.digest = digest(c.keeper.salt, stored)
	if c.keeper.shared || c.keeper.ledger {
		c.kept = string(stored)
	}
}

// reject makes a value contribute nothing.
func (c *converted) reject(err error) { c.rows, c.kept, c.digest, c.err = nil, "", deadDigest, err }

// applyOrSplit applies items in one transaction; if the server refuses one because of a value, in smaller ones, until
// the value is found and rejected.
func (t *Target) applyOrSplit(ctx context.Context, batch *judge.Batch, items []*item) error {
	err := t.applyPatiently(ctx, batch, items)
	reason := dataReason(err)
	var at *viewError
	if reason == "" || !errors.As(err, &at) {
		return err
	}
	if t.grown() { // perhaps because of what somebody else wrote
		return t.applyOrSplit(ctx, batch, items)
	}
	if len(items) > 1 {
		half := len(items) / 2
		if err := t.applyOrSplit(ctx, batch, items[:half]); err != nil {
			return err
		}
		return t.applyOrSplit(ctx, batch, items[half:])
	}
	rejected := false
	for i := range items[0].values {
		c := &items[0].values[i]
		if (c.keeper.place == at.view || at.view == allViews) && len(c.rows) > 0 {
			c.reject(errors.New(reason))
			batch.Reject(items[0].place, i, c.err)
			rejected = true
		}
	}
	if !rejected {
		return t.cannotTakeBack(at, err) // not because of what this item brings
	}
	return t.applyOrSplit(ctx, batch, items)
}

// attempts is how often a transaction is tried that the server chose to give up for another one. Small tables are read
// from end to end even for a few keys, and then lanes that share no key meet; that passes as the tables grow.
const attempts = 10

func (t *Target) applyPatiently(ctx context.Context, batch *judge.Batch, items []*item) error {
	for i := 1; ; i++ {
		err := t.applyOnce(ctx, batch, items)
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
		said := classify(at.err, fmt.Sprintf("view %s, table %s", v.Name, settingsOf(v).Table))
		if ofTable(at.err) {
			return replicator.OfView(said, v.Name)
		}
		return said
	}
	return classify(err, "applying a batch")
}

// applyOnce applies items in one transaction.
func (t *Target) applyOnce(ctx context.Context, batch *judge.Batch, items []*item) error {
	tx, err := t.sink.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	w := &writer{ctx: ctx, tx: tx, server: t.server, epoch: t.epoch}
	if err := t.applyIn(w, batch, items); err != nil {
		return rollback(tx, err)
	}
	return tx.Commit()
}

func (t *Target) applyIn(w *writer, batch *judge.Batch, items []*item) error {
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
		it.decide(batch, states[it.entity][it.cell], t.retired)
		if !bytes.Equal(it.before.append(nil), it.after.append(nil)) {
			changed = append(changed, it)
		}
	}
	for _, k := range t.kept {
		changes, err := t.changes(k, items, states)
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
func (it *item) decide(batch *judge.Batch, before cellState, retired map[uint32]bool) {
	it.before = before
	it.after = slices.DeleteFunc(slices.Clone(before), func(v viewState) bool { return retired[v.view] })
	for i := range it.values {
		c := &it.values[i]
		c.old = before.find(c.keeper.id)
		var next replicator.State
		next, c.applies = batch.Judge(it.place, i, c.old.known())
		switch {
		case c.applies:
			v := viewState{view: c.keeper.id, state: next, digest: c.digest, kept: c.kept}
			if c.old != nil {
				*it.after.find(c.keeper.id) = v
			} else {
				it.after = append(it.after, v)
			}
		case c.old != nil:
			it.after.find(c.keeper.id).state = next
		}
	}
}

// changes finds the keys whose contributions to a view changed: those whose digest did, those that the view sees for
// the first time, and those that were looked at in full, because a repair writes what the state says is there already.
func (t *Target) changes(k *keeper, items []*item, states map[string]map[string]cellState) ([]change, error) {
	if k.ledger {
		return ledgerChanges(k, items)
	}
	var changes []change
	entity := "" // whose change was added last: the cells of an entity stand side by side
	for _, it := range items {
		for i := range it.values {
			c := &it.values[i]
			if c.keeper != k || !c.applies || c.key == nil {
				continue
			}
			rewrite := it.op.AsOf != 0 || it.op.Rewrite
			if c.old != nil && c.old.digest == c.digest && !rewrite {
				continue
			}
			switch {
			case !k.shared:
				held := c.old == nil && !k.fresh.Load() || c.old.known().Shown || rewrite
				changes = append(changes, change{key: c.key, rows: [][]row{c.rows}, held: held})
			case it.entity != entity:
				entity = it.entity
				rows, err := t.gather(k, entity, items, states[entity])
				if err != nil {
					return nil, err
				}
				changes = append(changes, change{key: c.key, rows: rows, held: true})
			}
		}
	}
	return changes, nil
}

// gather collects what all cells of an entity contribute to a view, those of the batch included, in their order there.
func (t *Target) gather(k *keeper, entity string, items []*item, states map[string]cellState) ([][]row, error) {
	current := maps.Clone(states)
	if current == nil {
		current = map[string]cellState{}
	}
	first, _ := slices.BinarySearchFunc(items, entity, func(it *item, e string) int { return cmp.Compare(it.entity, e) })
	for _, it := range items[first:] {
		if it.entity != entity {
			break
		}
		current[it.cell] = it.after
	}
	type contribution struct {
		cell replicator.Cell
		rows []row
	}
	var all []contribution
	for id, state := range current {
		v := state.find(k.id)
		if v == nil || v.kept == "" {
			continue
		}
		cell, err := parseCell(t.source, entity, id)
		if err != nil {
			return nil, err
		}
		rows, err := parseRows(v.kept)
		if err != nil {
			return nil, err
		}
		all = append(all, contribution{cell, rows})
	}
	slices.SortFunc(all, func(a, b contribution) int { return judge.Order(k.view, a.cell, b.cell) })
	rows := make([][]row, len(all))
	for i, c := range all {
		rows[i] = c.rows
	}
	return rows, nil
}
