package pipeline

import (
	"sync"

	"replicator"
)

// stopped holds a pipeline's views that don't run, with the reasons. Its mutex guards it: the supervisor's goroutine
// writes it, any goroutine may read it.
type stopped struct {
	mu       sync.Mutex
	paused   map[string]replicator.Checkpoint // by view: where the view continues later; zero: not known yet
	failed   map[string]error                 // by view: why the view doesn't run
	starting error                            // why the pipeline can't start yet
}

func newStopped(paused []string) *stopped {
	s := &stopped{paused: map[string]replicator.Checkpoint{}, failed: map[string]error{}}
	for _, view := range paused {
		s.pauseUnread(view)
	}
	return s
}

func (s *stopped) pause(at []replicator.Checkpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range at {
		s.paused[c.View] = c
	}
}

// pauseUnread pauses a view whose position is not known yet.
func (s *stopped) pauseUnread(view string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, paused := s.paused[view]; !paused {
		s.paused[view] = replicator.Checkpoint{}
	}
}

// resume ends a view's pause and returns where the view continues. It returns nothing if the view was not paused, or if
// its position is unknown.
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

func (s *stopped) move(to replicator.Checkpoint) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, paused := s.paused[to.View]
	if paused {
		s.paused[to.View] = to
	}
	return paused
}

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

func (s *stopped) setFailed(view string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed[view] = err; err == nil {
		delete(s.failed, view)
	}
}

func (s *stopped) setStarting(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starting = err
}

func (s *stopped) cantStart() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.starting
}

func (s *stopped) reason(view string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.starting != nil {
		return s.starting
	}
	return s.failed[view]
}
