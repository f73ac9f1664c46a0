package pipeline

// coalescing decides how many changes may be in flight: as many as memory allows if many changes of a cell merge into
// one write, otherwise only enough to keep the workers (lanes) busy. Too many cost cache misses and garbage collection:
// with 200,000 distinct cells, 45,000 changes in flight took 25 µs per cell (MySQL), and 5,000 took 17 µs. The
// budget's mutex guards it.
type coalescing struct {
	total    int64
	smallest int64 // the lowest number of changes in flight that keeps the workers busy
	changes  int64 // the number of changes that may be in flight now
	mean     int64 // the mean size of a change, in bytes

	seen, joined int // number of changes since `changes` was last set, and how many of them merged with a pending one
}

const (
	// busyBatches is how many batches a worker (lane) needs: one in flight, one waiting, and one more for times when it
	// gets more changes than the other workers.
	busyBatches = 3

	// judged is the number of changes after which coalescing decides again how many changes may be in flight.
	judged = 8192

	// worthwhile is a share of changes. More changes may be in flight if, by estimate, at least this share would merge
	// with pending ones once the whole budget is used.
	worthwhile = 1. / 8
)

func newCoalescing(total int64, lanes int) *coalescing {
	n := int64(lanes * busyBatches * maxBatch)
	return &coalescing{total: total, smallest: n, changes: n}
}

func (c *coalescing) took(bytes int64) {
	if c.mean == 0 {
		c.mean = bytes
	}
	c.mean = max(c.mean+(bytes-c.mean)/64, 1)
}

// bytes is how many bytes may be in flight now: the whole budget, or less if more would not help.
func (c *coalescing) bytes() int64 { return min(c.total, c.changes*c.mean) }

// countMerged records how many changes arrived, and how many of these merged with pending changes. After enough
// changes, it decides again how many changes may be in flight.
func (c *coalescing) countMerged(joined, received int) {
	c.joined, c.seen = c.joined+joined, c.seen+received
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
