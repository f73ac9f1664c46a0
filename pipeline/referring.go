package pipeline

import (
	"context"
	"fmt"

	"replicator"
)

// referring finds the cells that are made with a joined row which changed, and has them looked at. The source is asked
// behind the lanes, which apply what they are given meanwhile; and like a lane's changes, the references that were not
// asked for yet hold back the position. Many changes of rows that are joined by one value come to one question.
//
// A change of one row may be one of a million entries. They are found a page at a time, and the next page is asked for
// when the looks at this one are applied: so other changes wait for a page at most, and memory holds no more. Whatever
// comes to refer to the row meanwhile brings a change of its own.
//
// It has no state of its own; its lane's goroutine uses it.
type referring struct {
	*group
	reader replicator.Reader
	intake *intake
	lane   *lane
}

// referringPage is how many cells are found at a time.
const referringPage = 1000

// add hands over a reference when the budget has room for it. It is a change of a cell that stands for it: its Column
// says which lookup, its Key which values.
func (r *referring) add(ctx context.Context, ref *replicator.Reference) error {
	cell := replicator.Cell{Table: ref.Table, Column: ref.Lookup, Key: ref.Values}
	size := r.intake.budget.cost(keyOverhead + int64(len(cell.Key)))
	if err := r.intake.budget.take(ctx, size); err != nil {
		return err
	}
	r.lane.add(&replicator.Change{
		Kind: replicator.Delete, Cell: cell, Version: replicator.AnyVersion, Order: ref.Order, Time: ref.Time,
	}, size)
	return nil
}

// apply has all cells looked at that some references are about.
func (r *referring) apply(ctx context.Context, batch []pending) error {
	size := int64(0)
	for i := range batch {
		p := &batch[i]
		size += p.size
		ref := &replicator.Reference{Table: p.cell.Table, Lookup: p.cell.Column, Values: p.cell.Key}
		for after, more := "", true; more; more = after != "" {
			cells, next, err := r.reader.Referring(ctx, ref, after, referringPage)
			if err != nil {
				return fmt.Errorf("table %s: finding the rows that are joined with one that changed: %w", ref.Table, err)
			}
			if err := r.look(ctx, p, cells); err != nil {
				return err
			}
			after = next
		}
	}
	r.intake.budget.give(size)
	return nil
}

// look has cells looked at, and waits until that is applied.
func (r *referring) look(ctx context.Context, p *pending, cells []replicator.Cell) error {
	if len(cells) == 0 {
		return nil
	}
	for _, c := range cells {
		if !r.views.joins(c) {
			continue
		}
		change := &replicator.Change{Kind: replicator.Delete, Cell: c, Version: replicator.AnyVersion, Time: p.since}
		if err := r.intake.add(ctx, change); err != nil {
			return err
		}
	}
	return appliedBy(r.intake.lanes.shares)(ctx)
}
