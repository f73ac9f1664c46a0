package pipeline

import (
	"context"
	"slices"
	"sync"
)

// budget bounds the bytes in flight in a pipeline. One reader and one scan wait for it; lanes give back. Who waits is
// served in turn: else a scan, which always finds room for one more small row, would keep out a large one of the tail
// until it has ended.
type budget struct {
	mu    sync.Mutex
	total int64
	used  int64
	queue []*claim
}

// claim is what somebody waits for.
type claim struct {
	bytes   int64
	granted chan struct{} // closed once the bytes are taken
}

func newBudget(total int64) *budget { return &budget{total: total} }

// cost is what n bytes take: what is larger than the whole budget takes all of it, so that one huge row passes.
func (b *budget) cost(n int64) int64 { return min(n, b.total) }

// take waits until n bytes are free; n is a cost.
func (b *budget) take(ctx context.Context, n int64) error {
	b.mu.Lock()
	if len(b.queue) == 0 && b.used+n <= b.total {
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

// withdraw takes back a claim, also one that was granted just now.
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

// give returns n bytes that were taken.
func (b *budget) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	b.grant()
}

// grant serves who has waited longest, as far as there is room. The caller holds b.mu.
func (b *budget) grant() {
	for len(b.queue) > 0 && b.used+b.queue[0].bytes <= b.total {
		b.used += b.queue[0].bytes
		close(b.queue[0].granted)
		b.queue = b.queue[1:]
	}
}
