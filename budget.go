package replicator

import (
	"context"
	"sync"
)

// budget bounds the bytes in flight in a pipeline. One reader and one scan wait for it; lanes give back.
type budget struct {
	mu    sync.Mutex
	total int64
	used  int64
	freed chan struct{} // closed, and made anew, whenever bytes are given back while somebody waits
}

func newBudget(total int64) *budget { return &budget{total: total} }

// cost is what n bytes take: what is larger than the whole budget takes all of it, so that one huge row passes.
func (b *budget) cost(n int64) int64 { return min(n, b.total) }

// take waits until n bytes are free; n is a cost.
func (b *budget) take(ctx context.Context, n int64) error {
	for {
		b.mu.Lock()
		if b.used+n <= b.total {
			b.used += n
			b.mu.Unlock()
			return nil
		}
		if b.freed == nil {
			b.freed = make(chan struct{})
		}
		freed := b.freed
		b.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// give returns n bytes that were taken.
func (b *budget) give(n int64) {
	b.mu.Lock()
	b.used -= n
	if b.freed != nil {
		close(b.freed)
		b.freed = nil
	}
	b.mu.Unlock()
}
