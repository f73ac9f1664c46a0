package pipeline

import (
	"sync"
	"time"

	"replicator"
)

// shown is up to when views showed everything as their last session ended: while there is no other one, or it has heard
// nothing yet, their lag is counted from there. Guarded by its mutex.
type shown struct {
	mu    sync.Mutex
	began time.Time            // when the pipeline started
	at    map[string]time.Time // by view
}

func newShown() *shown { return &shown{at: map[string]time.Time{}} }

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

// start says that the pipeline starts.
func (n *shown) start() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.began = time.Now()
}

// lag is that of a view that no session tells of: how long ago it was known to show everything. Of one that never was
// since the start, and has no session, it is at least what has passed since then; nil if it may show all.
func (n *shown) lag(v *replicator.View, state string) *float64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	at, known := n.at[v.Name]
	switch {
	case known:
		return secondsSince(at)
	case state == replicator.StateRunning, state == replicator.StateRebuilding, n.began.IsZero():
		return nil
	}
	return secondsSince(n.began)
}
