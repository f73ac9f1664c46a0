package replicator

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Cell names the rows of a source table that have one key and, if a column has the column role, one value of that
// column. Views show only the newest row of a cell. Cell is comparable, so it can be a map's key.
type Cell struct {
	Table  string // the table's name in the configuration
	Key    Key
	Column string // the value of the column that has the column role; "" if none has it
}

func (c Cell) String() string {
	if c.Column == "" {
		return c.Table + " " + c.Key.String()
	}
	return c.Table + "." + c.Column + " " + c.Key.String()
}

// Key is the encoded tuple of a cell's key values, made by MakeKey. The cells of a table that have the same key form an
// entity. Two keys are equal exactly when their values are. Sinks store the encoding, so it must never change.
type Key string

const (
	keyInt    = 'i' // 8 bytes, big endian, sign bit flipped
	keyUint   = 'u' // 8 bytes, big endian; only values above the largest int64, so that each integer has one encoding
	keyString = 's' // uvarint length, bytes
	keyBytes  = 'b' // uvarint length, bytes
)

// MakeKey encodes key values: int64, uint64, string and []byte. A Number is encoded as the string of its digits; only
// DECIMAL columns give Numbers. A nil or any other kind of value is an error, because such a row has no key.
func MakeKey(values ...any) (Key, error) {
	k := KeyBuilder{make([]byte, 0, 24)}
	for i, v := range values {
		switch v := v.(type) {
		case int64:
			k.Int(v)
		case uint64:
			k.Uint(v)
		case string:
			k.Text([]byte(v))
		case Number:
			k.Text([]byte(v))
		case []byte:
			k.Bytes(v)
		case nil:
			return "", fmt.Errorf("key value %d is NULL", i+1)
		default:
			return "", fmt.Errorf("key value %d is a %T, which can't be a key", i+1, v)
		}
	}
	return k.Key(), nil
}

// KeyBuilder builds a Key value by value, for readers that make millions of keys. It allocates only the Key, and can be
// used again for the next key.
type KeyBuilder struct{ b []byte }

func (k *KeyBuilder) Int(v int64) {
	k.b = binary.BigEndian.AppendUint64(append(k.b, keyInt), uint64(v)^1<<63)
}

// Uint adds an integer, which may be above the largest int64.
func (k *KeyBuilder) Uint(v uint64) {
	if v <= math.MaxInt64 {
		k.Int(int64(v))
		return
	}
	k.b = binary.BigEndian.AppendUint64(append(k.b, keyUint), v)
}

func (k *KeyBuilder) Text(v []byte) {
	k.b = append(binary.AppendUvarint(append(k.b, keyString), uint64(len(v))), v...)
}

func (k *KeyBuilder) Bytes(v []byte) {
	k.b = append(binary.AppendUvarint(append(k.b, keyBytes), uint64(len(v))), v...)
}

// Key returns the key of the values added since the last call.
func (k *KeyBuilder) Key() Key {
	key := Key(k.b)
	k.b = k.b[:0]
	return key
}

// Values decodes the key: int64, uint64, string and []byte values, as they were given to MakeKey.
func (k Key) Values() ([]any, error) { return k.AppendValues(nil) }

// AppendValues appends the decoded values of the key. The strings among them share the key's memory.
func (k Key) AppendValues(values []any) ([]any, error) {
	for rest := []byte(k); len(rest) > 0; { // the compiler need not copy k, because nothing modifies or retains rest
		kind, value, after, err := nextValue(rest)
		if err != nil {
			return nil, fmt.Errorf("key %x %w", string(k), err)
		}
		switch kind {
		case keyInt:
			values = append(values, int64(binary.BigEndian.Uint64(value)^1<<63))
		case keyUint:
			values = append(values, binary.BigEndian.Uint64(value))
		case keyString:
			end := len(k) - len(after)
			values = append(values, string(k[end-len(value):end]))
		case keyBytes:
			values = append(values, append([]byte{}, value...)) // a copy, because callers may change the values
		}
		rest = after
	}
	return values, nil
}

// nextValue cuts the first value off an encoded key. value is an integer's 8 bytes, or the bytes of a string or []byte.
func nextValue(b []byte) (kind byte, value, rest []byte, err error) {
	kind, rest = b[0], b[1:]
	n := uint64(8)
	switch kind {
	case keyInt, keyUint:
	case keyString, keyBytes:
		length, used := binary.Uvarint(rest)
		if used <= 0 {
			return 0, nil, nil, errKeyCut
		}
		n, rest = length, rest[used:]
	default:
		return 0, nil, nil, fmt.Errorf("holds an unknown kind %q", kind)
	}
	if n > uint64(len(rest)) {
		return 0, nil, nil, errKeyCut
	}
	return kind, rest[:n], rest[n:], nil
}

var errKeyCut = errors.New("is cut short")

// Partitions is the number of partitions that keys are divided into. Two lanes of a pipeline never share a partition,
// and sinks take locks by partition, so the lanes never wait for each other's locks. Sinks store the number: it must
// never change.
const Partitions = 64

