// Package wire reads and writes the elements of stored records: unsigned numbers as varints, and texts after their
// length. Readers accept damaged input: they never panic, and never allocate memory for a length that exceeds the
// input.
package wire

import "encoding/binary"

// AppendText appends the length of s, and then s.
func AppendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// Reader reads appended elements from the front. Once an element is missing or malformed, the reader is bad, and
// returns zeros and empty texts from then on.
type Reader struct {
	rest string
	bad  bool
}

// NewReader returns a reader of the elements in s.
func NewReader(s string) Reader { return Reader{rest: s} }

// Bad reports whether an element was missing or malformed.
func (r *Reader) Bad() bool { return r.bad }

// Rest returns the text not yet read; "" if the reader is bad.
func (r *Reader) Rest() string { return r.rest }

// More reports whether anything is left to read.
func (r *Reader) More() bool { return r.rest != "" }

// Fail makes the reader bad. The values that it has returned are meaningless then.
func (r *Reader) Fail() { r.rest, r.bad = "", true }

// Uvarint reads a number in its shortest form, the only one that is ever written.
func (r *Reader) Uvarint() uint64 {
	var v uint64
	for i := 0; i < len(r.rest) && i < binary.MaxVarintLen64; i++ {
		c := r.rest[i]
		if i == binary.MaxVarintLen64-1 && c > 1 || i > 0 && c == 0 {
			break // the number is above 64 bits, or is not in its shortest form
		}
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			r.rest = r.rest[i+1:]
			return v
		}
	}
	r.Fail()
	return 0
}

// Count reads the number of elements that follow. Each takes at least a byte, so a number above the bytes left is bad.
func (r *Reader) Count() uint64 {
	n := r.Uvarint()
	if n > uint64(len(r.rest)) {
		r.Fail()
		return 0
	}
	return n
}

// Bytes reads n bytes; "" if fewer bytes are left.
func (r *Reader) Bytes(n uint64) string {
	if n > uint64(len(r.rest)) {
		r.Fail()
		return ""
	}
	s := r.rest[:n]
	r.rest = r.rest[n:]
	return s
}

func (r *Reader) Byte() byte {
	if s := r.Bytes(1); s != "" {
		return s[0]
	}
	return 0
}

// Uint64 reads 8 bytes, the most significant first.
func (r *Reader) Uint64() uint64 {
	var v uint64
	for i, s := 0, r.Bytes(8); i < len(s); i++ {
		v = v<<8 | uint64(s[i])
	}
	return v
}

// Text reads a string that AppendText appended.
func (r *Reader) Text() string { return r.Bytes(r.Uvarint()) }
