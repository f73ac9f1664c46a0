package pipeline

import (
	"context"
	"slices"
	"time"

	"replicator"
)

// lanes holds a session's workers. Those in shares split the keys among them and apply changes. The other two query the
// source, for collation variants of keys ('abc', 'ABC') and for cells that contain changed joined rows.
type lanes struct {
	reach     *reach
	shares    []*lane
	spellings *lane
	referring *lane
}

// add hands a change to the worker (lane) of the change's key. The caller took size from the budget.
func (ls *lanes) add(c *replicator.Change, size int64) {
	ls.shares[c.Cell.Key.Partition()%len(ls.shares)].add(c, size)
}

func (ls *lanes) all() []*lane { return append(slices.Clip(ls.shares), ls.spellings, ls.referring) }

// low is the log position up to which all lanes have applied everything.
func (ls *lanes) low() int64 {
	committed := ls.reach.committed.Load()
	low := committed
	for _, l := range ls.all() {
		low = min(low, l.low(committed))
	}
	return low
}

func (ls *lanes) since() (at time.Time) {
	for _, l := range ls.all() {
		at = earlier(at, l.since())
	}
	return at
}

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
