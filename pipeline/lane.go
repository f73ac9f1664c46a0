package pipeline

import (
	"context"
	"sync"
	"time"

	"replicator"
)

// A lane is a worker that applies the changes of its share of the keys. It merges the pending changes of a cell and has
// one batch in flight, so changes of a cell are applied in order. Only its goroutine uses the batch in flight; a mutex
// guards the pending changes.
type lane struct {
	budget *budget
	reach  *reach
	apply  func(ctx context.Context, batch []pending) error
	wake   chan struct{} // holds one token when there is something pending

	mu      sync.Mutex
	cells   cellIndex
	waiting batches
	flying  []pending // the batch in flight; nil: there is none
	added   uint64    // number of changes added since the lane was made
	counted uint64    // what `added` was when the lane last called countMerged
	merged  int       // how many of the changes added since then merged with a pending change
	waiters []waiter  // callers that wait until earlier changes are applied
}

// pending is what must still be applied to one cell: all of its waiting changes, merged.
type pending struct {
	cell  replicator.Cell
	put   *replicator.Row // the newest row, if any
	since time.Time       // the commit time of the oldest change; zero for rows of a scan
	size  int64           // the bytes that the cell's changes took from the budget

	after int64  // the last transaction end (log position) before the cell's changes: a restart reads on from there
	first uint64 // number of the cell's first change: the lane numbers its changes from 1

	// deleted is the highest version that a delete removed. If the sink holds no newer version, the cell is re-read.
	// AnyVersion: the cell is always re-read; NoVersion: nothing was deleted. deletedAt is the last delete's position.
	deleted   int64
	deletedAt int64

	// goneAt is the log position of the latest delete of the cell's only row, in a table with one row per cell; 0:
	// there is none.
	goneAt int64

	found *found // the newest re-read of the cell that a Changelog has recorded; nil: none

	rewrite bool

	hash uint64   // of the cell; chooses its list in the cellIndex
	next *pending // the next element of this list
}

// found is the result of a re-read that a Changelog has recorded: its publisher, another replicator, re-read the cell.
type found struct {
	row     *replicator.Row // nil: the cell had no row
	version int64
	asOf    int64
}

func (f *found) size() int64 {
	if f == nil || f.row == nil {
		return 0
	}
	return f.row.Size()
}

type waiter struct {
	added uint64
	done  chan struct{}
}

func newLane(b *budget, r *reach, apply func(context.Context, []pending) error) *lane {
	return &lane{budget: b, reach: r, apply: apply, wake: make(chan struct{}, 1), cells: newCellIndex()}
}

// add makes c pending. The caller took size from the budget for c; add gives back the bytes that are no longer needed.
func (l *lane) add(c *replicator.Change, size int64) {
	l.mu.Lock()
	l.added++
	p, hash := l.cells.find(&c.Cell)
	if p == nil {
		p = l.waiting.add(pending{
			cell: c.Cell, deleted: replicator.NoVersion, after: l.reach.committed.Load(), first: l.added,
		})
		l.cells.add(p, hash)
	} else {
		l.merged++
	}
	if !c.Time.IsZero() && (p.since.IsZero() || c.Time.Before(p.since)) {
		p.since = c.Time
	}
	p.size += size
	p.rewrite = p.rewrite || c.Rewrite
	spare := l.budget.cost(p.merge(c))
	p.size -= spare
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
	if spare > 0 {
		l.budget.give(spare)
	}
}

// merge combines a change with the cell's pending changes, by the rules of State.Next: the row with the higher version
// stays. It returns the size of the rows that it drops.
func (p *pending) merge(c *replicator.Change) (spare int64) {
	if c.AsOf != 0 {
		return p.mergeFound(&found{row: c.Row, version: c.Version, asOf: c.AsOf})
	}
	if c.Row != nil {
		return p.mergePut(c.Row)
	}
	if c.Last {
		p.goneAt = max(p.goneAt, c.Order)
		p.deleted = replicator.NoVersion
		if p.put != nil && p.put.Order <= p.goneAt {
			spare = p.put.Size()
			p.put = nil
		}
		return spare
	}
	if p.put != nil && p.put.Version > c.Version {
		return 0
	}
	p.deleted = max(p.deleted, c.Version)
	p.deletedAt = max(p.deletedAt, c.Order)
	return 0
}

