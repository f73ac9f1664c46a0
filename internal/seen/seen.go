// Package seen sums up values that were sampled: which kinds they are of and how large. It says which column of MySQL
// would hold them and others like them.
package seen

import (
	"math/big"
	"strings"
	"unicode/utf8"

	"replicator"
	"replicator/internal/uuid"
)

// Values is what was seen of a property's values, or of a field's. Nulls are no values.
type Values struct {
	// How many values there were of each kind; UUIDs are texts or 16 bytes.
	Texts, Bytes, UUIDs, Integers, Decimals, Floats, Booleans, Lists, Objects int

	// Sixteens are texts of 16 bytes: what 16 bytes look like in formats that don't tell text from bytes.
	Sixteens int

	Longest  int // characters of texts, and bytes of bytes
	Least    *big.Int
	Greatest *big.Int
	Digits   int // of decimals: before the point
	Scale    int // of decimals: after the point

	// Elements are those of lists, and of lists in them; nil if there were none.
	Elements *Values
}

// maxElements is how many elements of a list are looked at.
const maxElements = 100

// Add adds a value of the replicator's model (see replicator.Entry).
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

// addAll adds the elements of a list, and of lists in it.
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

// Numbers is how many values are numbers.
func (s *Values) Numbers() int { return s.Integers + s.Decimals + s.Floats }

// Scalars is how many values are neither lists nor objects.
func (s *Values) Scalars() int { return s.Texts + s.Bytes + s.UUIDs + s.Booleans + s.Numbers() }

// Nothing reports whether there was no value.
func (s *Values) Nothing() bool { return s.Scalars()+s.Lists+s.Objects == 0 }
