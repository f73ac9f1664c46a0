package pipeline

import (
	"context"
	"errors"
	"slices"
	"time"

	"replicator"
)

// intake is where changes are taken in: of the tail, of a scan, and those that stand for a look. They take their size
// from the memory budget, which blocks who brings them while it is full, and go to the lane of their key. It has no
// state of its own, and may be used by several goroutines.
type intake struct {
	*group
	budget    *budget
	lanes     *lanes
	spellings *spellings
	over      context.Context // done once nothing that is handed to a lane is applied any more
}

// add hands a change to its lane when the budget has room for it, and has its key's spellings looked up.
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
	// One huge row is in memory at a time: while this one waits to be applied, the next one is not read.
	if err := in.budget.take(ctx, in.budget.total); err != nil {
		return err
	}
	in.budget.give(in.budget.total)
	return nil
}

// put takes in a scanned row.
func (in *intake) put(ctx context.Context, row *replicator.Row) error {
	if !in.views.feeds(row.Cell) {
		return nil
	}
	return in.add(ctx, &replicator.Change{
		Kind: replicator.Insert, Cell: row.Cell, Version: row.Version, Order: row.Order, Row: row,
	})
}

// look asks for a full look at cells: what the source holds of them now is put in place of whatever the sink holds. It
// returns when that, and all that was taken in before, is applied; it fails where the session ends first.
func (in *intake) look(ctx context.Context, cells []replicator.Cell) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(in.over, func() { cancel(replicator.ErrNotServing) })()
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

// tail takes in what the reader brings. It implements replicator.Handler, and the reader's goroutine alone uses it.
type tail struct {
	*group
	reader    replicator.Reader
	intake    *intake
	referring *referring
	reach     *reach
	window    *window
}

var _ replicator.Handler = (*tail)(nil)

// Change implements replicator.Handler.
func (t *tail) Change(ctx context.Context, c *replicator.Change) error {
	if !t.views.feeds(c.Cell) {
		return nil
	}
	t.blank = false
	t.window.touch(c)
	if !c.Last && t.views.joins(c.Cell) { // the log doesn't tell the joined rows
		c = reread(c.Cell, c.Order, c.Time)
	}
	return t.intake.add(ctx, c)
}

// Refer implements replicator.Handler.
func (t *tail) Refer(ctx context.Context, ref *replicator.Reference) error {
	return t.referring.add(ctx, ref)
}

// Commit implements replicator.Handler.
func (t *tail) Commit(order int64, at time.Time) {
	t.reach.commit(order, at)
	t.window.reached(order)
}

// unlogged is what the log does not tell (ErrUnlogged), with the place behind it.
type unlogged struct {
	error
	behind string // FILE:POS
}

func (u unlogged) Unwrap() error { return u.error }

// Unlogged implements replicator.Handler. It goes on, if it is configured so, and notes that the views which read the
// table have to be compared with the source: before anything behind that place can be applied and saved, so that no
// crash forgets it. A table that is emptied empties nothing of views that hold nothing: a log's first statement may be
// DROP TABLE IF EXISTS, as a dump's is.
func (t *tail) Unlogged(table string, order int64, err error) error {
	if t.blank && errors.Is(err, replicator.ErrEmptied) {
		return nil
	}
	if t.cfg.OnUnlogged != Repair {
		return unlogged{err, t.reader.Locate(order)}
	}
	of := t.views.reading(table)
	if groups, _ := replicator.Troubled(of, err); groups != nil { // of some of them alone
		of = slices.Concat(groups...)
	}
	if !t.notes.setSwapped(of, order) { // a server may log one statement after the other
		return nil
	}
	t.cfg.Log.Warn("rows changed and the binlog doesn't say which: going on, and comparing the views with the source",
		"sink", t.cfg.Name, "source", t.cfg.Source.Name(), "table", table, "position", t.reader.Locate(order),
		"views", of.names(), "reason", err)
	return nil
}