// mergeFound adds f, a re-read from a Changelog, to the cell's pending changes. If a re-read is pending already, the
// later of the two stays. A pending put that is older than the re-read is dropped. A newer put is applied after it.
// Like merge, it returns the size of the rows that it drops.
func (p *pending) mergeFound(f *found) (spare int64) {
	if old := p.found; old != nil && (f.asOf < old.asOf || f.asOf == old.asOf && f.version < old.version) {
		return f.size()
	}
	spare = p.found.size()
	p.found = f
	if p.put != nil && p.found.overrules(p.put) {
		spare += p.put.Size()
		p.put = nil
	}
	return spare
}

// overrules reports whether a put has no effect once the re-read f is applied.
func (f *found) overrules(put *replicator.Row) bool {
	return put.Order <= f.asOf || put.Version < f.version
}

func (p *pending) mergePut(row *replicator.Row) (spare int64) {
	if p.found != nil && p.found.overrules(row) {
		return row.Size()
	}
	if row.Order <= p.goneAt {
		return row.Size()
	}
	if old := p.put; old != nil {
		if row.Version < old.Version || (row.Version == old.Version && row.Order < old.Order) {
			return row.Size()
		}
		spare = old.Size()
	}
	p.put = row
	if p.deleted != replicator.NoVersion && row.Version >= p.deleted && row.Order > p.deletedAt {
		p.deleted = replicator.NoVersion
	}
	return spare
}

// lookAt returns a change that re-reads a cell and writes the result, whatever the sink holds.
func lookAt(c replicator.Cell) *replicator.Change {
	look := reread(c, 0, time.Time{})
	look.Rewrite = true
	return look
}

// reread returns a change that makes the lane re-read a cell. order and at are the log position and the commit time of
// the change that caused it; zero: none.
func reread(c replicator.Cell, order int64, at time.Time) *replicator.Change {
	return &replicator.Change{
		Kind: replicator.Delete, Cell: c, Version: replicator.AnyVersion, Order: order, Time: at,
	}
}

func (l *lane) take() []pending {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.budget.countMerged(l.merged, int(l.added-l.counted))
	l.counted, l.merged = l.added, 0
	l.flying = l.waiting.take()
	for i := range l.flying {
		l.cells.remove(&l.flying[i])
	}
	return l.flying
}

func (l *lane) landed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting.reuse(l.flying)
	l.flying = nil
	oldest := l.oldest()
	kept := l.waiters[:0]
	for _, w := range l.waiters {
		if oldest == nil || w.added < oldest.first {
			close(w.done)
		} else {
			kept = append(kept, w)
		}
	}
	l.waiters = kept
}

// oldest is the oldest change that is not applied yet; nil if all changes are applied. The caller holds l.mu.
func (l *lane) oldest() *pending {
	if len(l.flying) > 0 {
		return &l.flying[0]
	}
	return l.waiting.first()
}

// low is the log position up to which the lane has applied all its changes. If nothing is pending, that is the position
// up to which the log was read (committed).
func (l *lane) low(committed int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.oldest(); p != nil {
		return p.after
	}
	return committed
}

// since is the commit time of the oldest change that is not applied yet; zero if all changes are applied. Rows of a
// scan don't count. A log's changes are roughly in the order of their times, so since returns the first time that it
// finds.
func (l *lane) since() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.flying {
		if at := l.flying[i].since; !at.IsZero() {
			return at
		}
	}
	for p := range l.waiting.all() {
		if !p.since.IsZero() {
			return p.since
		}
	}
	return time.Time{}
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// applied returns a channel that is closed once everything added so far has been applied. It returns nil if everything
// already has been.
func (l *lane) applied() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.oldest() == nil {
		return nil
	}
	w := waiter{added: l.added, done: make(chan struct{})}
	l.waiters = append(l.waiters, w)
	return w.done
}

// run applies batches until ctx is done (then it stops at once), or until drain is closed and no change is left.
func (l *lane) run(ctx context.Context, drain <-chan struct{}) error {
	for {
		select {
		case <-l.wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-drain:
			// The reader and the scan have stopped: nothing more will be added.
			if len(l.wake) == 0 {
				return nil
			}
			continue
		}
		for batch := l.take(); len(batch) > 0; batch = l.take() {
			if err := l.apply(ctx, batch); err != nil {
				return err
			}
			l.landed()
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
	}
}
