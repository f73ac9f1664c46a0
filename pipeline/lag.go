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

// reach is how far a session has read its source's log, and where the log ends. The fields are atomics: the log
// reader's goroutine writes the first group, the saver's the second.
type reach struct {
	committed  atomic.Int64 // the log position of the last transaction end that the reader delivered
	lastCommit atomic.Int64 // the last known commit time of a delivered transaction, in Unix nanoseconds
	heard      atomic.Bool  // the source has begun to send its log; until then the lag is unknown

	first    atomic.Int64 // the log's end when the source was first asked
	latest   atomic.Int64 // the log's end, as the source's latest answer says
	asked    atomic.Int64 // time at which the source was asked for `latest`, in Unix nanoseconds; 0: not yet
	caughtUp atomic.Int64 // time at which `committed` last reached the log's end, in Unix nanoseconds; 0: never
}

func (r *reach) commit(order int64, at time.Time) {
	r.heard.Store(true)
	r.committed.Store(order)
	if !at.IsZero() {
		r.lastCommit.Store(at.UnixNano())
	}
}

func (r *reach) end(at replicator.Position, asked time.Time) {
	if r.asked.Load() == 0 {
		r.first.Store(at.Order)
	}
	if r.latest.Store(at.Order); at.Order <= r.committed.Load() {
		r.caughtUp.Store(asked.UnixNano())
	}
	r.asked.Store(asked.UnixNano())
}

// shown returns the time up to which the views show everything committed. The function oldest returns the commit time
// of the oldest change that the views lack. If the views have caught up, shown returns the time when the source was
// last asked where its log ends.
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
		return at, false, false // the source was not asked yet, and the session may begin far behind the log's end
	case r.committed.Load() >= r.latest.Load():
		return time.Unix(0, asked), true, true
	case last == 0:
		return at, false, false // the log's end is ahead, and no change with a commit time has arrived yet
	}
	return time.Unix(0, last), false, true
}

// passed reports whether everything committed before the session began is applied. From then on, views that ran
// separately before this session agree with each other.
func (s *session) passed() bool {
	return s.reach.asked.Load() != 0 && s.lanes.low() >= s.reach.first.Load()
}

// lag is the age of the oldest committed change that the views don't show yet; false if the age is unknown.
func (s *session) lag() (time.Duration, bool) {
	at, caughtUp, known := s.shown()
	if !known || caughtUp && time.Since(at) < s.answerTimeout() {
		return 0, known
	}
	return max(0, time.Since(at)), true
}

// answerTimeout limits the age of the source's last answer where its log ends. While the answer is younger, the lag of
// views that have caught up is 0. Once it is older, the lag is the answer's age.
func (s *session) answerTimeout() time.Duration { return max(10*time.Second, 3*s.cfg.Interval) }

func (s *session) shown() (at time.Time, caughtUp, known bool) { return s.reach.shown(s.lanes.since) }

// The type shown keeps, for each view, the time up to which the view showed everything, so that the lag keeps growing
// while no session is open. It also keeps counts and times for the status. It outlives runs, and a mutex guards it.
type shown struct {
	mu      sync.Mutex
	began   time.Time            // when the pipeline started
	at      map[string]time.Time // by view: the time up to which the view showed everything
	savedAt map[string]time.Time // by view: when the store last had all of its progress; no entry: not since `began`
	evicted map[string]int64     // by view: keys that the sink's server has evicted since the start
	gone    map[string]int64     // by view: deleted cells that the view's sink still remembered at the last count
}

func newShown(before map[string]time.Time) *shown {
	n := &shown{at: map[string]time.Time{}, savedAt: map[string]time.Time{}, evicted: map[string]int64{},
		gone: map[string]int64{}}
	maps.Copy(n.at, before)
	return n
}

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

func (n *shown) remember(s *session) {
	at, _, known := s.shown()
	if !known {
		return
	}
	n.each(s.views, func(name string) { n.at[name] = at })
}

// recall reads from the store the time up to which views showed everything in an earlier process. It does nothing for a
// partition of a topic, because another member of the group may have had the partition since.
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
		if c.Filling() && c.Epoch != 0 { // before its fill ends, the view lacks old changes; Epoch is the fill's start
			at = time.UnixMicro(c.Epoch)
		}
		if _, known := n.at[c.View]; !known && c.Source == cfg.Source.Name() && !at.IsZero() {
			n.at[c.View] = at
		}
	}
	return nil
}

// stamp sets Checkpoint.Shown in checkpoints that will be saved. If known is true, Shown becomes upTo, the time up to
// which the session shows everything. Otherwise Shown becomes the time that was recorded for the view before.
func (n *shown) stamp(checkpoints []replicator.Checkpoint, upTo time.Time, known bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range checkpoints {
		c := &checkpoints[i]
		if c.Shown = n.at[c.View].UTC(); known {
			c.Shown = upTo.UTC()
		}
	}
}

func (n *shown) start() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.began = time.Now()
}

// lag returns the lag of a view without a session, in seconds: the time since it last showed everything or, if that is
// unknown, since the start. nil: the view may show everything.
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

// allSaved records that the store now has all of the views' progress.
func (n *shown) allSaved(views viewSet) {
	n.each(views, func(name string) { n.savedAt[name] = time.Now() })
}

func (n *shown) each(views viewSet, do func(name string)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, v := range views {
		do(v.Name)
	}
}

func (n *shown) evict(views viewSet, keys int64) {
	n.each(views, func(name string) { n.evicted[name] += keys })
}

func (n *shown) evictedKeys(v *replicator.View) int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.evicted[v.Name]
}

func (n *shown) countGone(views viewSet, cells int64) {
	n.each(views, func(name string) { n.gone[name] = cells })
}

func (n *shown) goneCells(v *replicator.View) *int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if cells, counted := n.gone[v.Name]; counted {
		return &cells
	}
	return nil
}

// checkpointAge is the number of seconds since the store last had all of a view's progress. If it had not since the
// start, checkpointAge counts from the start, so that it grows for a view that never runs.
func (n *shown) checkpointAge(v *replicator.View) float64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	at, known := n.savedAt[v.Name]
	if !known {
		at = n.began
	}
	if at.IsZero() { // nothing was saved, and the pipeline has not started
		return 0
	}
	return *secondsSince(at)
}
