package codec

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"
	"unicode/utf8"

	"replicator"
)

// decodeCBOR reads CBOR (RFC 8949). Big integers (tags 2 and 3) and decimal fractions (tag 4) stay exact. Tags for
// references are refused, and all other tags (a date, a UUID) are ignored.
func decodeCBOR(body []byte, w *wanted) (any, error) { return decodeAll(body, w, cborValue) }

// indefinite stands for the length of a CBOR value that ends with a break code instead of having a length.
const indefinite = math.MaxUint64

const cborBreak = 0xff

func cborValue(r *reader, depth int) (any, error) {
	head, err := r.take(1)
	if err != nil {
		return nil, err
	}
	major, info := head[0]>>5, head[0]&31
	if major == 7 {
		return r.simple(info)
	}
	n, err := r.argument(major, info)
	if err != nil {
		return nil, err
	}
	switch major {
	case 0:
		return unsigned(n), nil
	case 1:
		if n <= math.MaxInt64 {
			return -1 - int64(n), nil
		}
		v := new(big.Int).SetUint64(n)
		return bigInteger(v.Not(v)), nil
	case 2:
		if n == indefinite {
			return r.chunks(major)
		}
		return r.bytes(n)
	case 3:
		return r.cborText(n)
	case 4:
		return r.list(n, depth)
	case 5:
		return r.dict(n, depth)
	}
	return r.tagged(n, depth)
}

// argument reads the number in a value's head, which is the value's first byte and up to eight more. info is the low
// bits of the first byte: the number itself, or how many bytes hold it.
func (r *reader) argument(major, info byte) (uint64, error) {
	switch {
	case info < 24:
		return uint64(info), nil
	case info <= 27:
		n, err := r.uint(1 << (info - 24))
		if err == nil && n == indefinite && major >= 2 {
			err = errShort // no body is that long, and the constant `indefinite` has another meaning
		}
		return n, err
	case info == 31 && major >= 2 && major <= 5:
		return indefinite, nil
	}
	return 0, errors.New("a value has an invalid head")
}

func (r *reader) simple(info byte) (any, error) {
	switch info {
	case 20, 21:
		return info == 21, nil
	case 22, 23:
		return nil, nil
	case 25:
		n, err := r.uint(2)
		if err != nil {
			return nil, err
		}
		return finite(halfFloat(uint16(n))), nil
	case 26:
		return r.float(4)
	case 27:
		return r.float(8)
	}
	return nil, fmt.Errorf("unknown simple value %d", info)
}

func halfFloat(bits uint16) float64 {
	exponent, fraction := int(bits>>10&31), float64(bits&1023)
	var f float64
	switch exponent {
	case 0:
		f = math.Ldexp(fraction, -24)
	case 31:
		f = math.Inf(1) // stands for NaN, too, because `finite` refuses both
	default:
		f = math.Ldexp(fraction+1024, exponent-25)
	}
	if bits&0x8000 != 0 {
		return -f
	}
	return f
}

func (r *reader) cborText(n uint64) (any, error) {
	if n != indefinite {
		return r.text(n)
	}
	b, err := r.chunks(3)
	if err == nil && !utf8.Valid(b) {
		err = errText
	}
	return string(b), err
}

// continues reports whether a value of indefinite length continues. At the end of the value, it skips the break code.
func (r *reader) continues() (bool, error) {
	if r.pos == len(r.data) {
		return false, errShort
	}
	if r.data[r.pos] != cborBreak {
		return true, nil
	}
	r.pos++
	return false, nil
}

// chunks reads a string of indefinite length: a sequence of strings of the same type with definite lengths.
func (r *reader) chunks(major byte) ([]byte, error) {
	all := []byte{}
	for {
		if more, err := r.continues(); !more || err != nil {
			return all, err
		}
		head, err := r.take(1)
		if err != nil {
			return nil, err
		}
		if head[0]>>5 != major || head[0]&31 == 31 {
			return nil, errors.New("a string contains a chunk of another type")
		}
		n, err := r.argument(major, head[0]&31)
		if err != nil {
			return nil, err
		}
		b, err := r.take(n)
		if err != nil {
			return nil, err
		}
		if major == 3 && !utf8.Valid(b) {
			return nil, errText
		}
		if !r.skips {
			all = append(all, b...)
		}
	}
}

func (r *reader) tagged(tag uint64, depth int) (any, error) {
	switch tag {
	case 25, 29: // references to shared strings and values: the index would be mistaken for the value
		return nil, fmt.Errorf("reference tag %d is not supported (write bodies without references to strings "+
			"and shared values)", tag)
	}
	if r.skips && 2 <= tag && tag <= 4 { // the tags 2 to 4 are numbers, which must be decoded to be checked
		left := r.left
		r.skips = false
		defer func() { r.left, r.skips = left, true }()
	}
	v, err := r.next(depth + 1)
	if err == nil && tag == 4 {
		return decimalFraction(v)
	}
	if err != nil || tag != 2 && tag != 3 {
		return v, err
	}
	b, ok := v.([]byte)
	if !ok {
		return nil, errors.New("a big integer is not a byte string")
	}
	if len(b) > maxInteger {
		return nil, errLongDigit
	}
	n := new(big.Int).SetBytes(b)
	if tag == 3 {
		n.Not(n)
	}
	return bigInteger(n), nil
}

// maxExponent limits the digits that a short body can create with the exponent of a decimal fraction.
const maxExponent = 1000

// decimalFraction converts CBOR's decimal fraction: a list of the exponent of ten and the mantissa.
func decimalFraction(v any) (any, error) {
	parts, ok := v.([]any)
	if !ok || len(parts) != 2 {
		return nil, errors.New("a decimal fraction is not a list of two numbers")
	}
	exponent, ok := parts[0].(int64)
	if !ok || exponent < -maxExponent || exponent > maxExponent {
		return nil, fmt.Errorf("a decimal fraction's exponent is not an integer within ±%d", maxExponent)
	}
	var digits string
	switch m := parts[1].(type) {
	case int64, uint64, replicator.Number:
		digits = replicator.FormatValue(m)
	default:
		return nil, errors.New("a decimal fraction's mantissa is not an integer")
	}
	if strings.ContainsAny(digits, ".eE") {
		return nil, errors.New("a decimal fraction's mantissa is not an integer")
	}
	digits, negative := strings.CutPrefix(digits, "-")
	if exponent >= 0 {
		if digits != "0" {
			digits += strings.Repeat("0", int(exponent))
		}
	} else {
		if n := int(-exponent) + 1 - len(digits); n > 0 {
			digits = strings.Repeat("0", n) + digits
		}
		point := len(digits) + int(exponent)
		digits = digits[:point] + "." + digits[point:]
	}
	if negative {
		digits = "-" + digits
	}
	return replicator.Number(digits), nil
}
