package codec

import (
	"errors"
	"fmt"
	"math"
	"math/big"

	"replicator"
)

// wholeFormat is a format that decodes a body of any type, and then refuses a body that is not a map.
type wholeFormat struct {
	name   string
	decode func(body []byte, w *wanted) (any, error)
}

func (f wholeFormat) document(body []byte) (replicator.Object, error) { return f.read(body, nil) }

func (f wholeFormat) read(body []byte, w *wanted) (replicator.Object, error) {
	v, err := f.decode(body, w)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.name, err)
	}
	if doc, ok := v.(replicator.Object); ok {
		return doc, nil
	}
	return nil, fmt.Errorf("%s: the body is %s, want a map", f.name, sortOf(v))
}

func (f wholeFormat) members(body []byte, want names, values []any) error {
	_, err := f.read(body, &wanted{want, values})
	return err
}

func sortOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string, []byte:
		return "a string"
	case []any:
		return "a list"
	case replicator.Unread:
		return string(v)
	}
	return "a number"
}

var (
	errShort     = errors.New("the body is cut short")
	errTrailing  = errors.New("something follows the end of the body")
	errText      = errors.New("a string is not valid UTF-8")
	errName      = errors.New("a map has a key that is neither text nor an integer")
	errLongDigit = fmt.Errorf("an integer has more than %d bytes", maxInteger)
	errDepth     = fmt.Errorf("the body nests deeper than %d levels", MaxDepth)
)

// maxInteger limits the bytes of an integer: converting it to decimal takes quadratic time.
const maxInteger = 512

// notFinite stands for NaN and the infinities, which neither JSON nor a MySQL column can hold.
const notFinite = replicator.Unread("a number that is not finite")

func finite(f float64) any {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return notFinite
	}
	return f
}

func unsigned(n uint64) any {
	if n <= math.MaxInt64 {
		return int64(n)
	}
	return n
}

func bigInteger(n *big.Int) any {
	switch {
	case n.IsInt64():
		return n.Int64()
	case n.IsUint64():
		return n.Uint64()
	}
	return replicator.Number(n.String())
}

// memberName converts a map's key to a member's name. An integer becomes decimal digits, as JSON libraries write it.
func memberName(key any) (string, error) {
	switch k := key.(type) {
	case string:
		return k, nil
	case int64, uint64:
		return replicator.FormatValue(k), nil
	}
	return "", errName
}
