package pipeline

import (
	"sync"

	"replicator"
)

// stopped are the views of a pipeline that don't run, and why. Guarded by its mutex: the supervisor's goroutine writes
// it, anybody may read it.
type stopped struct {
	mu       sync.Mutex
	paused   map[string]replicator.Checkpoint // where they go on; the zero value: that is not known yet
	failed   map[string]error
	starting error // why the pipeline can't start yet
}

func newStopped(paused []string) *stopped {
	s := &stopped{paused: map[string]replicator.Checkpoint{}, failed: map[string]error{}}
	for _, view := range paused {
		s.pauseUnread(view)
	}
	return s
}

// pause says that views were taken out of their runs, at their checkpoints.
func (s *stopped) pause(at []replicator.Checkpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range at {
		s.paused[c.View] = c
	}
}

// pauseUnread says that a view is paused of which it is not known yet where it goes on.
func (s *stopped) pauseUnread(view string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, paused := s.paused[view]; !paused {
		s.paused[view] = replicator.Checkpoint{}
	}
}

// resume says that a view is paused no more, and returns where it goes on; nothing if it was not paused, or that is not
// known yet.
func (s *stopped) resume(view string) []replicator.Checkpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, paused := s.paused[view]
	if !paused {
		return nil
	}
	delete(s.paused, view)
	if c.View == "" {
		return nil
	}
	return []replicator.Checkpoint{c}
}

// move lets a view that is paused go on elsewhere, and reports whether it is.
func (s *stopped) move(to replicator.Checkpoint) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, paused := s.paused[to.View]
	if paused {
		s.paused[to.View] = to
	}
	return paused
}

// pausedAt is where a view goes on that is paused; false if it is not.
func (s *stopped) pausedAt(v *replicator.View) (replicator.Position, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, paused := s.paused[v.Name]
	return c.Position, paused
}

func (s *stopped) isPaused(v *replicator.View) bool {
	_, paused := s.pausedAt(v)
	return paused
}

// setFailed says why a view doesn't run; nil: nothing is wrong with it.
func (s *stopped) setFailed(view string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed[view] = err; err == nil {
		delete(s.failed, view)
	}
}

// setStarting says why the pipeline can't start yet; nil: it has started.
func (s *stopped) setStarting(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starting = err
}

// cantStart is why the pipeline can't start yet; nil: it has started.
func (s *stopped) cantStart() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.starting
}

// reason is why a view doesn't run; nil if nothing is wrong with it.
func (s *stopped) reason(view string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.starting != nil {
		return s.starting
	}
	return s.failed[view]
}
