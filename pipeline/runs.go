package pipeline

import (
	"slices"
	"sync"

	"replicator"
)

// runs are those that there are. Guarded by its mutex: the supervisor's goroutine changes it, anybody may read it.
type runs struct {
	mu   sync.Mutex
	list []*run
}

func (rs *runs) all() []*run {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return slices.Clone(rs.list)
}

func (rs *runs) add(r *run) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.list = append(rs.list, r)
}

func (rs *runs) remove(r *run) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.list = slices.DeleteFunc(rs.list, func(other *run) bool { return other == r })
}

// of is the run of a view; nil if it has none.
func (rs *runs) of(view string) *run {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, r := range rs.list {
		if slices.ContainsFunc(r.views, func(v *replicator.View) bool { return v.Name == view }) {
			return r
		}
	}
	return nil
}
