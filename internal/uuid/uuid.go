// Package uuid parses and formats UUIDs.
package uuid

import (
	"crypto/rand"
	"encoding/hex"
)

// Parse reads 32 hexadecimal digits in either case, with all dashes of a UUID or with none.
func Parse(s string) ([]byte, bool) {
	if len(s) == 36 && s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-' {
		s = s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:]
	}
	if len(s) != 32 {
		return nil, false
	}
	b, err := hex.DecodeString(s)
	return b, err == nil
}

// Text formats 16 bytes as 8-4-4-4-12 digits.
func Text(b []byte) string { return string(Append(make([]byte, 0, 36), b)) }

// Append appends 16 bytes in the form that Text returns.
func Append(dst, b []byte) []byte {
	for i, n := range [...]int{4, 2, 2, 2, 6} {
		if i > 0 {
			dst = append(dst, '-')
		}
		dst, b = hex.AppendEncode(dst, b[:n]), b[n:]
	}
	return dst
}

// Random returns a new UUID as text (RFC 9562, version 4).
func Random() string {
	var b [16]byte
	rand.Read(b[:]) // crypto/rand never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return Text(b[:])
}
