package pipeline

import (
	"context"
	"errors"
	"slices"
	"time"

	"replicator"
)

// intake hands changes from the log and from scans, and requests to re-read cells, to the workers (lanes) of their
// keys. It blocks while the memory budget is full. It has no state of its own, and several goroutines may use it.
type intake struct {
	*group
	budget    *budget
	lanes     *lanes
	spellings *spellings
	lanesDone context.Context // done once the session's lanes have stopped
}

// add waits until the memory budget has room, and hands a change to the worker (lane) of its key. If needed, it also
// queues a query of the source for other collation variants of the key ('abc', 'ABC').
func (in *intake) add(ctx context.Context, c *replicator.Change) error {
	size := int64(replicator.RowOverhead)
	if c.Row != nil {
		size = c.Row.Size()
	}
	size = in.budget.cost(size)
	if err := in.budget.take(ctx, size); err != nil {
		return err
	}
	in.lanes.add(c, size)
	if err := in.spellings.ask(ctx, c); err != nil || 2*size <= in.budget.total {
		return err
	}
	// While a huge row waits to be applied, the next row is not read, so that memory holds only one huge row.
	if err := in.budget.take(ctx, in.budget.total); err != nil {
		return err
	}
	in.budget.give(in.budget.total)
	return nil
}

func (in *intake) put(ctx context.Context, row *replicator.Row) error {
	if !in.views.feeds(row.Cell) {
		return nil
	}
	return in.add(ctx, &replicator.Change{
		Kind: replicator.Insert, Cell: row.Cell, Version: row.Version, Order: row.Order, Row: row,
	})
}

// look re-reads cells: the source's present rows replace the sink's contributions. It returns when the re-reads and all
// earlier changes are applied. It fails if the session ends first.
func (in *intake) look(ctx context.Context, cells []replicator.Cell) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(in.lanesDone, func() { cancel(replicator.ErrNotServing) })()
	for _, c := range cells {
		if !in.views.feeds(c) {
			continue
		}
		size := in.budget.cost(replicator.RowOverhead)
		if err := in.budget.take(ctx, size); err != nil {
			return err
		}
		in.lanes.add(lookAt(c), size)
	}
	return in.lanes.applied()(ctx)
}

// tail is the replicator.Handler that accepts what the log reader delivers. Only the reader's goroutine uses it.
type tail struct {
	*group
	reader    replicator.Reader
	intake    *intake
	referring *referring
	reach     *reach
	window    *window
}

var _ replicator.Handler = (*tail)(nil)

// Change takes a change from the log reader and adds it to its key's lane. It waits while the memory budget is full.
func (t *tail) Change(ctx context.Context, c *replicator.Change) error {
	if !t.views.feeds(c.Cell) {
		return nil
	}
	t.blank = false
	t.window.touch(c)
	if !c.Last && t.views.joins(c.Cell) { // the log's row lacks the joined rows, so re-read the cell
		c = reread(c.Cell, c.Order, c.Time)
	}
	return t.intake.add(ctx, c)
}

// Refer takes a changed joined row from the log reader, and queues it: `referring` then re-reads the cells whose
// entries contain that row.
func (t *tail) Refer(ctx context.Context, ref *replicator.Reference) error {
	return t.referring.add(ctx, ref)
}

// Commit records that the log reader has delivered a whole transaction, which ends at the log position `order`.
func (t *tail) Commit(order int64, at time.Time) {
	t.reach.commit(order, at)
	t.window.reached(order)
}

// unlogged is an ErrUnlogged (the log does not list some changes) with the log position after these changes.
type unlogged struct {
	error
	behind string // the log position after the changes, as FILE:POS
}

func (u unlogged) Unwrap() error { return u.error }

// Unlogged is called when rows of a table changed and the log does not say which. If on_unlogged is repair, it records,
// before any later change is saved, that the views that read the table must be compared with the source. It ignores a
// table that is emptied while all views are empty, because a dump begins with DROP TABLE IF EXISTS.
func (t *tail) Unlogged(table string, order int64, err error) error {
	if t.blank && errors.Is(err, replicator.ErrEmptied) {
		return nil
	}
	if t.cfg.OnUnlogged != Repair {
		return unlogged{err, t.reader.Locate(order)}
	}
	of := t.views.reading(table)
	if groups, _ := replicator.Troubled(of, err); groups != nil { // compare only the views that the error names
		of = slices.Concat(groups...)
	}
	if !t.notes.setDoubted(of, order) { // these views wait for a comparison already: warn only once
		return nil
	}
	t.cfg.Log.Warn("rows changed, and the binlog doesn't say which. The views continue, and are compared with the "+
		"source",
		"sink", t.cfg.Name, "source", t.cfg.Source.Name(), "table", table, "position", t.reader.Locate(order),
		"views", of.names(), "reason", err)
	return nil
}
