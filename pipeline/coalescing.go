package pipeline

// coalescing says how much a pipeline should have in flight: as much as memory allows where that makes one write of
// many changes, and no more than keeps the lanes busy where it doesn't. What is in flight is what the collector marks
// again and again, and what leaves the processor's cache. Of 200,000 cells that are all different, 45,000 in flight
// cost 20.7 µs a cell into Redis and 25.0 into MySQL where 5,000 cost 14.6 and 17.2, and took 120 MiB where these took
// 48 (in turns, on a busy machine). They are not applied sooner.
//
// Of changes of random cells, the share that merges grows with the number in flight. So what all of the memory would
// earn is told by what a part of it does. The budget's mutex guards it.
type coalescing struct {
	total    int64 // bytes
	smallest int64 // changes in flight that keep the lanes busy
	changes  int64 // that may be in flight now
	mean     int64 // bytes of a change

	seen, joined int // changes, and those that merged, since it was last judged
}

const (
	// busyBatches is how many batches a lane needs: one in flight, one that waits, and one for when the other lanes have
	// less than their share.
	busyBatches = 3

	// judged is after how many changes it is decided anew.
	judged = 8192

	// worthwhile is the share of changes that must merge, with all memory in use, for more in flight to pay.
	worthwhile = 1. / 8
)

func newCoalescing(total int64, lanes int) *coalescing {
	n := int64(lanes * busyBatches * maxBatch)
	return &coalescing{total: total, smallest: n, changes: n}
}

// took notes the size of a change.
func (c *coalescing) took(bytes int64) {
	if c.mean == 0 {
		c.mean = bytes
	}
	c.mean = max(c.mean+(bytes-c.mean)/64, 1)
}

// bytes is how many bytes may be in flight.
func (c *coalescing) bytes() int64 { return min(c.total, c.changes*c.mean) }

// merged notes that n of some changes merged with pending ones, and decides once there were enough of them.
func (c *coalescing) merged(n, of int) {
	c.joined, c.seen = c.joined+n, c.seen+of
	if c.seen < judged {
		return
	}
	share := float64(c.joined) / float64(c.seen)
	c.joined, c.seen = 0, 0
	part := float64(c.bytes()) / float64(c.total)
	switch full := share / part; {
	case part < 1 && full >= worthwhile:
		c.changes *= 2
	case full < worthwhile/2:
		c.changes = max(c.changes/2, c.smallest)
	}
}
