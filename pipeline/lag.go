package pipeline

import (
	"context"
	"fmt"
	"maps"
	"sync"
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

	first    atomic.Int64 // where the source's log ended when that was asked first
	latest   atomic.Int64 // where it ended when that was asked last
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
	if r.asked.Load() == 0 {
		r.first.Store(at.Order)
	}
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

// passed reports whether all that was committed before the session began is applied. Views that stood apart before it
// agree then.
func (s *session) passed() bool {
	return s.reach.asked.Load() != 0 && s.lanes.low() >= s.reach.first.Load()
}

// lag is how long ago the oldest change was committed that the views do not show yet; false if that is not known.
func (s *session) lag() (time.Duration, bool) {
	at, caughtUp, known := s.shown()
	if !known || caughtUp && time.Since(at) < s.answers() {
		return 0, known
	}
	return max(0, time.Since(at)), true
}

// answers is how long the source may take to say where it stands before that counts as not known.
func (s *session) answers() time.Duration { return max(10*time.Second, 3*s.cfg.Interval) }

// shown is the time up to which the views show all that was committed.
func (s *session) shown() (at time.Time, caughtUp, known bool) { return s.reach.shown(s.lanes.since) }

// shown is up to when views showed everything as their last session ended: while there is no other one, or it has heard
// nothing yet, their lag is counted from there. The store keeps it for the next process. It also knows when all of their
// progress was saved, which outlives their runs. Guarded by its mutex.
type shown struct {
	mu      sync.Mutex
	began   time.Time            // when the pipeline started
	at      map[string]time.Time // by view
	savedAt map[string]time.Time // by view; what was saved before the start is not dated in the store
	evicted map[string]int64     // by view: keys that its server evicted since the start
	gone    map[string]int64     // by view: cells that are gone and still known in its sink, when that was last counted
}

func newShown(before map[string]time.Time) *shown {
	n := &shown{at: map[string]time.Time{}, savedAt: map[string]time.Time{}, evicted: map[string]int64{},
		gone: map[string]int64{}}
	maps.Copy(n.at, before)
	return n
}

// of returns by view up to when it showed everything, or since when that is not known.
func (n *shown) of(views []*replicator.View) map[string]time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	at := map[string]time.Time{}
	for _, v := range views {
		if at[v.Name] = n.began; !n.at[v.Name].IsZero() {
			at[v.Name] = n.at[v.Name]
		}
	}
	return at
}

// remember notes up to when the views of a session show everything, as it ends.
func (n *shown) remember(s *session) {
	at, _, known := s.shown()
	if !known {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, v := range s.views {
		n.at[v.Name] = at
	}
}

// recall takes from the store up to when views showed everything in an earlier process. Of a partition of a topic that
// says nothing: another member of the group may have gone on with it since.
func (n *shown) recall(ctx context.Context, cfg *Config) error {
	if cfg.changelog() != nil {
		return nil
	}
	saved, err := cfg.Store.Checkpoints(ctx)
	if err != nil {
		return fmt.Errorf("reading the checkpoints: %w", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range saved {
		at := c.Shown
		if c.Filling() && c.Epoch != 0 { // it lacks what was committed before the fill began, too
			at = time.UnixMicro(c.Epoch)
		}
		if _, known := n.at[c.View]; !known && c.Source == cfg.Source.Name() && !at.IsZero() {
			n.at[c.View] = at
		}
	}
	return nil
}

// stamp dates checkpoints that are to be saved, given up to when their session shows everything, if it knows.
func (n *shown) stamp(checkpoints []replicator.Checkpoint, at time.Time, known bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range checkpoints {
		c := &checkpoints[i]
		if c.Shown = n.at[c.View].UTC(); known {
			c.Shown = at.UTC()
		}
	}
}

// start says that the pipeline starts.
func (n *shown) start() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.began = time.Now()
}

// lag is that of a view that no session tells of: how long ago it was known to show everything. Of one that never was
// since the start, and has no session, it is at least what has passed since then; nil if it may show all.
func (n *shown) lag(st *replicator.ViewStatus) *float64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	at, known := n.at[st.View]
	switch {
	case known:
		return secondsSince(at)
	case st.KeptUp(), n.began.IsZero():
		return nil
	}
	return secondsSince(n.began)
}

// allSaved notes that the checkpoints of views are saved, and that there is no more of their progress to save now.
func (n *shown) allSaved(views viewSet) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, v := range views {
		n.savedAt[v.Name] = time.Now()
	}
}

// evict notes that the server of views evicted keys.
func (n *shown) evict(views viewSet, keys int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, v := range views {
		n.evicted[v.Name] += keys
	}
}

// evictedKeys is how many keys a view's server evicted since the start.
func (n *shown) evictedKeys(v *replicator.View) int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.evicted[v.Name]
}

// countGone notes how many cells that are gone the sink of views still knows.
func (n *shown) countGone(views viewSet, cells int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, v := range views {
		n.gone[v.Name] = cells
	}
}

// goneCells is how many cells that are gone a view's sink still knew, when they were last counted; nil: not yet.
func (n *shown) goneCells(v *replicator.View) *int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if cells, counted := n.gone[v.Name]; counted {
		return &cells
	}
	return nil
}

// checkpointAge is how many seconds ago all progress of a view was saved. Where it was not since the start that is at
// least what has passed since then: else a view that never comes up would look as if it had just been saved.
func (n *shown) checkpointAge(v *replicator.View) float64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	at, known := n.savedAt[v.Name]
	if !known {
		at = n.began
	}
	if at.IsZero() { // the pipeline has not started
		return 0
	}
	return *secondsSince(at)
}
