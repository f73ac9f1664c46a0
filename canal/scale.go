package canal

import "math/bits"

// scale gives the rows of an event their addresses in the file. If the data was compressed, num bytes in the file stand
// for den bytes of data, and a row's share of the file may be less than a byte. Each row then takes at least the next
// free address. The first half of the event's bytes represents the data. The second half is reserve for rows that crowd
// together.
type scale struct {
	base     int64
	offset   int64 // of the data within what was compressed
	num, den int64
	taken    *int64 // of compressed data: the highest address of a row
}

// compressed is the scale for data of a size that is stored compressed, in some bytes at an address.
func compressed(base, bytes, data int64) scale {
	taken := base - 1
	return scale{base: base, num: bytes, den: max(data, 1), taken: &taken}
}

// row is the address of the row image at off. It must be called once for each, in order. The address is above that of
// every earlier row. own is false if the event has more rows than its bytes can number, which takes a row in every
// other byte of the compressed data: the remaining rows share the last address.
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

// share is the address, in the first half of the compressed bytes, of the data's byte at off.
func (s scale) share(off int64) int64 {
	hi, lo := bits.Mul64(uint64(s.offset+off), uint64(s.num/2))
	if hi >= uint64(s.den) { // longer than it said: damaged
		return s.num / 2
	}
	n, _ := bits.Div64(hi, lo, uint64(s.den))
	return int64(min(n, uint64(s.num/2)))
}
