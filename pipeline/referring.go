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

// referring finds the cells whose entries contain a changed joined row, and re-reads them. It queries the source while
// the lanes continue. A reference stands for the change of a joined row. Until it is processed, it holds back the saved
// position, as a pending change in a lane does. Changes of many rows that are joined by the same value lead to one
// query.
//
// A joined row may be part of a million entries. Their cells are found a page at a time, and the next page is read when
// the re-reads of this page are applied. So memory holds one page, and other changes wait for one page at most. A row
// that begins to refer to the joined row meanwhile is not missed, because the log has a change of that row.
//
// A stop waits only for the current page. No position after the reference is saved, so the next session finds all cells
// again.
//
// Only its lane's goroutine uses it.
type referring struct {
	*group
	reader replicator.Reader
	intake *intake
	lane   *lane
	stop   context.Context // once it is done, the remaining references are left to the next session

	// budget is for references only. References wait for re-reads, which take from the intake's budget. If both shared
	// one budget, references could fill it, and both would wait forever.
	budget *budget

	found atomic.Int64 // cells found for the current batch; 0: there is no batch
}

// run processes references until ctx is done, or until unread is closed and no reference is left. Once stop is
// done, it leaves the remaining references to the next session.
func (r *referring) run(ctx, stop context.Context, unread <-chan struct{}) error {
	r.stop = stop
	if err := r.lane.run(ctx, unread); !errors.Is(err, errStopped) {
		return err
	}
	return nil
}

// referringPage is how many cells one query finds.
const referringPage = 1000

// add accepts a reference when the budget has room for it. The lane gets the reference as a change of an artificial
// cell, whose Column is the Reference's Lookup and whose Key is its Values.
func (r *referring) add(ctx context.Context, ref *replicator.Reference) error {
	cell := replicator.Cell{Table: ref.Table, Column: ref.Lookup, Key: ref.Values}
	size := r.budget.cost(keyOverhead + int64(len(cell.Key)))
	if err := r.budget.take(ctx, size); err != nil {
		return err
	}
	r.lane.add(reread(cell, ref.Order, ref.Time), size)
	return nil
}

// referencesAtOnce is how many references a single query asks about. All of them have the same Lookup.
const referencesAtOnce = 64

// apply re-reads all cells that the references of a batch concern. Most references concern few cells, so one query asks
// about many references. If these concern more than a page of cells, each reference is processed separately.
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

// lookAt re-reads the cells that the references concern. All references must have the same Lookup.
func (r *referring) lookAt(ctx context.Context, refs []replicator.Reference, since time.Time) error {
	for after, more := "", true; more; more = after != "" {
		if r.stop.Err() != nil {
			return errStopped
		}
		cells, next, err := r.reader.Referring(ctx, refs, after, referringPage)
		if err != nil {
			return fmt.Errorf("table %s: finding the rows that are joined with changed rows: %w", refs[0].Table, err)
		}
		// If there is a second page, process each reference separately. Otherwise, the source would sort the cells of
		// all references again for each page.
		if next != "" && len(refs) > 1 {
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

// look re-reads cells, and waits until the results are applied.
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
