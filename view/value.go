package view

import (
	"encoding/binary"
	"fmt"
	"math"

	"replicator"
)

// sortOf returns the name of a value's type for a message. It never contains the value.
func sortOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case int64, uint64, float64, replicator.Number:
		return "a number"
	case string:
		return "a text"
	case []byte:
		return "a binary value"
	case []any:
		return "a list"
	case replicator.Object:
		return "an object"
	case replicator.RawJSON:
		return "a JSON document"
	case replicator.Unread:
		return string(v)
	}
	return fmt.Sprintf("a %T", v)
}

// readable returns an error if v is or contains a replicator.Unread, which stands for a value that no view can hold.
func readable(v any) error {
	switch v := v.(type) {
	case replicator.Unread:
		return fmt.Errorf("it is %s, which no view can hold", v)
	case []any:
		for _, e := range v {
			if err := readable(e); err != nil {
				return err
			}
		}
	case replicator.Object:
		for _, m := range v {
			if err := readable(m.Value); err != nil {
				return err
			}
		}
	}
	return nil
}

// scalar reports whether v can be in an index or a key, because it is neither a list nor an object.
func scalar(v any) bool {
	switch v.(type) {
	case []any, replicator.Object:
		return false
	}
	return true
}

// appendIdentity appends bytes that identify v: two values have the same bytes if and only if they are equal.
func appendIdentity(b []byte, v any) []byte {
	text := func(kind byte, s string) []byte {
		return append(binary.AppendUvarint(append(b, kind), uint64(len(s))), s...)
	}
	switch v := v.(type) {
	case nil:
		return append(b, 'z')
	case bool:
		if v {
			return append(b, 't')
		}
		return append(b, 'f')
	case int64:
		return binary.BigEndian.AppendUint64(append(b, 'i'), uint64(v))
	case uint64:
		return binary.BigEndian.AppendUint64(append(b, 'u'), v)
	case float64:
		return binary.BigEndian.AppendUint64(append(b, 'd'), math.Float64bits(v))
	case replicator.Number:
		return text('n', string(v))
	case string:
		return text('s', v)
	case []byte:
		return text('b', string(v))
	case []any:
		b = binary.AppendUvarint(append(b, 'l'), uint64(len(v)))
		for _, e := range v {
			b = appendIdentity(b, e)
		}
		return b
	case replicator.Object:
		b = binary.AppendUvarint(append(b, 'm'), uint64(len(v)))
		for _, m := range v {
			b = append(binary.AppendUvarint(b, uint64(len(m.Name))), m.Name...)
			b = appendIdentity(b, m.Value)
		}
		return b
	}
	return text('?', fmt.Sprint(v))
}
