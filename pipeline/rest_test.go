package pipeline

import (
	"testing"
	"time"

	"replicator"
)

func TestAWalkRestsForTheCellsThatItOnlyLookedAt(t *testing.T) {
	for forgotten, want := range map[int]time.Duration{0: 40 * time.Millisecond, forgetPage / 2: 20 * time.Millisecond,
		forgetPage: 0, 2 * forgetPage: 0} {
		if got := restAfter(10*time.Millisecond, replicator.GoneCells{Forgotten: forgotten}); got != want {
			t.Errorf("%d of %d cells forgotten in 10 ms: it rests for %s, want %s", forgotten, forgetPage, got, want)
		}
	}
}
