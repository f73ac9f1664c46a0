// Package seen sums up sampled values: their kinds and sizes. It finds a MySQL column type that would hold them and
// similar values.
package seen

import (
	"math/big"
	"strings"
	"unicode/utf8"

	"replicator"
	"replicator/internal/uuid"
)

// Values sums up the values seen of a property or a field. It ignores nulls.
type Values struct {
	// The number of values of each kind. UUIDs are UUIDs in text form, and byte values of length 16.
	Texts, Bytes, UUIDs, Integers, Decimals, Floats, Booleans, Lists, Objects int

	// Sixteens counts texts of 16 bytes. In formats that don't distinguish text from bytes, these may be binary UUIDs.
	Sixteens int

	Longest  int // the longest value: in characters for texts, in bytes for bytes
	Least    *big.Int
	Greatest *big.Int
	Digits   int // the largest number of digits of a decimal before the point
	Scale    int // the largest number of digits of a decimal after the point

	// Elements summarizes the elements of lists and nested lists; nil if there were no elements.
	Elements *Values
}

const maxElements = 100

// Add adds a value of a row or of a decoded body. See replicator.Entry for its types.
func (s *Values) Add(v any) {
	switch v := v.(type) {
	case string:
		s.Longest = max(s.Longest, utf8.RuneCountInString(v))
		if _, ok := uuid.Parse(v); ok {
			s.UUIDs++
			return
		}
		s.Texts++
		if len(v) == 16 {
			s.Sixteens++
		}
	case []byte:
		s.Longest = max(s.Longest, len(v))
		if len(v) == 16 {
			s.UUIDs++
		} else {
			s.Bytes++
		}
	case bool:
		s.Booleans++
	case int64:
		s.integer(big.NewInt(v))
	case uint64:
		s.integer(new(big.Int).SetUint64(v))
	case replicator.Number:
		s.number(string(v))
	case float64:
		s.Floats++
	case []any:
		s.Lists++
		if s.Elements == nil {
			s.Elements = &Values{}
		}
		s.Elements.addAll(v)
	case replicator.Object:
		s.Objects++
	}
}

func (s *Values) addAll(list []any) {
	for _, e := range list[:min(len(list), maxElements)] {
		if inner, ok := e.([]any); ok {
			s.addAll(inner)
		} else {
			s.Add(e)
		}
	}
}

func (s *Values) integer(n *big.Int) {
	s.Integers++
	if s.Least == nil || n.Cmp(s.Least) < 0 {
		s.Least = n
	}
	if s.Greatest == nil || n.Cmp(s.Greatest) > 0 {
		s.Greatest = n
	}
}

func (s *Values) number(text string) {
	if n, ok := new(big.Int).SetString(text, 10); ok {
		s.integer(n)
		return
	}
	if strings.ContainsAny(text, "eE") {
		s.Floats++
		return
	}
	s.Decimals++
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(text, "-"), ".")
	s.Digits, s.Scale = max(s.Digits, len(whole)), max(s.Scale, len(fraction))
}

// Numbers returns how many values are numbers.
func (s *Values) Numbers() int { return s.Integers + s.Decimals + s.Floats }

// Scalars returns how many values are neither lists nor objects.
func (s *Values) Scalars() int { return s.Texts + s.Bytes + s.UUIDs + s.Booleans + s.Numbers() }

// Nothing reports whether there were no values.
func (s *Values) Nothing() bool { return s.Scalars()+s.Lists+s.Objects == 0 }
