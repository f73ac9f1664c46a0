package canal

import "math/bits"

// scale maps the rows of an event to addresses in the binlog file. In compressed data, num bytes of the file stand for
// den bytes of data, so a row may have less than a byte; it then gets the next free address. The data is mapped to the
// first half of the event's bytes, so that the second half is free for rows that lie too close together.
type scale struct {
	base     int64
	offset   int64 // where this event begins within the decompressed data
	num, den int64
	taken    *int64 // the highest address given to a row so far; nil if the data is not compressed
}

// compressed returns the scale for compressed data. bytes is its length in the file, where it begins at the address
// base. data is its length after decompression.
func compressed(base, bytes, data int64) scale {
	taken := base - 1
	return scale{base: base, num: bytes, den: max(data, 1), taken: &taken}
}

// row returns the address of the row image at off. It must be called once for each row, in order, because each row gets
// a higher address. own is false if no higher address is left, so that the row shares the last one.
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

// share returns the address, relative to base, for the byte at offset off of this event's decompressed data.
func (s scale) share(off int64) int64 {
	hi, lo := bits.Mul64(uint64(s.offset+off), uint64(s.num/2))
	if hi >= uint64(s.den) { // the data is longer than declared, so it is damaged
		return s.num / 2
	}
	n, _ := bits.Div64(hi, lo, uint64(s.den))
	return int64(min(n, uint64(s.num/2)))
}
