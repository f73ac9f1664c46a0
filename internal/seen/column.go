package seen

import (
	"fmt"
	"math/big"
	"strings"
)

// MostIndexed is how many bytes all columns of an InnoDB index may take.
const MostIndexed = 3072

// Scalar returns a column type for values that are neither lists nor objects, with some reserve, and how many bytes
// that type may take in an index; "" if the values have different kinds. A property named email gets the longest
// email's size.
func (s *Values) Scalar(name string) (typ string, bytes int64) {
	switch {
	case s.Lists+s.Objects > 0:
		return "", 0
	case s.UUIDs > 0 && s.Texts == s.Sixteens && s.Bytes+s.Numbers()+s.Booleans == 0:
		return "BINARY(16)", 16
	case s.Texts > 0 && s.Bytes == 0:
		return s.varchar(name)
	case s.Bytes > 0 && s.Texts+s.Numbers()+s.Booleans == 0:
		n := int64(64)
		for n < 2*int64(max(s.Longest, 16)) {
			n *= 2
		}
		return fmt.Sprintf("VARBINARY(%d)", n), n
	case s.Booleans > 0 && s.Texts+s.UUIDs+s.Bytes+s.Numbers() == 0:
		return "BOOLEAN", 1
	case s.Numbers() > 0 && s.Texts+s.UUIDs+s.Bytes+s.Booleans == 0:
		return s.numeric(), 30
	}
	return "", 0
}

// exact is the largest integer up to which a DOUBLE holds all integers exactly.
var exact = big.NewInt(1 << 53)

// varchar returns a type for texts up to twice as long as the longest sampled text.
func (s *Values) varchar(name string) (string, int64) {
	n := 2 * s.Longest
	if strings.Contains(strings.ToLower(name), "email") && s.Longest <= 254 {
		return "VARCHAR(254)", 4 * 254 // the longest possible email address (RFC 3696 with its errata)
	}
	for _, size := range []int{64, 128, 255, 500} {
		if n <= size {
			return fmt.Sprintf("VARCHAR(%d)", size), int64(4 * size)
		}
	}
	return sized("TEXT", 4*s.Longest), MostIndexed + 1 // a character may take 4 bytes
}

func sized(typ string, bytes int) string {
	switch {
	case bytes < 1<<16:
		return typ
	case bytes < 1<<24:
		return "MEDIUM" + typ
	}
	return "LONG" + typ
}

// numeric returns a type that keeps every digit of the integers and decimals, with some reserve; "" if there is none.
func (s *Values) numeric() string {
	switch {
	case s.Floats > 0 && s.Integers > 0 && (s.Greatest.Cmp(exact) > 0 || s.Least.CmpAbs(exact) > 0):
		return ""
	case s.Floats > 0:
		return "DOUBLE"
	case s.Decimals > 0:
		scale := s.ScaleWithRoom()
		digits := s.Digits
		if s.Greatest != nil {
			digits = max(digits, len(s.Greatest.Text(10)), len(new(big.Int).Abs(s.Least).Text(10)))
		}
		return fmt.Sprintf("DECIMAL(%d,%d)", min(max(digits+10, 20)+scale, 65), scale)
	case s.Least.IsInt64() && s.Greatest.IsInt64():
		return "BIGINT"
	case s.Least.Sign() >= 0 && s.Greatest.IsUint64():
		return "BIGINT UNSIGNED"
	}
	return "DECIMAL(65,0)"
}

// ScaleWithRoom returns how many fractional digits a column has for the decimals seen. Numbers in a body have no fixed
// scale: a computed one (0.30000000000000004) may follow prices with two digits.
func (s *Values) ScaleWithRoom() int { return min(max(s.Scale+2, 20), 30) }

// Row returns the type of a column in a row: JSON for lists and objects, TEXT or BLOB for long scalars, or else
// Scalar's type; "" if Scalar has none.
func (s *Values) Row(name string) string {
	if s.Lists+s.Objects > 0 {
		return "JSON"
	}
	typ, bytes := s.Scalar(name)
	switch { // all columns of a row share 64 KiB, of which a TEXT or BLOB takes little
	case bytes > 4*255 && s.Bytes > 0:
		return sized("BLOB", s.Longest)
	case bytes > 4*255:
		return sized("TEXT", 4*s.Longest)
	}
	return typ
}
