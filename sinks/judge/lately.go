package judge

import (
	"sync"
	"sync/atomic"
)

// Lately is a cache of what a sink wrote lately, so that the sink need not read it before the next write. A cached
// value may be out of date, so the next write must be conditional. Lately is safe for concurrent use.
type Lately[K comparable, V any] struct {
	mu         sync.Mutex
	most       int
	young, old map[K]V
}

// NewLately makes a cache that keeps at least the newest `most` values, and at most twice as many.
func NewLately[K comparable, V any](most int) *Lately[K, V] { return &Lately[K, V]{most: most} }

// Get returns the cached value of a key.
func (l *Lately[K, V]) Get(key K) (V, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v, ok := l.young[key]
	if !ok {
		v, ok = l.old[key]
	}
	return v, ok
}

// Note caches the value of a key, at least until `most` newer values are cached.
func (l *Lately[K, V]) Note(key K, value V) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.young) >= l.most {
		l.young, l.old = nil, l.young
	}
	if l.young == nil {
		l.young = map[K]V{}
	}
	delete(l.old, key)
	l.young[key] = value
}

// Forget removes a key's value from the cache.
func (l *Lately[K, V]) Forget(key K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.old, key)
	delete(l.young, key)
}

// Novelty guesses, from recent writes, whether the next write creates a record, or changes an existing one.
type Novelty struct{ createdPerMille atomic.Int64 }

// Likely reports whether at least half of the recent writes created a record.
func (n *Novelty) Likely() bool { return n.createdPerMille.Load() >= 500 }

// Learn notes how many writes created a record, and how many did not. If two goroutines call Learn at once, one call
// may be lost, which doesn't matter for a guess.
func (n *Novelty) Learn(created, others int) {
	if created+others == 0 {
		return
	}
	n.createdPerMille.Store((n.createdPerMille.Load() + int64(1000*created/(created+others))) / 2)
}
