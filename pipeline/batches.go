package pipeline

import "iter"

// maxBatch is how many cells go into one call of Target.Apply. MariaDB turns an IN list of 1,000 values or more into a
// materialised semijoin, and throughput stops growing at batches of 500 to 1,000.
const maxBatch = 800

// batches is a worker's queue of waiting changes, in the order of arrival, cut into batches. A batch holds changes by
// value and is reused. So the garbage collector doesn't see each waiting change as a separate object.
type batches struct {
	queue [][]pending // batches of capacity maxBatch, oldest first; the last batch is being filled
	spare [][]pending
}

// spareBatches is how many empty batches are kept for reuse.
const spareBatches = 4

// add appends a change. The returned address is valid until the change's batch is reused.
func (b *batches) add(p pending) *pending {
	n := len(b.queue) - 1
	if n < 0 || len(b.queue[n]) == maxBatch {
		b.queue = append(b.queue, b.empty())
		n++
	}
	b.queue[n] = append(b.queue[n], p)
	return &b.queue[n][len(b.queue[n])-1]
}

func (b *batches) empty() []pending {
	n := len(b.spare) - 1
	if n < 0 {
		return make([]pending, 0, maxBatch)
	}
	batch := b.spare[n]
	b.spare = b.spare[:n]
	return batch
}

func (b *batches) take() []pending {
	if len(b.queue) == 0 {
		return nil
	}
	batch := b.queue[0]
	n := copy(b.queue, b.queue[1:])
	b.queue[n] = nil
	b.queue = b.queue[:n]
	return batch
}

// reuse takes back a batch that take returned. The caller must hold no reference into it.
func (b *batches) reuse(batch []pending) {
	if len(b.spare) < spareBatches {
		clear(batch)
		b.spare = append(b.spare, batch[:0])
	}
}

func (b *batches) first() *pending {
	if len(b.queue) == 0 {
		return nil
	}
	return &b.queue[0][0]
}

func (b *batches) all() iter.Seq[*pending] {
	return func(yield func(*pending) bool) {
		for _, batch := range b.queue {
			for i := range batch {
				if !yield(&batch[i]) {
					return
				}
			}
		}
	}
}
