package codec

import (
	"unsafe"

	"replicator/internal/jsonscan"
)

type scanner struct {
	jsonscan.Scanner
	left   int  // how many more values may be decoded: see MaxValues
	shares bool // decoded strings may share Data's memory, so Data must not change afterwards
}

// kept returns raw, a part of Data, as a string. It copies raw unless strings may share Data's memory.
func (s *scanner) kept(raw []byte) string {
	if s.shares {
		return asText(raw)
	}
	return string(raw)
}

// asText returns bytes as a string without copying them. Nothing may write to the bytes afterwards.
func asText(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
