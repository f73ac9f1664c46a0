package redis

import (
	"math"
	"testing"
)

// TestWhatACellCosts limits what a cell costs on any machine: the memory that is allocated for it, the keys and bytes
// that are sent, and the number of script calls for a batch. A change that raises a limit must say why here.
func TestWhatACellCosts(t *testing.T) {
	const batch = benchBatch
	for name, most := range map[string]struct {
		allocations float64 // per batch
		decided
	}{
		"new":    {45, decided{calls: 7, keys: 3 * batch, bytes: 302 * batch}},
		"moved":  {45, decided{calls: 7, keys: 4 * batch, bytes: 336 * batch}},
		"merged": {45, decided{calls: 7, keys: 2 * batch, bytes: 301 * batch}},
		"stale":  {10, decided{}},
	} {
		t.Run(name, func(t *testing.T) {
			work := decisions(t)[name]
			if got := work(); got.calls > most.calls || got.keys > most.keys || got.bytes > most.bytes {
				t.Errorf("a batch of %d takes %+v, at most %+v so far", batch, got, most.decided)
			}
			// The least of several counts, because a pool drops its contents now and then; under the race detector,
			// every fourth time.
			got := math.Inf(1)
			for range 20 {
				got = min(got, testing.AllocsPerRun(1, func() { work() }))
			}
			if got > most.allocations {
				t.Errorf("a batch of %d takes %v allocations, at most %v so far", batch, got, most.allocations)
			}
		})
	}
}
