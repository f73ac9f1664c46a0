package redis

import (
	"sync"

	"replicator"
)

var _ replicator.Evicter = (*Target)(nil)

// evictions counts the keys that the servers evicted (INFO's evicted_keys), of any program: the servers don't say
// which. Every mark reads the count. The marks store the count that the pipeline was told, so that it learns of the
// others after a restart, too. A user who may not run INFO learns of none.
type evictions struct {
	mu    sync.Mutex
	now   int64 // what the servers said last
	known int64 // the count when the pipeline was last told
	news  int64 // since then
}

// begin begins to count.
func (e *evictions) begin(now int64) { e.now, e.known = now, now }

// since adds the evictions since a view's mark stored their count.
func (e *evictions) since(marked int64) { e.news = max(e.news, grown(marked, e.now)) }

// grown is the growth of a count that restarts with the server.
func grown(from, to int64) int64 {
	if to >= from {
		return to - from
	}
	return to
}

// are sets the current count.
func (e *evictions) are(now int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.news += grown(e.now, now)
	e.now = now
}

// lost records that data is gone without the servers having counted it.
func (e *evictions) lost() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.news++
}

// told is the count when the pipeline was last told.
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
