package replicator

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// AppendJSON appends the JSON text of a value of a decoded body, or of a row's column. Equal values have equal texts:
// members are sorted by name, and numbers keep their digits. Bytes become hexadecimal digits, a RawJSON is copied, and
// a float64 that is not finite becomes null. An Unread (a value that no view can hold) is shown in angle brackets.
func AppendJSON(dst []byte, value any) []byte {
	t := jsonText{b: dst, maxDepth: math.MaxInt}
	t.value(value, 0)
	return t.b
}

// AppendJSONText appends the JSON text of a string, as AppendJSON does.
func AppendJSONText(dst []byte, s string) []byte {
	t := jsonText{b: dst}
	t.text(s)
	return t.b
}

// AppendExactJSON is AppendJSON for a target that must hold a value unchanged or not at all. It returns an error if
// JSON would change the value, or if the value is nested deeper than maxDepth.
func AppendExactJSON(dst []byte, value any, maxDepth int) ([]byte, error) {
	t := jsonText{b: dst, maxDepth: maxDepth, exact: true}
	t.value(value, 0)
	return t.b, t.err
}

type jsonText struct {
	b        []byte
	maxDepth int
	exact    bool  // stop at the first value that JSON would change
	err      error // the error about the first value that JSON would change
}

func (t *jsonText) inexact(err error) {
	if t.err == nil {
		t.err = err
	}
}

func (t *jsonText) value(value any, depth int) {
	if depth > t.maxDepth {
		t.inexact(fmt.Errorf("it is nested more than %d deep", t.maxDepth))
	}
	if t.exact && t.err != nil {
		return
	}
	switch v := value.(type) {
	case nil:
		t.b = append(t.b, "null"...)
	case bool:
		t.b = strconv.AppendBool(t.b, v)
	case int64:
		t.b = strconv.AppendInt(t.b, v, 10)
	case uint64:
		t.b = strconv.AppendUint(t.b, v, 10)
	case Number:
		t.b = append(t.b, v...)
	case float64:
		t.float(v)
	case string:
		if !t.text(v) {
			t.inexact(errInvalidText)
		}
	case []byte:
		t.b = hex.AppendEncode(append(t.b, '"'), v)
		t.b = append(t.b, '"')
	case RawJSON:
		t.b = append(t.b, v...)
	case []any:
		t.b = append(t.b, '[')
		for i, e := range v {
			if i > 0 {
				t.b = append(t.b, ',')
			}
			t.value(e, depth+1)
		}
		t.b = append(t.b, ']')
	case Object:
		t.object(v, depth)
	case Unread:
		t.asText(v, "<"+string(v)+">")
	default:
		t.asText(v, fmt.Sprint(v))
	}
}

var (
	errNotFinite   = errors.New("it is not a finite number, so JSON can't express it")
	errInvalidText = errors.New("it is text that is not valid UTF-8")
	errInvalidName = errors.New("it has a member whose name is not valid UTF-8")
)

// asText writes a JSON string with the given text in place of v, because JSON has no type for v.
func (t *jsonText) asText(v any, text string) {
	t.inexact(fmt.Errorf("a %T can't be written as JSON", v))
	t.text(text)
}

func (t *jsonText) object(o Object, depth int) {
	t.b = append(t.b, '{')
	for i := range o {
		if i > 0 {
			t.b = append(t.b, ',')
		}
		if !t.text(o[i].Name) {
			t.inexact(errInvalidName)
		}
		t.b = append(t.b, ':')
		t.value(o[i].Value, depth+1)
	}
	t.b = append(t.b, '}')
}

func (t *jsonText) float(f float64) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		t.inexact(errNotFinite)
		t.b = append(t.b, "null"...)
		return
	}
	t.b = appendFloat(t.b, f)
}

// appendFloat appends the shortest text that reads back as the same number. Like JSON encoders, it uses an exponent
// only for very large and very small numbers.
func appendFloat(b []byte, f float64) []byte {
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(b, f, format, -1, 64)
}

// text quotes s and reports whether it is valid UTF-8. Texts of decoded bodies always are. Invalid bytes are written as
// U+FFFD.
func (t *jsonText) text(s string) (valid bool) {
	dst := append(t.b, '"')
	start := 0
	valid = true
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
				valid = false
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
	t.b = append(append(dst, s[start:]...), '"')
	return valid
}
