package pipeline

// coalescing decides how many changes may be in flight: as many as memory allows if many changes of a cell merge into
// one write, otherwise only enough to keep the lanes busy. Too many cost cache misses and garbage collection:
// with 200,000 distinct cells, 45,000 changes in flight took 25 µs per cell (MySQL), and 5,000 took 17 µs. The
// budget's mutex guards it.
type coalescing struct {
	total    int64
	smallest int64 // the lowest limit that keeps the lanes busy
	limit    int64 // how many changes may be in flight now
	mean     int64 // the mean size of a change, in bytes

	seen, merged int // number of changes since `limit` was last set, and how many of them merged with a pending change
}

const (
	// busyBatches is how many batches a lane needs: one in flight, one waiting, and one more for times when it gets
	// more changes than the other lanes.
	busyBatches = 3

	// judged is the number of changes after which coalescing sets the limit again.
	judged = 8192

	// worthwhile is a share of changes. If, by estimate, at least this share would merge with pending changes while the
	// whole budget is in use, the limit doubles. If less than half of this share would, the limit is halved.
	worthwhile = 1. / 8
)

func newCoalescing(total int64, lanes int) *coalescing {
	n := int64(lanes * busyBatches * maxBatch)
	return &coalescing{total: total, smallest: n, limit: n}
}

func (c *coalescing) took(bytes int64) {
	if c.mean == 0 {
		c.mean = bytes
	}
	c.mean = max(c.mean+(bytes-c.mean)/64, 1)
}

// bytes is how many bytes may be in flight now: the whole budget, or less if more would not help.
func (c *coalescing) bytes() int64 { return min(c.total, c.limit*c.mean) }

// countMerged records how many changes arrived, and how many of these merged with pending changes. After enough
// changes, it sets the limit again.
func (c *coalescing) countMerged(merged, received int) {
	c.merged, c.seen = c.merged+merged, c.seen+received
	if c.seen < judged {
		return
	}
	share := float64(c.merged) / float64(c.seen)
	c.merged, c.seen = 0, 0
	part := float64(c.bytes()) / float64(c.total)
	switch full := share / part; {
	case part < 1 && full >= worthwhile:
		c.limit *= 2
	case full < worthwhile/2:
		c.limit = max(c.limit/2, c.smallest)
	}
}