// Partition returns the key's partition, 0 ≤ p < Partitions.
func (k Key) Partition() int {
	h := uint64(14695981039346656037) // FNV-1a
	for i := range len(k) {
		h = (h ^ uint64(k[i])) * 1099511628211
	}
	return int((h ^ h>>32) % Partitions)
}

// String formats the key as templates do (see FormatValue). Several values are joined by ":". In all but the last
// value, ":" and "%" are percent-encoded, so that two different keys never look the same.
func (k Key) String() string { return string(k.AppendString(make([]byte, 0, 64))) }

// AppendKinds appends one letter for each value of the key: the value's kind. AppendKey rebuilds the key from these
// kinds and from String's text. For a malformed key, AppendKinds appends nothing.
func (k Key) AppendKinds(dst []byte) []byte {
	from := len(dst)
	for rest := []byte(k); len(rest) > 0; {
		kind, _, after, err := nextValue(rest)
		if err != nil {
			return dst[:from]
		}
		dst, rest = append(dst, kind), after
	}
	return dst
}

// AppendKey appends the key whose String is text and whose values have the given kinds (see AppendKinds). It returns
// false if there is no such key.
func AppendKey(dst []byte, kinds, text string) ([]byte, bool) {
	b := KeyBuilder{dst}
	for i := range len(kinds) {
		part, after, more := text, "", false
		if last := i == len(kinds)-1; !last {
			part, after, more = strings.Cut(text, ":")
			if !more {
				return dst, false
			}
			if kinds[i] == keyString {
				part = UnescapePart(part)
			}
		}
		if !b.part(kinds[i], part) {
			return dst, false
		}
		text = after
	}
	return b.b, text == ""
}

func (k *KeyBuilder) part(kind byte, text string) bool {
	var err error
	switch kind {
	case keyInt:
		var v int64
		v, err = strconv.ParseInt(text, 10, 64)
		k.Int(v)
	case keyUint:
		var v uint64
		v, err = strconv.ParseUint(text, 10, 64)
		k.Uint(v)
	case keyString:
		k.b = append(binary.AppendUvarint(append(k.b, keyString), uint64(len(text))), text...)
	case keyBytes:
		k.b = binary.AppendUvarint(append(k.b, keyBytes), uint64(hex.DecodedLen(len(text))))
		from := len(k.b)
		k.b = append(k.b, text...) // decoded in place: two digits are read before they are overwritten
		_, err = hex.Decode(k.b[from:], k.b[from:])
		k.b = k.b[:from+hex.DecodedLen(len(text))]
	default:
		return false
	}
	return err == nil
}

// UnescapePart decodes one value of a key's String. The last value needs no decoding, because String does not encode
// it.
func UnescapePart(text string) string {
	return strings.NewReplacer("%3A", ":", "%25", "%").Replace(text)
}

// AppendString appends the text that String returns.
func (k Key) AppendString(dst []byte) []byte {
	from := len(dst)
	for rest := []byte(k); len(rest) > 0; {
		kind, value, after, err := nextValue(rest)
		if err != nil {
			return hex.AppendEncode(dst[:from], []byte(k))
		}
		last := len(after) == 0
		switch kind {
		case keyInt:
			dst = strconv.AppendInt(dst, int64(binary.BigEndian.Uint64(value)^1<<63), 10)
		case keyUint:
			dst = strconv.AppendUint(dst, binary.BigEndian.Uint64(value), 10)
		case keyBytes:
			dst = hex.AppendEncode(dst, value)
		case keyString:
			for _, c := range value {
				switch {
				case c == '%' && !last:
					dst = append(dst, "%25"...)
				case c == ':' && !last:
					dst = append(dst, "%3A"...)
				default:
					dst = append(dst, c)
				}
			}
		}
		if !last {
			dst = append(dst, ':')
		}
		rest = after
	}
	return dst
}

// FormatValue formats one scalar value as templates, logs and listings show it: numbers in full, text unchanged, bytes
// as lowercase hexadecimal digits (16 bytes are 32 digits). Lists and objects are formatted as package fmt does, and
// that form is never stored.
func FormatValue(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case Number:
		return string(v)
	}
	return string(AppendValue(make([]byte, 0, 64), v))
}

// AppendValue appends the text that FormatValue returns.
func AppendValue(dst []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return dst
	case string:
		return append(dst, v...)
	case []byte:
		return hex.AppendEncode(dst, v)
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case uint64:
		return strconv.AppendUint(dst, v, 10)
	case Number:
		return append(dst, v...)
	case float64:
		return appendFloat(dst, v)
	case bool:
		return strconv.AppendBool(dst, v)
	case RawJSON:
		return append(dst, v...)
	}
	return fmt.Append(dst, v)
}

// Number is an exact decimal number as text: every DECIMAL, and every number that neither int64 nor uint64 can hold.
type Number string

// RawJSON is a JSON document as text: the value of a JSON column other than the table's body.
type RawJSON []byte

// ValidText reports whether s may be stored as text: valid UTF-8.
func ValidText(s string) bool { return utf8.ValidString(s) }
