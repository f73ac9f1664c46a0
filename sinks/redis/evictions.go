package redis

import (
	"sync"

	"replicator"
)

var _ replicator.Evicter = (*Target)(nil)

// evictions counts keys that the servers evicted (INFO's evicted_keys), of whoever's they are: the servers don't say
// which. Every mark asks. What the pipeline was told of stands in the marks, so that it is told of the others after a
// restart, too. A user who may not run INFO hears of none.
type evictions struct {
	mu    sync.Mutex
	now   int64 // what the servers said last
	known int64 // and when they were asked by who was told
	news  int64 // since then
}

// begin begins to count.
func (e *evictions) begin(now int64) { e.now, e.known = now, now }

// since adds what was evicted since a view's mark said how many it had been.
func (e *evictions) since(marked int64) { e.news = max(e.news, grown(marked, e.now)) }

// grown is by how much a count has grown, which begins again where a server is started again.
func grown(from, to int64) int64 {
	if to >= from {
		return to - from
	}
	return to
}

// are says how many there are now.
func (e *evictions) are(now int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.news += grown(e.now, now)
	e.now = now
}

// lost says that something is gone that the servers did not count.
func (e *evictions) lost() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.news++
}

// told is how many there were when the pipeline was told last.
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
