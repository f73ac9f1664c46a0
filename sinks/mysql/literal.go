package mysql

import (
	"fmt"
	"strconv"
)

// Statements of a batch are texts with the values in them, written here: the driver would make the same text of
// placeholders and arguments, for twice the processor time of all the rest of a batch. Sessions have the sql_mode that
// makes a backslash an escape, and utf8mb4, in which no character's bytes hold that of another (see settings and
// openDB).

// appendLiteral appends a value as it is bound (see row): as a literal of its own type.
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
	panic(fmt.Sprintf("a value is bound as %T", v))
}

// appendBinary appends bytes as a literal that no character set applies to.
func appendBinary[T string | []byte](b []byte, v T) []byte {
	return appendQuoted(append(b, "_binary"...), v)
}

// appendQuoted appends a text in quotes.
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

// quotedSize is how many bytes a text takes in a statement.
func quotedSize[T string | []byte](v T) int {
	n := len(v) + len("''")
	for i := range len(v) {
		if escapes[v[i]] != 0 {
			n++
		}
	}
	return n
}

// escapes says what follows a backslash for a byte; 0: it stands for itself.
var escapes = [256]byte{0: '0', '\n': 'n', '\r': 'r', '\x1a': 'Z', '\'': '\'', '"': '"', '\\': '\\'}
