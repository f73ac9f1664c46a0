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

// referring re-reads the cells whose entries contain a changed joined row, page by page, because there may be a million
// of them. Until all are re-read, the saved log position stays before the change, so a restart finds them again. Only
// one goroutine, that of its lane, uses it.
type referring struct {
	*group
	reader replicator.Reader
	intake *intake
	lane   *lane
	stop   context.Context // once it is done, the remaining changes of joined rows are left to the next session

	// budget limits the pending changes of joined rows. They have a budget of their own, because the re-reads that they
	// cause take from the intake's budget. If the changes filled that budget, the re-reads would wait for room forever.
	budget *budget

	found atomic.Int64 // number of cells found for the present batch; 0 between two batches
}

// run processes changes of joined rows until ctx is done, or until `unread` is closed and no such change is left. Once
// stop is done, it leaves the remaining changes to the next session.
func (r *referring) run(ctx, stop context.Context, unread <-chan struct{}) error {
	r.stop = stop
	if err := r.lane.run(ctx, unread); !errors.Is(err, errStopped) {
		return err
	}
	return nil
}

// referringPage is how many cells one query finds.
const referringPage = 1000

// add waits until the budget has room for a changed joined row, and hands it to the lane. The lane gets it as a change
// of an artificial cell, whose Column is the Reference's Lookup and whose Key is its Values.
func (r *referring) add(ctx context.Context, ref *replicator.Reference) error {
	cell := replicator.Cell{Table: ref.Table, Column: ref.Lookup, Key: ref.Values}
	size := r.budget.cost(keyOverhead + int64(len(cell.Key)))
	if err := r.budget.take(ctx, size); err != nil {
		return err
	}
	r.lane.add(reread(cell, ref.Order, ref.Time), size)
	return nil
}

// referencesAtOnce is how many changed joined rows a single query asks about.
const referencesAtOnce = 64

// apply re-reads the cells that contain the changed joined rows of a batch. One query asks about many joined rows,
// because most are part of few cells.
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

// lookAt re-reads the cells that are joined with changed rows (refs). All refs must be of one join of one table.
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
