package mysql

import (
	"math"
	"strconv"
	"strings"

	"replicator"
)

// digits is a decimal number: its sign, and the digits before and after the point, without leading and trailing zeros.
type digits struct {
	negative    bool
	whole, part string
}

// maxDigits limits the exponents of numbers. It is larger than the number of digits of any column (DECIMAL has 65).
const maxDigits = 400

// parseDigits parses a decimal number in JSON's form. It returns false for other texts, and for exponents beyond
// maxDigits.
func parseDigits(s string) (d digits, ok bool) {
	if d.negative = strings.HasPrefix(s, "-"); d.negative {
		s = s[1:]
	}
	mantissa, exponent := s, 0
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		e, err := strconv.Atoi(s[i+1:])
		if err != nil || e > maxDigits || e < -maxDigits {
			return d, false
		}
		mantissa, exponent = s[:i], e
	}
	d.whole, d.part, _ = strings.Cut(mantissa, ".")
	if d.whole == "" || strings.HasSuffix(mantissa, ".") || strings.Trim(d.whole+d.part, "0123456789") != "" {
		return d, false
	}
	for ; exponent > 0; exponent-- {
		if d.part == "" {
			d.part = "0"
		}
		d.whole, d.part = d.whole+d.part[:1], d.part[1:]
	}
	for ; exponent < 0; exponent++ {
		if d.whole == "" {
			d.whole = "0"
		}
		d.part, d.whole = d.whole[len(d.whole)-1:]+d.part, d.whole[:len(d.whole)-1]
	}
	d.whole, d.part = strings.TrimLeft(d.whole, "0"), strings.TrimRight(d.part, "0")
	if d.whole == "" && d.part == "" {
		d.negative = false
	}
	return d, true
}

func (d digits) String() string {
	s := d.whole
	if s == "" {
		s = "0"
	}
	if d.part != "" {
		s += "." + d.part
	}
	if d.negative {
		s = "-" + s
	}
	return s
}

// exact returns a number's digits, or false if v is not a number. A text counts only in the usual form of a number, so
// that nothing is lost ("007" is not a number).
func exact(v any) (digits, bool) {
	switch v := v.(type) {
	case int64, uint64:
		return parseDigits(replicator.FormatValue(v))
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return digits{}, false
		}
		return parseDigits(strconv.FormatFloat(v, 'f', -1, 64))
	case replicator.Number:
		return parseDigits(string(v))
	case string:
		d, ok := parseDigits(v)
		return d, ok && d.String() == v
	case []byte:
		d, ok := parseDigits(string(v))
		return d, ok && d.String() == string(v)
	}
	return digits{}, false
}

var integerBits = map[string]int{"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}

// integer converts a value to an integer type. It accepts numbers in range without a fraction, and booleans as 0 and 1.
func (c *column) integer(v any) (any, error) {
	if b, ok := v.(bool); ok {
		if b {
			return int64(1), nil
		}
		return int64(0), nil
	}
	d, ok := exact(v)
	if !ok {
		return nil, c.wrong(v)
	}
	if d.part != "" {
		return nil, c.misfit("a number with a fraction")
	}
	bits := integerBits[c.typ]
	if c.unsigned {
		n, err := strconv.ParseUint(d.String(), 10, 64)
		if err != nil || bits < 64 && n>>bits != 0 {
			return nil, c.misfit("the number's size or sign")
		}
		if n <= math.MaxInt64 {
			return int64(n), nil
		}
		return n, nil
	}
	n, err := strconv.ParseInt(d.String(), 10, 64)
	if limit := int64(1) << (bits - 1); err != nil || bits < 64 && (n < -limit || n >= limit) {
		return nil, c.misfit("the number's size")
	}
	return n, nil
}

// decimal converts a number to DECIMAL. All of its digits must fit.
func (c *column) decimal(v any) (any, error) {
	d, ok := exact(v)
	switch {
	case !ok:
		return nil, c.wrong(v)
	case len(d.whole) > c.precision-c.scale:
		return nil, c.misfit("the number's size")
	case len(d.part) > c.scale:
		return nil, c.misfit("the number of decimals")
	case d.negative && c.unsigned:
		return nil, c.misfit("a negative number")
	}
	return d.String(), nil
}

// float converts a number to FLOAT or DOUBLE. The number fits if the shortest form of the stored number has the same
// digits: 16777217 doesn't fit a FLOAT. For a FLOAT, the result is a DOUBLE that equals the stored FLOAT exactly,
// because the server compares FLOATs as DOUBLEs. The server also refuses the largest FLOAT in its shortest form,
// 3.4028235e38.
func (c *column) float(v any) (any, error) {
	d, ok := exact(v)
	if !ok {
		return nil, c.wrong(v)
	}
	bits := c.floatBits()
	f, err := strconv.ParseFloat(d.String(), bits)
	if err != nil {
		return nil, c.misfit("the number's size")
	}
	if back, ok := parseDigits(strconv.FormatFloat(f, 'f', -1, bits)); !ok || back != d {
		return nil, c.misfit("the number of digits")
	}
	if d.negative && c.unsigned {
		return nil, c.misfit("a negative number")
	}
	return f, nil
}

func (c *column) floatBits() int {
	if c.typ == "float" && c.precision <= 24 {
		return 32
	}
	return 64
}

// shortest writes a number with the fewest digits that identify the column's value.
func (c *column) shortest(f float64) string { return strconv.FormatFloat(f, 'g', -1, c.floatBits()) }

// selected returns the column's expression for a select list. Adding 0e0 makes the server show all digits of a FLOAT,
// not six.
func (c *column) selected() string {
	if c.typ == "float" {
		return "(" + c.quoted + " + 0e0)"
	}
	return c.quoted
}

func selectList(columns []*column) string {
	list := make([]string, len(columns))
	for i, c := range columns {
		list[i] = c.selected()
	}
	return strings.Join(list, ", ")
}

func (c *column) bit(v any) (any, error) {
	switch v := v.(type) {
	case bool:
		if v {
			return int64(1), nil
		}
		return int64(0), nil
	case []byte:
		if len(v) > 8 {
			return nil, c.misfit("the number of bytes")
		}
		var n uint64
		for _, b := range v {
			n = n<<8 | uint64(b)
		}
		return c.bitNumber(n)
	case string:
		return nil, c.wrong(v)
	}
	d, ok := exact(v)
	if !ok {
		return nil, c.wrong(v)
	}
	n, err := strconv.ParseUint(d.String(), 10, 64)
	if err != nil {
		return nil, c.misfit("the number's size, sign or fraction")
	}
	return c.bitNumber(n)
}

func (c *column) bitNumber(n uint64) (any, error) {
	if c.precision < 64 && n>>c.precision != 0 {
		return nil, c.misfit("the number's size")
	}
	if n <= math.MaxInt64 {
		return int64(n), nil
	}
	return n, nil
}

func (c *column) year(v any) (any, error) {
	d, ok := exact(v)
	if !ok {
		return nil, c.wrong(v)
	}
	n, err := strconv.ParseInt(d.String(), 10, 64)
	if err != nil || n != 0 && (n < 1901 || n > 2155) {
		return nil, c.misfit("the number's size")
	}
	return n, nil
}
