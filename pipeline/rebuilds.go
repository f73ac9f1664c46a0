package pipeline

import (
	"slices"
	"sync"
	"time"

	"replicator"
)

// rebuild is one that is under way. But for settleAt, which is the supervisor's goroutine's, it is not changed once it
// is listed: another takes its place.
type rebuild struct {
	views   viewSet
	shadows viewSet // none: in place
	run     *run
	err     error     // why the swap failed, until it is made; nil: it did not
	retryAt time.Time // after a swap that failed

	// unsettled are the shadows' checkpoints after a swap that failed, until it is known what became of it; no shadow
	// runs then.
	unsettled []replicator.Checkpoint
	settleAt  time.Time // when that is asked for again
}

// of is the part of a rebuild that is of some of its views, or of their shadows.
func (b *rebuild) of(some []*replicator.View) *rebuild {
	part := &rebuild{}
	for i, v := range b.views {
		switch {
		case len(b.shadows) == 0 && slices.Contains(some, v):
			part.views = append(part.views, v)
		case len(b.shadows) > 0 && (slices.Contains(some, v) || slices.Contains(some, b.shadows[i])):
			part.views, part.shadows = append(part.views, v), append(part.shadows, b.shadows[i])
		}
	}
	return part
}

// failed says why a rebuild's swap failed, and lets it wait before the next one.
func (b *rebuild) failed(reason error) {
	b.err = reason
	switch {
	case replicator.IsFatal(reason):
		b.retryAt = time.Now().Add(fatalPause)
	case reason != nil:
		b.retryAt = time.Now().Add(retryPause)
	}
}

// stuck reports whether a rebuild can't go on until somebody acts, so that another one may take its place.
func (b *rebuild) stuck() bool {
	state, _ := b.run.trouble()
	return b.unsettled == nil && (state == replicator.StateFailed || replicator.IsFatal(b.err))
}

// rebuilds are those that are under way. Guarded by its mutex: the supervisor's goroutine changes it, anybody may read
// it.
type rebuilds struct {
	mu   sync.Mutex
	list []*rebuild
}

func (rs *rebuilds) all() []*rebuild {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return slices.Clone(rs.list)
}

func (rs *rebuilds) add(b *rebuild) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.list = append(rs.list, b)
}

// remove ends a rebuild, done or not.
func (rs *rebuilds) remove(b *rebuild) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.list = slices.DeleteFunc(rs.list, func(other *rebuild) bool { return other == b })
}

// of is the rebuild of a view; nil if there is none.
func (rs *rebuilds) of(view string) *rebuild {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, b := range rs.list {
		if slices.Contains(b.views.names(), view) {
			return b
		}
	}
	return nil
}

// replace puts others in the place of a rebuild.
func (rs *rebuilds) replace(b *rebuild, by ...*rebuild) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if i := slices.Index(rs.list, b); i >= 0 {
		rs.list = append(slices.Delete(rs.list, i, i+1), by...)
	}
}

// follow makes of the rebuild that had a run one for each of the runs that take its place. Views that are in none of
// them are rebuilt no more: what of their fill is to be done yet is in their checkpoints.
func (rs *rebuilds) follow(old *run, by ...*run) {
	for _, whole := range rs.all() {
		if whole.run != old {
			continue
		}
		var parts []*rebuild
		for _, r := range by {
			if b := whole.of(r.views); len(b.views) > 0 {
				b.run = r
				parts = append(parts, b)
			}
		}
		rs.replace(whole, parts...)
	}
}
