package redis

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"replicator"
)

// text converts a field's value to its text in a view of the given kind, such as kindHash. The text is in the arena's
// memory, except a string in a hash, which stays as it is.
func (a *arena) text(kind byte, v any) (string, error) {
	if kind == kindJSON {
		text, err := appendJSON(a.bytes.take(64), v)
		return a.keep(text), err
	}
	if s, is := v.(string); is {
		return s, nil
	}
	text, err := appendHashText(a.bytes.take(64), v)
	return a.keep(text), err
}

// appendHashText appends a field's text in a hash: numbers in full, text unchanged, binary values as hexadecimal digits
// (as templates show them), lists and objects as JSON.
func appendHashText(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case []any, replicator.Object:
		return appendJSON(dst, v)
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return dst, errNotFinite
		}
	case nil, bool, int64, uint64, string, []byte, replicator.Number, replicator.RawJSON:
	default:
		return dst, fmt.Errorf("a hash can't hold a %T", v)
	}
	return replicator.AppendValue(dst, v), nil
}

var errNotFinite = errors.New("the number is not finite")

// appendJSON appends a value's JSON. Redis stores the JSON as a string, so it may be nested to any depth.
func appendJSON(dst []byte, v any) ([]byte, error) {
	return replicator.AppendExactJSON(dst, v, math.MaxInt)
}

// maxPlaces bounds the exponent of an amount, and so the number of its digits.
const maxPlaces = 400

// decimalText returns a number's shortest decimal digits without an exponent; "0" for zero. Sums of such texts are
// exact. A float64 stands for the shortest decimal that reads back as the same float64.
func decimalText(v any) (string, error) {
	var s string
	switch v := v.(type) {
	case int64:
		return strconv.FormatInt(v, 10), nil
	case uint64:
		return strconv.FormatUint(v, 10), nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return "", errNotFinite
		}
		s = strconv.FormatFloat(v, 'f', -1, 64)
	case replicator.Number:
		s = string(v)
	default:
		return "", errors.New("the amount is not a number")
	}
	return canonical(s)
}

// canonical converts a decimal number, with or without an exponent, to its shortest form without one.
func canonical(s string) (string, error) {
	s, negative := strings.CutPrefix(strings.TrimPrefix(s, "+"), "-")
	exponent := 0
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		var err error
		if exponent, err = strconv.Atoi(s[i+1:]); err != nil || exponent < -maxPlaces || exponent > maxPlaces {
			return "", fmt.Errorf("the number's exponent is beyond ±%d", maxPlaces)
		}
		s = s[:i]
	}
	whole, fraction, _ := strings.Cut(s, ".")
	digits := whole + fraction
	if digits == "" || len(digits) > 2*maxPlaces || strings.Trim(digits, "0123456789") != "" {
		return "", fmt.Errorf("the amount is not a decimal number of at most %d digits", 2*maxPlaces)
	}
	point := len(whole) + exponent
	if point < 0 {
		digits, point = strings.Repeat("0", -point)+digits, 0
	}
	if point > len(digits) {
		digits += strings.Repeat("0", point-len(digits))
	}
	whole, fraction = strings.TrimLeft(digits[:point], "0"), strings.TrimRight(digits[point:], "0")
	if whole == "" {
		whole = "0"
	}
	if fraction != "" {
		whole += "." + fraction
	}
	if negative && whole != "0" {
		whole = "-" + whole
	}
	return whole, nil
}

// shortScore is a length up to which a decimal without an exponent neither overflows nor underflows a double.
const shortScore = 300

// isScore returns an error if an amount can't be a score: as a double, it is infinite or becomes 0.
func isScore(amount string) error {
	if len(amount) <= shortScore {
		return nil
	}
	switch score, err := strconv.ParseFloat(amount, 64); {
	case err != nil:
		return errors.New("the amount is beyond the range of a score, which is a double (±1.8e308): correct the row")
	case score == 0:
		return errors.New("the amount is too near to 0 for a score, which is a double (±5e-324): correct the row")
	}
	return nil
}

func negated(s string) string {
	if s == "0" {
		return s
	}
	if rest, ok := strings.CutPrefix(s, "-"); ok {
		return rest
	}
	return "-" + s
}
