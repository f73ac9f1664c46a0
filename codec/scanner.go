package codec

import (
	"unsafe"

	"replicator/internal/jsonscan"
)

// scanner makes values of JSON's tokens.
type scanner struct {
	jsonscan.Scanner
	left   int  // how many more values may be made
	shares bool // texts may be parts of Data
}

// kept is a part of Data as a text that stays.
func (s *scanner) kept(raw []byte) string {
	if s.shares {
		return asText(raw)
	}
	return string(raw)
}

// asText is bytes as a text, without a copy of them. Nobody may write to them any more.
func asText(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
