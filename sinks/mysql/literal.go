package mysql

import (
	"fmt"
	"strconv"
)

// A batch's statements are texts that contain the values as literals. Placeholders and arguments would lead to the same
// texts, but double a batch's processor time. The quoting relies on the session: its sql_mode makes a backslash an
// escape, and in utf8mb4 no character's bytes contain another character (see settings and openDB).

// appendLiteral appends a value as an SQL literal of its Go type: a number, a text or, for []byte, a binary value.
func appendLiteral(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "NULL"...)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case uint64:
		return strconv.AppendUint(b, v, 10)
	case float64:
		return strconv.AppendFloat(b, v, 'g', -1, 64)
	case string:
		return appendQuoted(b, v)
	case []byte:
		return appendBinary(b, v)
	}
	panic(fmt.Sprintf("no SQL literal for a value of type %T", v))
}

func appendBinary[T string | []byte](b []byte, v T) []byte {
	return appendQuoted(append(b, "_binary"...), v)
}

func appendQuoted[T string | []byte](b []byte, v T) []byte {
	b = append(b, '\'')
	from := 0
	for i := range len(v) {
		if e := escapes[v[i]]; e != 0 {
			b = append(append(b, v[from:i]...), '\\', e)
			from = i + 1
		}
	}
	return append(append(b, v[from:]...), '\'')
}

func quotedSize[T string | []byte](v T) int {
	n := len(v) + len("''")
	for i := range len(v) {
		if escapes[v[i]] != 0 {
			n++
		}
	}
	return n
}

// escapes maps a byte to the character that follows the backslash in the byte's escape sequence; 0: the byte needs no
// escape.
var escapes = [256]byte{0: '0', '\n': 'n', '\r': 'r', '\x1a': 'Z', '\'': '\'', '"': '"', '\\': '\\'}
