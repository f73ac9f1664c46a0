package pipeline

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"replicator"
)

// company records whether another program also maintains this pipeline's views. Views stay correct with any number of
// writers, but several are rarely intended. Each program recognizes the other by the other's marks in the sink. While
// the source writes nothing, there are no new marks, so neither notices the other.
type company struct {
	mu  sync.Mutex
	met map[string][2]time.Time // by view: when the last two marks of another program were seen
}

// companyStays is how long a mark counts as a sign of a running program. A single mark does not count: another session
// may have sent it before its connection broke.
const companyStays = time.Minute

func newCompany() *company { return &company{met: map[string][2]time.Time{}} }

// meet records that another program has just marked some views. It returns the views for which no other program was
// known before.
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

// any reports whether another program maintains any of some views.
func (c *company) any(views viewSet) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(views, func(v *replicator.View) bool { return c.has(v.Name) })
}

// pace is the time until the next mark. If another program also maintains the views, the time varies. If both programs
// marked in step, one program would always be first, and would never see the other's mark.
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
