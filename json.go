package replicator

import (
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// AppendJSON appends the JSON text of a value: of a decoded body, or of a row's columns. Numbers keep their digits,
// bytes are a string of lowercase hexadecimal digits (as in templates), a RawJSON is taken as it is, and an object's
// members are sorted by name, so that equal values have one text. A float64 that is not finite, which JSON can't say,
// is null; what is Unread is shown in angle brackets.
func AppendJSON(dst []byte, value any) []byte {
	switch v := value.(type) {
	case nil:
		return append(dst, "null"...)
	case bool:
		return strconv.AppendBool(dst, v)
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case uint64:
		return strconv.AppendUint(dst, v, 10)
	case Number:
		return append(dst, v...)
	case float64:
		return appendFloat(dst, v)
	case string:
		return appendString(dst, v)
	case []byte:
		dst = append(dst, '"')
		dst = hex.AppendEncode(dst, v)
		return append(dst, '"')
	case RawJSON:
		return append(dst, v...)
	case Unread:
		return appendString(dst, "<"+string(v)+">")
	case []any:
		dst = append(dst, '[')
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = AppendJSON(dst, e)
		}
		return append(dst, ']')
	case map[string]any:
		return appendObject(dst, v)
	}
	return appendString(dst, fmt.Sprint(value))
}

func appendObject(dst []byte, m map[string]any) []byte {
	var few [16]string // no allocation for an object of no more members
	names := few[:0]
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	dst = append(dst, '{')
	for i, name := range names {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, name), ':')
		dst = AppendJSON(dst, m[name])
	}
	return append(dst, '}')
}

// appendFloat writes the shortest text that reads back as the same number.
func appendFloat(dst []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(dst, "null"...)
	}
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(dst, f, format, -1, 64)
}

// appendString quotes s. Text that is not valid UTF-8, which no decoded value holds, is written with U+FFFD.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(append(dst, s[start:i]...), "\ufffd"...)
				start = i + 1
			}
			i += n
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = fmt.Appendf(dst, "\\u%04x", c)
		}
		i++
		start = i
	}
	return append(append(dst, s[start:]...), '"')
}
