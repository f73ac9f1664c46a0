package pipeline

import (
	"context"
	"slices"
	"sync"
)

// budget limits the bytes of changes in flight. Whoever adds a change waits until there is room. Waiters are served in
// turn, so that a scan's many small rows can't keep out a large row from the log.
type budget struct {
	total  int64
	lanes  int
	window *coalescing

	mu    sync.Mutex
	used  int64
	queue []*claim
}

// claim is a caller of take that waits for its bytes.
type claim struct {
	bytes   int64
	granted chan struct{} // closed when the waiter gets its bytes
}

func newBudget(total int64, lanes int) *budget {
	return &budget{total: total, lanes: lanes, window: newCoalescing(total, lanes)}
}

// cost returns how many bytes of the budget n bytes take. A row larger than the whole budget counts as all of it, so
// that it can pass.
func (b *budget) cost(n int64) int64 { return min(n, b.total) }

// take waits until n bytes are free, and takes them. n is a result of cost.
func (b *budget) take(ctx context.Context, n int64) error {
	b.mu.Lock()
	b.window.took(n)
	if len(b.queue) == 0 && b.fits(n) {
		b.used += n
		b.mu.Unlock()
		return nil
	}
	c := &claim{bytes: n, granted: make(chan struct{})}
	b.queue = append(b.queue, c)
	b.mu.Unlock()
	select {
	case <-c.granted:
		return nil
	case <-ctx.Done():
		b.withdraw(c)
		return context.Cause(ctx)
	}
}

// fits reports whether n more bytes may be in flight. A change that is larger than the limit fits only when nothing
// else is in flight. The caller holds b.mu.
func (b *budget) fits(n int64) bool { return b.used == 0 || b.used+n <= b.window.bytes() }

// countMerged records how many changes a lane received, and how many of these merged with pending changes. The share of
// changes that merge decides how many bytes may be in flight: see coalescing.
func (b *budget) countMerged(merged, received int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.window.countMerged(merged, received)
	b.grant()
}

// withdraw takes back a claim, even one that was just granted.
func (b *budget) withdraw(c *claim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.queue, c); i >= 0 {
		b.queue = slices.Delete(b.queue, i, i+1)
	} else {
		b.used -= c.bytes
	}
	b.grant()
}

func (b *budget) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	b.grant()
}

// grant serves waiters in turn while there is room. The caller holds b.mu.
func (b *budget) grant() {
	for len(b.queue) > 0 && b.fits(b.queue[0].bytes) {
		b.used += b.queue[0].bytes
		close(b.queue[0].granted)
		b.queue = b.queue[1:]
	}
}
