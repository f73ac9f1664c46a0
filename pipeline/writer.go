package pipeline

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"replicator"
)

// writer is what all lanes of a session do with their batches: it has no state but memory that is used again, and is
// used by each lane's goroutine.
type writer struct {
	*group
	reader  replicator.Reader
	target  replicator.Target
	budget  *budget
	letters *letters
	lanes   *lanes
	saver   *saver
	spare   chan *opBatch // empty ones, with room for one of each lane
}

// apply turns pending changes into ops, applies them and sees to their dead letters. All is durable when it returns
// nil.
//
// What bodies come to was not charged when they were read: compressed ones, and pickles that name one value many times,
// may be a thousand times their size. So a batch is cut where its contributions become too large.
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
	b.repair = w.progress.current().Repair
	if err := w.applyFound(ctx, b, batch, looks); err != nil {
		return err
	}
	for i := range batch {
		p := &batch[i]
		switch {
		case looks[p.cell] != nil:
			continue
		case p.found != nil && p.endsFound(): // done
			continue
		case p.put != nil:
			op := replicator.Op{Cell: p.cell, Version: p.put.Version, Order: p.put.Order, Rewrite: p.rewrite}
			w.evaluate(b, op, p.put)
		case p.goneAt != 0:
			op := replicator.Op{Cell: p.cell, Version: replicator.NoVersion, AsOf: p.goneAt, Rewrite: p.rewrite}
			w.evaluate(b, op, nil)
		default: // an archived version: nothing changes
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

// opBatch is what goes into one call of Target.Apply.
type opBatch struct {
	ops     []replicator.Op
	rows    []*replicator.Row // of each op; nil where the cell is gone
	changes []*pending        // that the ops are made of, with those that come to nothing
	size    int64             // of the ops' contributions, and of rows that looks read: not taken from the budget
	repair  bool              // whatever the sink holds is written anew

	perView [][]replicator.Cell // see lists
}

// reusedLists is how many lists of cells a batch has memory for: most pipelines have no more views, and those of
// hundreds must not keep a list for each.
const reusedLists = 4

// lists are empty lists of cells, one for each of the session's views.
func (b *opBatch) lists(views int) [][]replicator.Cell {
	if b.perView == nil {
		b.perView = make([][]replicator.Cell, views)
	}
	return b.perView
}

// empty makes room for the next ops. Nothing is held that was in it.
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

// evaluate adds an op with what its row contributes.
func (w *writer) evaluate(b *opBatch, op replicator.Op, row *replicator.Row) {
	// In a repair what the tail brings is written, too: the scan's row of the cell will be stale.
	op.Rewrite = op.Rewrite || b.repair
	op.Values = w.evaluator.Evaluate(op.Cell, row)
	for _, v := range op.Values {
		b.size += v.Size()
	}
	b.ops, b.rows = append(b.ops, op), append(b.rows, row)
}

// applyFound adds what looks found that somebody else made. A call of Apply has one op of a cell: where a put or
// another look of it comes after that, all of this is written first.
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
		if looks[p.cell] == nil && p.endsFound() {
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

// endsFound reports whether nothing is to be put after what another's look found.
func (p *pending) endsFound() bool { return p.put == nil && p.goneAt == 0 }

// applyLooks reads what remains of cells from the source, no more at a time than a batch has room for.
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

// share is what a lane's batch may come to beside what was taken from the budget: of all lanes, half as much again.
func (w *writer) share() int64 { return max(w.budget.total/int64(2*w.budget.lanes), 1) }

// writeFull writes a batch that has become too large to gather more of it.
func (w *writer) writeFull(ctx context.Context, b *opBatch) error {
	if b.size < w.share() {
		return nil
	}
	return w.write(ctx, b)
}

// write applies a batch, and empties it.
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
		p.put, p.found = nil, nil // the lane has the change until all that it took is applied
	}
	b.empty()
	w.budget.give(size)
	return nil
}

// looks returns the cells that must be read from the source: those of which a version was deleted that the sink may
// stand at.
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
		case replicator.AnyVersion: // whatever the sink holds
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

// count tells the observer what a batch did.
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

// visible tells the observer how long ago the changes of a view were committed: those of one transaction, which stand
// side by side, at once.
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
