package redis

import (
	"slices"
	"unsafe"
)

// A batch needs a few small objects for each entity: records, claims, changes, arguments. They live as long as the
// batch, and are taken from memory that the next batch reuses. Of 17 allocations and 2,775 bytes a cell (a hash and an
// index, new) 50 bytes are left, and less than half of the CPU time (BenchmarkDecide: 5.6 µs became 2.6).

// slab hands out slices. A slice that outgrows its place moves, as slices do. The slab's own chunks don't move.
// Doubling a single allocation until a batch fits into it made a process that wrote 100,000 cells (go run ./bench
// peers, w2) allocate 22 MiB; now it is 9.
type slab[T any] struct {
	chunks [][]T
	at     int // the chunk in use; earlier ones are full
	used   int // of that
}

// Sizes, in bytes, of the first chunk and of the largest ones: a batch may have one entity, or hundreds.
const firstChunk, largestChunk = 1 << 10, 256 << 10

// take returns an empty slice with room for n.
func (s *slab[T]) take(n int) []T {
	for s.at < len(s.chunks) && len(s.chunks[s.at])-s.used < n {
		if s.used == 0 { // otherwise the chunks of ever larger batches would add up
			s.chunks[s.at] = make([]T, n)
			break
		}
		s.at, s.used = s.at+1, 0
	}
	if s.at == len(s.chunks) {
		s.chunks = append(s.chunks, make([]T, max(n, s.next())))
	}
	part := s.chunks[s.at][s.used : s.used : s.used+n]
	s.used += n
	return part
}

// next is the size of the next chunk.
func (s *slab[T]) next() int {
	size := int(unsafe.Sizeof(*new(T)))
	return max(min(firstChunk<<min(s.at, 16), largestChunk)/size, 1)
}

// grow returns list with room for n more.
func (s *slab[T]) grow(list []T, n uint64) []T {
	switch {
	case n == 0 || uint64(cap(list)-len(list)) >= n:
		return list
	case list == nil:
		return s.take(int(n))
	}
	return slices.Grow(list, int(n))
}

// new returns a zero T.
func (s *slab[T]) new() *T { return &s.take(1)[:1][0] }

// reset takes back everything that was handed out.
func (s *slab[T]) reset() {
	for i := range min(s.at, len(s.chunks)) {
		clear(s.chunks[i])
	}
	if s.at < len(s.chunks) {
		clear(s.chunks[s.at][:s.used])
	}
	s.at, s.used = 0, 0
}

// arena is the memory of a batch. The zero value is usable.
type arena struct {
	records slab[record]
	cells   slab[cellRecord]
	views   slab[viewRecord]
	claims  slab[claim]
	rows    slab[row]
	fields  slab[field]
	changes slab[change]
	args    slab[string]
	values  slab[any]
	bytes   slab[byte]

	digester digester
}

func (a *arena) reset() {
	a.records.reset()
	a.cells.reset()
	a.views.reset()
	a.claims.reset()
	a.rows.reset()
	a.fields.reset()
	a.changes.reset()
	a.args.reset()
	a.values.reset()
	a.bytes.at, a.bytes.used = 0, 0 // nobody asks for zeros
}

// textOf converts bytes to a text without copying. They must not be written to any more.
func textOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// keep makes a text of b, which begins where take's last slice of bytes did, and gives back the unused rest.
func (a *arena) keep(b []byte) string {
	if a.bytes.given(b) { // otherwise it was outgrown and has moved
		a.bytes.used -= cap(b) - len(b)
	}
	return textOf(b)
}

// given reports whether list is what take handed out last.
func (s *slab[T]) given(list []T) bool {
	return len(list) > 0 && s.used >= cap(list) && &s.chunks[s.at][s.used-cap(list)] == &list[0]
}
