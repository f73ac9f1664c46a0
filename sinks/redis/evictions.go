package redis

import (
	"sync"

	"replicator"
)

var _ replicator.Evicter = (*Target)(nil)

// evictions counts the keys that the servers evicted (evicted_keys in INFO). Keys of other programs are included,
// because the servers don't say which keys they evicted. Every mark reads the count, and stores the count that the
// pipeline was last told. So even after a restart, the pipeline learns of evictions that it was not told of before. If
// the user may not run INFO, evictions go unnoticed.
type evictions struct {
	mu    sync.Mutex
	now   int64 // the servers' last count
	known int64 // the servers' count when the pipeline was last told
	news  int64 // evictions that the pipeline was not told of yet
}

// begin sets the count from which later evictions are counted.
func (e *evictions) begin(now int64) { e.now, e.known = now, now }

// since counts the evictions that followed a view's mark. marked is the count in the mark. After calls for several
// marks, e.news is the highest of these numbers.
func (e *evictions) since(marked int64) { e.news = max(e.news, grown(marked, e.now)) }

// grown returns the growth of a count that begins at 0 again when the server restarts.
func grown(from, to int64) int64 {
	if to >= from {
		return to - from
	}
	return to
}

// are sets the servers' current count, and adds its growth to the evictions that the pipeline was not told of yet.
func (e *evictions) are(now int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.news += grown(e.now, now)
	e.now = now
}

// lost records that data is gone, although the servers counted no eviction.
func (e *evictions) lost() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.news++
}

// told returns the servers' count when the pipeline was last told.
func (e *evictions) told() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.known
}

// Evicted implements replicator.Evicter.
func (t *Target) Evicted() int64 {
	e := &t.evictions
	e.mu.Lock()
	defer e.mu.Unlock()
	news := e.news
	e.news, e.known = 0, e.now
	return news
}
