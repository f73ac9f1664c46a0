package pipeline

import (
	"math/rand/v2"
	"testing"
)

// backlog simulates a lane with changes of random cells, and returns how many bytes coalescing allows in flight.
func backlog(c *coalescing, cells int) (inFlight int64) {
	const size = 1500
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		// When a change arrives, on average half of the changes in flight are waiting. So this is the chance that its
		// cell is among them.
		waiting := float64(c.bytes()) / size / 2
		n := 0
		for range judged {
			c.took(size)
			if random.Float64() < waiting/float64(cells) {
				n++
			}
		}
		c.countMerged(n, judged)
	}
	return c.bytes()
}

func TestAsMuchIsInFlightAsCoalescingEarns(t *testing.T) {
	const memory, lanes = 64 << 20, 2
	for _, c := range []struct {
		name  string
		cells int
		all   bool // all memory may be used
	}{
		{"one cell", 1, true},
		{"few cells, many changes of each", 10_000, true},
		{"twice as many cells as fit", 90_000, true},
		{"cells that hardly ever meet", 2_000_000, false},
		{"all cells are different", 1 << 50, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := int64(lanes * busyBatches * maxBatch * 1500)
			if c.all {
				want = memory
			}
			if n := backlog(newCoalescing(memory, lanes), c.cells); n != want {
				t.Errorf("%d bytes are in flight, not %d", n, want)
			}
		})
	}
}

func TestWhatIsInFlightFollowsTheBacklog(t *testing.T) {
	c := newCoalescing(64<<20, 2)
	least := backlog(c, 1<<50)
	if most := backlog(c, 10_000); most != c.total {
		t.Errorf("once changes coalesce %d bytes are in flight", most)
	}
	if n := backlog(c, 1<<50); n != least {
		t.Errorf("once they don't any more %d bytes are in flight, not %d", n, least)
	}
	if n := backlog(newCoalescing(1<<10, 2), 1); n != 1<<10 {
		t.Errorf("with 1 KiB of memory %d bytes are in flight", n)
	}
}
