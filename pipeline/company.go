package pipeline

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"replicator"
)

// company is what the sink's marks tell of another program that keeps the same views. It is harmless, because the rule
// keeps views right whoever writes, and hardly ever meant. The two see each other by their marks, so while the source
// writes nothing neither is seen.
type company struct {
	mu  sync.Mutex
	met map[string][2]time.Time // by view: when the last two marks were met that another program had set
}

// companyStays is for how long the marks of another program tell that it runs. One alone does not: it may be what
// another session sent before its connection broke.
const companyStays = time.Minute

func newCompany() *company { return &company{met: map[string][2]time.Time{}} }

// meet notes whose marks another program has set. It returns the views that are in company since now.
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

// has reports whether another program keeps a view. The caller holds the mutex.
func (c *company) has(view string) bool { return time.Since(c.met[view][0]) < companyStays }

// any reports whether another program keeps one of some views.
func (c *company) any(views viewSet) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(views, func(v *replicator.View) bool { return c.has(v.Name) })
}

// pace is how long it takes until the next mark. In company it differs each time: of two that mark in step, one is always
// first, and would never meet a mark of the other's.
func (s *saver) pace() time.Duration {
	if !s.company.any(s.views) {
		return s.cfg.Interval
	}
	return s.cfg.Interval/2 + rand.N(s.cfg.Interval)
}

// lookForCompany says once that another program keeps views of the session, too.
func (s *saver) lookForCompany() {
	shared, ok := s.target.(replicator.Shared)
	if !ok {
		return
	}
	if joined := s.company.meet(shared.Foreign()); len(joined) > 0 {
		s.cfg.Log.Warn("another replicator keeps these views, too: they stay right, but each change is written twice. "+
			"Stop one of the two, unless both are meant",
			"sink", s.cfg.Name, "source", s.cfg.Source.Name(), "views", joined)
	}
}
