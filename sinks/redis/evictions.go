package redis

import (
	"sync"

	"replicator"
)

var _ replicator.Evicter = (*Target)(nil)

// evictions counts the keys that the servers evicted (evicted_keys in INFO), those of other programs included. Evicted
// reports them to the pipeline. Each mark stores `reported`, so a restart loses no evictions. If the user may not run
// INFO, evictions go unnoticed.
type evictions struct {
	mu         sync.Mutex
	latest     int64 // the servers' count, as last read
	reported   int64 // the value of latest when Evicted was last called
	unreported int64 // the number that the next call of Evicted returns
}

func (e *evictions) begin(now int64) { e.latest, e.reported = now, now }

// addSince raises e.unreported to at least the number of evictions since a view's mark. `marked` is the mark's count of
// evicted keys.
func (e *evictions) addSince(marked int64) { e.unreported = max(e.unreported, grown(marked, e.latest)) }

// grown returns the growth of a count that begins at 0 again when the server restarts.
func grown(from, to int64) int64 {
	if to >= from {
		return to - from
	}
	return to
}

// setCount records the servers' current count of evictions. The next call of Evicted reports its growth.
func (e *evictions) setCount(now int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unreported += grown(e.latest, now)
	e.latest = now
}

// lost counts an eviction that the servers' count lacks, because the sink's data is gone for another reason.
func (e *evictions) lost() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unreported++
}

// told returns the servers' count as of the last call of Evicted.
func (e *evictions) told() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.reported
}

// Evicted returns how many keys the servers have evicted since the last call.
func (t *Target) Evicted() int64 {
	e := &t.evictions
	e.mu.Lock()
	defer e.mu.Unlock()
	news := e.unreported
	e.unreported, e.reported = 0, e.latest
	return news
}
