package pipeline

import (
	"sync/atomic"
	"time"

	"replicator"
)

// reach is how far a session has read its source's log, and where that ends: what the low water and the lag are told
// by. Atomics: the reader's goroutine writes those of the first group, the saver's those of the second.
type reach struct {
	committed  atomic.Int64 // the last transaction end that the reader delivered
	lastCommit atomic.Int64 // when that was committed, in Unix nanoseconds
	heard      atomic.Bool  // the source answered to reading its log: until then nothing is known to be caught up

	latest   atomic.Int64 // where the source's log ended when that was asked last
	asked    atomic.Int64 // when that was, in Unix nanoseconds; 0: not yet
	caughtUp atomic.Int64 // when it was that committed was the end
}

// commit says that a transaction's end was read.
func (r *reach) commit(order int64, at time.Time) {
	r.heard.Store(true)
	r.committed.Store(order)
	if !at.IsZero() {
		r.lastCommit.Store(at.UnixNano())
	}
}

// end says where the source's log ended when it was asked.
func (r *reach) end(at replicator.Position, asked time.Time) {
	if r.latest.Store(at.Order); at.Order <= r.committed.Load() {
		r.caughtUp.Store(asked.UnixNano())
	}
	r.asked.Store(asked.UnixNano())
}

// shown is the time up to which the views show all that was committed, given when the oldest change was that they don't
// show yet. Where they have caught up it is when the source was last asked whether there is more.
func (r *reach) shown(oldest func() time.Time) (at time.Time, caughtUp, known bool) {
	if !r.heard.Load() {
		return at, false, false
	}
	if at = oldest(); !at.IsZero() {
		return at, false, true
	}
	asked, last := r.asked.Load(), max(r.caughtUp.Load(), r.lastCommit.Load())
	switch {
	case asked == 0:
		return at, false, false // it may begin far behind
	case r.committed.Load() >= r.latest.Load():
		return time.Unix(0, asked), true, true
	case last == 0:
		return at, false, false // the source is ahead, and nothing that says when has arrived yet
	}
	return time.Unix(0, last), false, true
}
