package pipeline

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"replicator"
)

// writer applies the batches of a session's workers (lanes), which call it in their own goroutines. Its only state is
// memory kept for reuse.
type writer struct {
	*group
	reader  replicator.Reader
	target  replicator.Target
	budget  *budget
	letters *letters
	lanes   *lanes
	saver   *saver
	spare   chan *opBatch // empty batches, at most one for each lane
}

// apply turns pending changes into ops, applies them, and records their dead letters. If it returns nil, all of that is
// durable. It splits a batch whose contributions become too large, because a compressed body may decode to a thousand
// times its size.
func (w *writer) apply(ctx context.Context, batch []pending) error {
	looks, err := w.looks(ctx, batch)
	if err != nil {
		return err
	}
	var b *opBatch
	select {
	case b = <-w.spare:
	default:
		b = &opBatch{}
	}
	b.rewrite = w.progress.current().Repair
	if err := w.applyFound(ctx, b, batch, looks); err != nil {
		return err
	}
	for i := range batch {
		p := &batch[i]
		switch {
		case looks[p.cell] != nil:
			continue
		case p.found != nil && p.onlyFound(): // applyFound has added the op of this change
			continue
		case p.put != nil:
			op := replicator.Op{Cell: p.cell, Version: p.put.Version, Order: p.put.Order, Rewrite: p.rewrite}
			w.evaluate(b, op, p.put)
		case p.goneAt != 0:
			op := replicator.Op{Cell: p.cell, Version: replicator.NoVersion, AsOf: p.goneAt, Rewrite: p.rewrite}
			w.evaluate(b, op, nil)
		default: // an older version was deleted: nothing changes
		}
		b.changes = append(b.changes, p)
		if err := w.writeFull(ctx, b); err != nil {
			return err
		}
	}
	if len(looks) > 0 {
		if err := w.applyLooks(ctx, b, looks); err != nil {
			return err
		}
	}
	if err := w.write(ctx, b); err != nil {
		return err
	}
	select {
	case w.spare <- b:
	default:
	}
	return nil
}

// opBatch is the content of one call of Target.Apply.
type opBatch struct {
	ops     []replicator.Op
	rows    []*replicator.Row // the row of each op; nil if the cell is gone
	changes []*pending        // the pending changes that this batch completes, also those that need no op
	size    int64             // memory that the budget doesn't count: the ops' contributions and re-read rows
	rewrite bool              // every op has Op.Rewrite

	perView [][]replicator.Cell // by view: an empty list of cells, kept for the next batch
}

// reusedLists is how many lists of cells a batch keeps for reuse. Most pipelines have at most that many views. A
// pipeline with hundreds of views must not keep a list for each view.
const reusedLists = 4

func (b *opBatch) lists(views int) [][]replicator.Cell {
	if b.perView == nil {
		b.perView = make([][]replicator.Cell, views)
	}
	return b.perView
}

// empty prepares the batch for the next ops. It keeps no reference to the old ops.
func (b *opBatch) empty() {
	clear(b.ops)
	clear(b.rows)
	clear(b.changes)
	for i, list := range b.perView {
		clear(list)
		b.perView[i] = list[:0]
	}
	clear(b.perView[min(len(b.perView), reusedLists):])
	b.ops, b.rows, b.changes, b.size = b.ops[:0], b.rows[:0], b.changes[:0], 0
}

// evaluate adds an op to the batch, with what the op's row contributes to each view.
func (w *writer) evaluate(b *opBatch, op replicator.Op, row *replicator.Row) {
	// In a fill that rewrites everything, rows from the log must rewrite, too: the scan's row of the same cell is then
	// stale, and rewrites nothing.
	op.Rewrite = op.Rewrite || b.rewrite
	op.Values = w.evaluator.Evaluate(op.Cell, row)
	for _, v := range op.Values {
		b.size += v.Size()
	}
	b.ops, b.rows = append(b.ops, op), append(b.rows, row)
}

// applyFound adds ops for rows that another replicator re-read and recorded in a Changelog. If one of these cells has
// another pending change, it writes the batch at once, because one call of Apply takes only one op for a cell.
func (w *writer) applyFound(
	ctx context.Context, b *opBatch, batch []pending, looks map[replicator.Cell]*pending,
) error {
	more := false
	for i := range batch {
		p := &batch[i]
		if p.found == nil {
			continue
		}
		op := replicator.Op{Cell: p.cell, Version: p.found.version, AsOf: p.found.asOf, Rewrite: p.rewrite}
		w.evaluate(b, op, p.found.row)
		if looks[p.cell] == nil && p.onlyFound() {
			b.changes = append(b.changes, p)
		} else {
			more = true
		}
		if err := w.writeFull(ctx, b); err != nil {
			return err
		}
	}
	if !more {
		return nil
	}
	return w.write(ctx, b)
}

// onlyFound reports whether p.found is all that must be applied: neither a put nor a delete of the cell's only row is
// pending.
func (p *pending) onlyFound() bool { return p.put == nil && p.goneAt == 0 }

