package canal

import "math/bits"

// scale maps an offset in an event's data to its address in the file. Where the data was compressed the file has fewer bytes
// than the data: num of them for den.
type scale struct {
	base     int64
	offset   int64 // of the data in what was compressed
	num, den int64
}

// at is the address of the byte at off.
func (s scale) at(off int) int64 {
	if s.num == s.den {
		return s.base + s.offset + int64(off)
	}
	hi, lo := bits.Mul64(uint64(s.offset+int64(off)), uint64(s.num))
	if hi >= uint64(s.den) { // longer than it said: damaged
		return s.base + s.num
	}
	n, _ := bits.Div64(hi, lo, uint64(s.den))
	return s.base + int64(min(n, uint64(s.num)))
}
