package judge

import (
	"sync"
	"sync/atomic"
)

// Lately remembers what a sink wrote lately, so that the sink need not read it before the next write. A remembered
// value may be out of date, so that write must be conditional. Lately is safe for concurrent use. Use NewLately: the
// zero value remembers two values at most.
type Lately[K comparable, V any] struct {
	mu         sync.Mutex
	most       int
	young, old map[K]V
}

// NewLately makes a Lately that remembers the newest values. It keeps at least `most` of them, and at most twice as
// many.
func NewLately[K comparable, V any](most int) *Lately[K, V] { return &Lately[K, V]{most: most} }

// Get returns the value of a key.
func (l *Lately[K, V]) Get(key K) (V, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v, ok := l.young[key]
	if !ok {
		v, ok = l.old[key]
	}
	return v, ok
}

// Note remembers a value.
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

// Forget removes a key's value.
func (l *Lately[K, V]) Forget(key K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.old, key)
	delete(l.young, key)
}

// Novelty guesses, from recent writes, whether the sink has no record of the next entity or document yet.
type Novelty struct{ share atomic.Int64 } // how many of 1,000 recent writes created a record or document

// Likely reports whether at least half of the recent writes created a record or document.
func (n *Novelty) Likely() bool { return n.share.Load() >= 500 }

// Learn records how many writes created a record or document, and how many did not. If two lanes call Learn at once,
// one call is lost, which doesn't matter for a guess.
func (n *Novelty) Learn(created, others int) {
	if created+others == 0 {
		return
	}
	n.share.Store((n.share.Load() + int64(1000*created/(created+others))) / 2)
}
