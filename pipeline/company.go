package pipeline

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"replicator"
)

// company records whether another program also maintains this pipeline's views, which is harmless but rarely intended.
// The other program shows by the positions that it saves in the sink.
type company struct {
	mu  sync.Mutex
	met map[string][2]time.Time // by view: the last two times at which another program saved its position in the sink
}

// companyStays is the time within which another program must save its position in the sink twice to count as running. A
// single save may come from a session that has ended since.
const companyStays = time.Minute

func newCompany() *company { return &company{met: map[string][2]time.Time{}} }

// meet records that another program has just saved its positions of some views in the sink. It returns the views for
// which no other program was known before.
func (c *company) meet(views []string) (joined []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, view := range views {
		alone := !c.has(view)
		c.met[view] = [2]time.Time{c.met[view][1], time.Now()}
		if alone && c.has(view) {
			joined = append(joined, view)
		}
	}
	return joined
}

// has reports whether another program maintains a view. The caller holds the mutex.
func (c *company) has(view string) bool { return time.Since(c.met[view][0]) < companyStays }

func (c *company) any(views viewSet) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(views, func(v *replicator.View) bool { return c.has(v.Name) })
}

// pace is the time until the position is saved again. It varies while another program also maintains the views, because
// programs that save in step don't notice each other.
func (s *saver) pace() time.Duration {
	if !s.company.any(s.views) {
		return s.cfg.Interval
	}
	return s.cfg.Interval/2 + rand.N(s.cfg.Interval)
}

// lookForCompany logs, once, that another program also maintains views of the session.
func (s *saver) lookForCompany() {
	shared, ok := s.target.(replicator.Shared)
	if !ok {
		return
	}
	if joined := s.company.meet(shared.Foreign()); len(joined) > 0 {
		s.cfg.Log.Warn("another replicator also maintains these views. They stay correct, but each change is written "+
			"twice. Stop one of the two, unless you run both on purpose",
			"sink", s.cfg.Name, "source", s.cfg.Source.Name(), "views", joined)
	}
}