// applyLooks reads the newest rows of cells from the source and applies them, as many at a time as fit into a batch.
func (w *writer) applyLooks(ctx context.Context, b *opBatch, looks map[replicator.Cell]*pending) error {
	cells := slices.Collect(maps.Keys(looks))
	for len(cells) > 0 {
		newest, asOf, err := w.reader.Newest(ctx, cells, w.share()-b.size)
		if err != nil {
			return fmt.Errorf("reading the newest rows of %d cells: %w", len(cells), err)
		}
		for i, row := range newest {
			p := looks[cells[i]]
			op := replicator.Op{Cell: cells[i], Version: replicator.NoVersion, AsOf: asOf, Rewrite: p.rewrite}
			if row != nil {
				op.Version = row.Version
				b.size += row.Size()
			}
			w.evaluate(b, op, row)
			b.changes = append(b.changes, p)
			if err := w.writeFull(ctx, b); err != nil {
				return err
			}
		}
		cells = cells[len(newest):]
	}
	return nil
}

// share returns how many bytes of contributions a batch may hold, besides the bytes that the budget counts. All lanes
// together may hold half the budget.
func (w *writer) share() int64 { return max(w.budget.total/int64(2*w.budget.lanes), 1) }

func (w *writer) writeFull(ctx context.Context, b *opBatch) error {
	if b.size < w.share() {
		return nil
	}
	return w.write(ctx, b)
}

func (w *writer) write(ctx context.Context, b *opBatch) error {
	if len(b.ops) > 0 {
		if err := w.saver.nameFile(ctx); err != nil {
			return err
		}
		began := time.Now()
		applied, err := w.applyOps(ctx, b)
		if err != nil {
			return fmt.Errorf("sink %s: %w", w.cfg.Name, err)
		}
		w.cfg.Observer.Batch(w.cfg.Name, len(b.ops), time.Since(began))
		if err := w.letters.update(ctx, b, applied); err != nil {
			return err
		}
		w.count(b.changes, b.ops, applied)
	}
	var size int64
	for _, p := range b.changes {
		size += p.size
		p.put, p.found = nil, nil // frees memory, because the lane keeps p until its whole batch is applied
	}
	b.empty()
	w.budget.give(size)
	return nil
}

// looks returns the cells of a batch that must be re-read from the source, because a delete may have removed the
// version that the sink holds.
func (w *writer) looks(ctx context.Context, batch []pending) (map[replicator.Cell]*pending, error) {
	var cells []replicator.Cell
	var asked []*pending
	var looks map[replicator.Cell]*pending
	add := func(p *pending) {
		if looks == nil {
			looks = map[replicator.Cell]*pending{}
		}
		looks[p.cell] = p
	}
	for i := range batch {
		switch p := &batch[i]; p.deleted {
		case replicator.NoVersion:
		case replicator.AnyVersion: // re-read, whatever the sink holds
			add(p)
		default:
			cells, asked = append(cells, p.cell), append(asked, p)
		}
	}
	if len(cells) == 0 {
		return looks, nil
	}
	versions, err := w.target.Versions(ctx, cells)
	if err != nil {
		return nil, fmt.Errorf("sink %s: %w", w.cfg.Name, err)
	}
	for i, p := range asked {
		if p.deleted >= versions[i].Lowest {
			add(p)
		}
	}
	return looks, nil
}

func (w *writer) count(batch []*pending, ops []replicator.Op, applied replicator.Applied) {
	stale := map[int]bool{}
	for _, i := range applied.Stale {
		stale[i] = true
	}
	views := len(w.views)
	puts, resets, old := make([]int, views), make([]int, views), make([]int, views)
	for i, op := range ops {
		for _, v := range op.Values {
			switch {
			case stale[i]:
				old[v.View]++
			case op.AsOf != 0:
				resets[v.View]++
			default:
				puts[v.View]++
			}
		}
	}
	now := time.Now()
	for i, v := range w.views {
		w.meter.add(i, puts[i]+resets[i])
		for _, c := range []struct {
			n  int
			do func(int)
		}{
			{puts[i], func(n int) { w.cfg.Observer.Applied(v.ShownAs(), "put", n) }},
			{resets[i], func(n int) { w.cfg.Observer.Applied(v.ShownAs(), "reset", n) }},
			{old[i], func(n int) { w.cfg.Observer.Stale(v.ShownAs(), n) }},
		} {
			if c.n > 0 {
				c.do(c.n)
			}
		}
	}
	for _, v := range w.views {
		w.visible(v, batch, now)
	}
}

// visible reports to the observer how long ago a view's changes were committed. Changes of one transaction are
// adjacent, and are reported together.
func (w *writer) visible(v *replicator.View, batch []*pending, now time.Time) {
	n, since := 0, time.Time{}
	tell := func() {
		if n > 0 && !since.IsZero() {
			w.cfg.Observer.Visible(v.ShownAs(), now.Sub(since), n)
		}
	}
	for _, p := range batch {
		if !v.Feeds(p.cell) {
			continue
		}
		if p.since != since {
			tell()
			n, since = 0, p.since
		}
		n++
	}
	tell()
}
