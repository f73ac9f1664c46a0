package elastic

import (
	"context"
	"slices"
	"sync"
	"time"
)

// SearchTime is how long an index stays that an alias showed until now. A search resolves the alias on one node and
// then asks the index's shards: where the index is gone by then, it answers with nothing and a failed shard, and who
// does not look at _shards takes that for an empty view.
const SearchTime = 3 * time.Second

// retired are indexes whose place others have taken, each with the time from which it may be removed.
type retired struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// isRetired reports whether nothing leads to the generation any more.
func (g *generation) isRetired() bool { return !g.shown && g.write == "" }

func (r *retired) add(stay time.Duration, generations ...*generation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range generations {
		if r.until == nil {
			r.until = map[string]time.Time{}
		}
		r.until[g.index] = time.Now().Add(stay)
	}
}

// take returns the indexes whose time has come, which are then no longer here.
func (r *retired) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var due []string
	for index, until := range r.until {
		if !time.Now().Before(until) {
			due = append(due, index)
			delete(r.until, index)
		}
	}
	slices.Sort(due)
	return due
}

// last is the time from which all may be removed.
func (r *retired) last() (last time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, until := range r.until {
		if until.After(last) {
			last = until
		}
	}
	return last
}

// retireSuperseded takes up the generations that a process retired which did not live to remove them.
func (s *Sink) retireSuperseded(older []*generation) {
	for _, g := range older {
		if g.isRetired() {
			s.retired.add(s.config.SearchTime, g)
		}
	}
}

// removeRetired removes the retired indexes whose time has come. One that can't be removed is in nobody's way; the next
// Open finds it again.
func (s *Sink) removeRetired(ctx context.Context) {
	for _, index := range s.retired.take() {
		if err := s.remove(ctx, index); err != nil {
			s.log.Warn("an index whose place another has taken can't be removed", "sink", s.name, "index", index, "error", err)
		}
	}
}

// removeTime is how long removing indexes at the end may take, beyond the time that these have to stay.
const removeTime = 5 * time.Second

// awaitRetired waits until the retired indexes may go, and removes them.
func (s *Sink) awaitRetired() {
	last := s.retired.last()
	if last.IsZero() {
		return
	}
	time.Sleep(time.Until(last))
	ctx, cancel := context.WithTimeout(context.Background(), removeTime)
	defer cancel()
	s.removeRetired(ctx)
}
