package elastic

import (
	"context"
	"slices"
	"sync"
	"time"
)

// SearchTime is how long to keep an index after its alias has moved away. A search that resolved the alias before would
// otherwise return no hits and a failed shard. A reader that does not check _shards would take that for an empty view.
const SearchTime = 3 * time.Second

// retired lists the replaced indexes, each with the time after which it may be removed.
type retired struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// isRetired reports whether no alias leads to the index any more.
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

// take returns the indexes that may be removed by now, and drops them from the list.
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

// retireSuperseded puts indexes that no alias leads to on the list for removal: a process retired them, but ended
// before it removed them.
func (s *Sink) retireSuperseded(older []*generation) {
	for _, g := range older {
		if g.isRetired() {
			s.retired.add(s.config.SearchTime, g)
		}
	}
}

// removeRetired removes indexes that were replaced at least Config.SearchTime ago. If one can't be removed, it does no
// harm, and the next Open finds it again.
func (s *Sink) removeRetired(ctx context.Context) {
	for _, index := range s.retired.take() {
		if err := s.remove(ctx, index); err != nil {
			s.log.Warn("an index that was replaced can't be removed", "sink", s.name, "index", index, "error", err)
		}
	}
}

// removeTime limits the time for Close to remove the retired indexes, not counting the wait until they may be removed.
const removeTime = 5 * time.Second

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
