package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

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
// A stop waits for the page at hand and no more, however small the rest may be: no position behind the reference is saved,
// so the next session finds all of it anew.
//
// Its lane's goroutine uses it.
type referring struct {
	*group
	reader replicator.Reader
	intake *intake
	lane   *lane
	stop   context.Context // see run

	// budget is that of references alone. They wait for looks, which take from the intake's budget: if references could
	// fill that, both would wait forever.
	budget *budget

	found atomic.Int64 // cells that were found of the batch at hand; 0: there is none
}

// run looks at what is referred to until ctx is done, or unread is closed and nothing is left. Once stop is done, what is
// left stays.
func (r *referring) run(ctx, stop context.Context, unread <-chan struct{}) error {
	r.stop = stop
	if err := r.lane.run(ctx, unread); !errors.Is(err, errStopped) {
		return err
	}
	return nil
}

// referringPage is how many cells are found at a time.
const referringPage = 1000

// add hands over a reference when the budget has room for it. It is a change of a cell that stands for it: its Column
// says which lookup, its Key which values.
func (r *referring) add(ctx context.Context, ref *replicator.Reference) error {
	cell := replicator.Cell{Table: ref.Table, Column: ref.Lookup, Key: ref.Values}
	size := r.budget.cost(keyOverhead + int64(len(cell.Key)))
	if err := r.budget.take(ctx, size); err != nil {
		return err
	}
	r.lane.add(reread(cell, ref.Order, ref.Time), size)
	return nil
}

// referencesAtOnce is how many references of one lookup are asked about at once.
const referencesAtOnce = 64

// apply has all cells looked at that some references are about. Most have few cells, so many are asked about at once;
// where that gives more than a page, each reference is gone through by itself.
func (r *referring) apply(ctx context.Context, batch []pending) error {
	defer r.found.Store(0)
	size := int64(0)
	var since time.Time
	lookups := map[replicator.Cell][]replicator.Reference{}
	for i := range batch {
		p := &batch[i]
		size, since = size+p.size, earlier(since, p.since)
		of := replicator.Cell{Table: p.cell.Table, Column: p.cell.Column}
		lookups[of] = append(lookups[of],
			replicator.Reference{Table: p.cell.Table, Lookup: p.cell.Column, Values: p.cell.Key})
	}
	for _, all := range lookups {
		for refs := range slices.Chunk(all, referencesAtOnce) {
			if err := r.lookAt(ctx, refs, since); err != nil {
				return err
			}
		}
	}
	r.budget.give(size)
	return nil
}

// lookAt has the cells looked at that references of one lookup are about.
func (r *referring) lookAt(ctx context.Context, refs []replicator.Reference, since time.Time) error {
	for after, more := "", true; more; more = after != "" {
		if r.stop.Err() != nil {
			return errStopped
		}
		cells, next, err := r.reader.Referring(ctx, refs, after, referringPage)
		if err != nil {
			return fmt.Errorf("table %s: finding the rows that are joined with some that changed: %w", refs[0].Table, err)
		}
		if next != "" && len(refs) > 1 { // each page would sort the cells of all
			for i := range refs {
				if err := r.lookAt(ctx, refs[i:i+1], since); err != nil {
					return err
				}
			}
			return nil
		}
		if err := r.look(ctx, cells, since); err != nil {
			return err
		}
		after = next
	}
	return nil
}

// look has cells looked at, and waits until that is applied.
func (r *referring) look(ctx context.Context, cells []replicator.Cell, since time.Time) error {
	if len(cells) == 0 {
		return nil
	}
	r.found.Add(int64(len(cells)))
	for _, c := range cells {
		if !r.views.joins(c) {
			continue
		}
		if err := r.intake.add(ctx, reread(c, 0, since)); err != nil {
			return err
		}
	}
	return appliedBy(r.intake.lanes.shares)(ctx)
}
