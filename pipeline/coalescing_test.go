package pipeline

import (
	"math/rand/v2"
	"testing"
)

// backlog gives a lane's worth of changes of random cells to what decides how much is in flight, and returns that.
func backlog(c *coalescing, cells int) (inFlight int64) {
	const size = 1500
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		// Half of what is in flight waits, on average, when a change comes: with such a chance its cell is there.
		waiting := float64(c.bytes()) / size / 2
		n := 0
		for range judged {
			c.took(size)
			if random.Float64() < waiting/float64(cells) {
				n++
			}
		}
		c.merged(n, judged)
	}
	return c.bytes()
}

func TestAsMuchIsInFlightAsCoalescingEarns(t *testing.T) {
	const memory, lanes = 64 << 20, 2
	for _, c := range []struct {
		name  string
		cells int
		all   bool // of the memory
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
