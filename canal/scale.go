package canal

import "math/bits"

// scale gives the rows of an event their addresses in the file. Where the data was compressed the file has fewer bytes
// than the data, num of them for den, and a row may be longer than the file's share of it is: each row then takes the
// next free address at least. The first half of the event's bytes stands for the data, the second is room for rows that
// crowd together.
type scale struct {
	base     int64
	offset   int64 // of the data in what was compressed
	num, den int64
	taken    *int64 // of compressed data: the highest address that a row has
}

// compressed is the scale of data of so many bytes that stand compressed at an address.
func compressed(base, bytes, data int64) scale {
	taken := base - 1
	return scale{base: base, num: bytes, den: max(data, 1), taken: &taken}
}

// row is the address of the row image at off, to be asked once for each, in their order. It is above that of every row
// before. own is false where the event has more rows than its bytes can number, which takes a row in every other byte
// of what was compressed: the rest of them share the last address.
func (s scale) row(off int) (address int64, own bool) {
	if s.taken == nil {
		return s.base + s.offset + int64(off), true
	}
	last := s.base + max(s.num-1, 0)
	address = max(s.base+s.share(int64(off)), *s.taken+1)
	if address >= last {
		return last, false
	}
	*s.taken = address
	return address, true
}

// share is where in the first half of the compressed bytes the data's byte at off stands.
func (s scale) share(off int64) int64 {
	hi, lo := bits.Mul64(uint64(s.offset+off), uint64(s.num/2))
	if hi >= uint64(s.den) { // longer than it said: damaged
		return s.num / 2
	}
	n, _ := bits.Div64(hi, lo, uint64(s.den))
	return int64(min(n, uint64(s.num/2)))
}
