package pipeline

import (
	"context"
	"slices"
	"time"

	"replicator"
)

// lanes holds a session's lanes. The lanes in shares split the keys among them. Two more lanes query the source: one
// for other variants of keys, the other for cells whose entries contain changed joined rows. The set is complete before
// any lane runs, and never changes. Each lane has its own mutex.
type lanes struct {
	reach     *reach
	shares    []*lane
	spellings *lane
	referring *lane
}

// add makes a change pending in the lane of the change's key. The caller took size from the budget.
func (ls *lanes) add(c *replicator.Change, size int64) {
	ls.shares[c.Cell.Key.Partition()%len(ls.shares)].add(c, size)
}

// all returns the lanes in shares and the two that query the source.
func (ls *lanes) all() []*lane { return append(slices.Clip(ls.shares), ls.spellings, ls.referring) }

// low is the low water: the log position up to which everything has been applied.
func (ls *lanes) low() int64 {
	committed := ls.reach.committed.Load()
	low := committed
	for _, l := range ls.all() {
		low = min(low, l.low(committed))
	}
	return low
}

// since is the commit time of the oldest change that is not applied yet; zero if all changes are applied.
func (ls *lanes) since() (at time.Time) {
	for _, l := range ls.all() {
		at = earlier(at, l.since())
	}
	return at
}

// applied returns a function that waits until everything that was added so far has been applied.
func (ls *lanes) applied() func(ctx context.Context) error { return appliedBy(ls.all()) }

// appliedBy returns a function that waits until the given lanes have applied everything that was added to them so far.
func appliedBy(some []*lane) func(ctx context.Context) error {
	var all []<-chan struct{}
	for _, l := range some {
		if applied := l.applied(); applied != nil {
			all = append(all, applied)
		}
	}
	return func(ctx context.Context) error {
		for _, applied := range all {
			select {
			case <-applied:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	}
}
