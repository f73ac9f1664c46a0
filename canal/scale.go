package canal

import "math/bits"

// scale gives each row of an event an address: a byte offset in the binlog file, which orders the rows (orderOf). A row
// that is not compressed has the address of its image. Compressed rows get addresses within the compressed data, in
// proportion. They use only its first half at first. If two rows fall on one address, the second row gets the next one,
// so the last rows may need the second half.
type scale struct {
	base     int64  // the file offset at which the event's body, or the compressed data, begins
	offset   int64  // where this event begins within the decompressed data
	packed   int64  // the size of the compressed data
	unpacked int64  // the size of the decompressed data
	taken    *int64 // the highest address that a row got so far; nil: the event is not compressed
}

// compressed returns the scale for compressed data. In the file, the data begins at the byte offset `base` and has the
// length `bytes`. Decompressed, it has the length `data`.
func compressed(base, bytes, data int64) scale {
	taken := base - 1
	return scale{base: base, packed: bytes, unpacked: max(data, 1), taken: &taken}
}

// row returns the address (a byte offset in the binlog file) of the row image at offset `off` of the event's data. It
// must be called once for each row, in order, because each row gets a higher address. `own` is false if no higher
// address is left; all further rows then get the event's last address.
func (s scale) row(off int) (address int64, own bool) {
	if s.taken == nil {
		return s.base + s.offset + int64(off), true
	}
	last := s.base + max(s.packed-1, 0)
	address = max(s.base+s.share(int64(off)), *s.taken+1)
	if address >= last {
		return last, false
	}
	*s.taken = address
	return address, true
}

// share converts the offset `off` in the event's decompressed data to an offset in the first half of the compressed
// data.
func (s scale) share(off int64) int64 {
	hi, lo := bits.Mul64(uint64(s.offset+off), uint64(s.packed/2))
	if hi >= uint64(s.unpacked) { // the data is longer than declared, so it is damaged
		return s.packed / 2
	}
	n, _ := bits.Div64(hi, lo, uint64(s.unpacked))
	return int64(min(n, uint64(s.packed/2)))
}
