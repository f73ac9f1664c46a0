// Package jsonscan reads JSON (RFC 8259) token by token, in place. It accepts what encoding/json accepts, with two
// exceptions: text that is not UTF-8 or has lone surrogates, which encoding/json replaces, and values nested deeper
// than MaxDepth.
package jsonscan

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// MaxDepth is how deep a value may nest, counting the value itself as the first level. MySQL's own limit for JSON is
// 100.
const MaxDepth = 512

// Scanner reads tokens. Its methods leave Pos after the token, or at the error.
type Scanner struct {
	Data []byte
	Pos  int
}

// Peek returns the next byte. At the end it returns a NUL byte, which begins no token.
func (s *Scanner) Peek() byte {
	if s.Pos < len(s.Data) {
		return s.Data[s.Pos]
	}
	return 0
}

func (s *Scanner) Space() {
	for s.Pos < len(s.Data) {
		switch s.Data[s.Pos] {
		case ' ', '\t', '\n', '\r':
			s.Pos++
		default:
			return
		}
	}
}

// Closes skips white space. If the closing bracket of an empty list or object follows, it skips the bracket, too, and
// returns true.
func (s *Scanner) Closes(closing byte) bool {
	s.Space()
	if s.Peek() == closing {
		s.Pos++
		return true
	}
	return false
}

// More reads the byte after a member or element: a comma, or the closing bracket. It returns true after a comma,
// because another member or element follows.
func (s *Scanner) More(closing byte) (bool, error) {
	s.Space()
	switch s.Peek() {
	case ',':
		s.Pos++
		s.Space()
		return true, nil
	case closing:
		s.Pos++
		return false, nil
	case 0:
		if s.Pos == len(s.Data) {
			return false, s.Fail("the document is cut short")
		}
	}
	return false, s.Fail("expected a comma or a closing bracket")
}

// Name reads a member's name and the colon.
func (s *Scanner) Name() ([]byte, error) {
	if s.Peek() != '"' {
		if s.Pos == len(s.Data) {
			return nil, s.Fail("the document is cut short")
		}
		return nil, s.Fail("expected a member's name in double quotes")
	}
	raw, escaped, err := s.Text()
	if err != nil {
		return nil, err
	}
	if escaped {
		raw = Unescape(raw)
	}
	s.Space()
	if s.Peek() != ':' {
		return nil, s.Fail("expected a colon after a member's name")
	}
	s.Pos++
	s.Space()
	return raw, nil
}

func (s *Scanner) Literal(word string) error {
	if len(s.Data)-s.Pos < len(word) || string(s.Data[s.Pos:s.Pos+len(word)]) != word {
		return s.Fail("expected a value")
	}
	s.Pos += len(word)
	return nil
}

// Number reads a number. integral reports whether the number has neither a fraction nor an exponent.
func (s *Scanner) Number() (raw []byte, integral bool, err error) {
	start := s.Pos
	if s.Peek() == '-' {
		s.Pos++
	}
	switch c := s.Peek(); {
	case c == '0':
		s.Pos++
	case '1' <= c && c <= '9':
		s.digits()
	case s.Pos == len(s.Data):
		return nil, false, s.Fail("the document is cut short")
	case s.Pos > start:
		return nil, false, s.Fail("a number has no digits")
	default:
		return nil, false, s.Fail("expected a value")
	}
	integral = true
	if s.Peek() == '.' {
		s.Pos++
		integral = false
		if !s.digits() {
			return nil, false, s.Fail("a number has no digits after its point")
		}
	}
	if c := s.Peek(); c == 'e' || c == 'E' {
		s.Pos++
		integral = false
		if c := s.Peek(); c == '+' || c == '-' {
			s.Pos++
		}
		if !s.digits() {
			return nil, false, s.Fail("a number has no digits in its exponent")
		}
	}
	return s.Data[start:s.Pos], integral, nil
}

func (s *Scanner) digits() bool {
	start := s.Pos
	for s.Pos < len(s.Data) && '0' <= s.Data[s.Pos] && s.Data[s.Pos] <= '9' {
		s.Pos++
	}
	return s.Pos > start
}

// Text reads a string that starts here, and checks it. It returns the text between the quotes, with its escapes.
func (s *Scanner) Text() (raw []byte, escaped bool, err error) {
	data := s.Data
	start := s.Pos + 1
	for i := start; i < len(data); {
		c := data[i]
		if plain[c] {
			i++
			continue
		}
		switch {
		case c == '"':
			s.Pos = i + 1
			return data[start:i], escaped, nil
		case c == '\\':
			escaped = true
			n := escapeLength(data[i:])
			if n == 0 {
				s.Pos = i
				return nil, false, s.Fail("a string has an escape that is not allowed, or half of a surrogate pair")
			}
			i += n
		case c < ' ':
			s.Pos = i
			return nil, false, s.Fail("a string has a control character that is not escaped")
		default:
			r, n := utf8.DecodeRune(data[i:])
			if r == utf8.RuneError && n == 1 {
				s.Pos = i
				return nil, false, s.Fail("a string is not valid UTF-8")
			}
			i += n
		}
	}
	s.Pos = len(data)
	return nil, false, s.Fail("a string is not closed")
}

// plain are the bytes of a string that need no check: ASCII except control characters, quotes and backslashes.
var plain = func() (table [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		table[c] = c != '"' && c != '\\'
	}
	return table
}()

// escapeLength returns the length of the escape at the start of b; 0 if JSON does not allow the escape. A surrogate
// pair is one escape. A lone surrogate is not a character, so no sink could store it.
func escapeLength(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		switch r := hex4(b); {
		case r < 0 || isLow(r):
			return 0
		case !isHigh(r):
			return 6
		}
		if len(b) > 7 && b[6] == '\\' && b[7] == 'u' && isLow(hex4(b[6:])) {
			return 12
		}
	}
	return 0
}

func isHigh(r rune) bool { return 0xD800 <= r && r < 0xDC00 }
func isLow(r rune) bool  { return 0xDC00 <= r && r < 0xE000 }

// hex4 returns the value of the escape \uXXXX at the start of b; -1 if there is none.
func hex4(b []byte) rune {
	if len(b) < 6 {
		return -1
	}
	var r rune
	for _, c := range b[2:6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

// Unescape decodes the escapes in raw, which Text has checked.
func Unescape(raw []byte) []byte {
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		c := raw[i]
		if c != '\\' {
			out = append(out, c)
			i++
			continue
		}
		n := escapeLength(raw[i:])
		switch c := raw[i+1]; c {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r := hex4(raw[i:])
			if n == 12 {
				r = (r-0xD800)<<10 | (hex4(raw[i+6:]) - 0xDC00) + 0x10000
			}
			out = utf8.AppendRune(out, r)
		default:
			out = append(out, c)
		}
		i += n
	}
	return out
}

// Skip skips the value that starts here, and checks it.
func (s *Scanner) Skip(depth int) error {
	switch c := s.Peek(); c {
	case '{', '[':
		if depth >= MaxDepth {
			return s.FailDepth()
		}
		s.Pos++
		closing := c + 2 // in ASCII, '}' is '{' + 2, and ']' is '[' + 2
		for more := !s.Closes(closing); more; {
			var err error
			if c == '{' {
				if _, err = s.Name(); err != nil {
					return err
				}
			}
			if err = s.Skip(depth + 1); err != nil {
				return err
			}
			if more, err = s.More(closing); err != nil {
				return err
			}
		}
		return nil
	case '"':
		_, _, err := s.Text()
		return err
	case 't':
		return s.Literal("true")
	case 'f':
		return s.Literal("false")
	case 'n':
		return s.Literal("null")
	}
	_, _, err := s.Number()
	return err
}

// Begins reports whether the remaining text begins with a word.
func (s *Scanner) Begins(word string) bool { return bytes.HasPrefix(s.Data[s.Pos:], []byte(word)) }

// End returns an error unless only white space is left.
func (s *Scanner) End() error {
	s.Space()
	if s.Pos < len(s.Data) {
		return s.Fail("something follows the end of the document")
	}
	return nil
}

// Fail returns an error that names the position.
func (s *Scanner) Fail(reason string) error {
	return fmt.Errorf("json: %s, at offset %d", reason, s.Pos)
}

// FailDepth returns the error for a value that is nested too deep.
func (s *Scanner) FailDepth() error {
	return s.Fail(fmt.Sprintf("the body nests deeper than %d levels", MaxDepth))
}

// Members calls `each` with the name and the value of every member of the JSON object in text, in order. The value is
// checked JSON, and shares the memory of text.
func Members(text []byte, each func(name, value []byte) error) error {
	s := Scanner{Data: text}
	if s.Space(); s.Peek() != '{' {
		return s.Fail("expected an object")
	}
	s.Pos++
	for more := !s.Closes('}'); more; {
		name, err := s.Name()
		if err != nil {
			return err
		}
		value, err := s.value()
		if err == nil {
			err = each(name, value)
		}
		if err == nil {
			more, err = s.More('}')
		}
		if err != nil {
			return err
		}
	}
	return s.End()
}

// Elements calls `each` for every element of the JSON array in text, as Members does for members.
func Elements(text []byte, each func(value []byte) error) error {
	s := Scanner{Data: text}
	if s.Space(); s.Peek() != '[' {
		return s.Fail("expected an array")
	}
	s.Pos++
	for more := !s.Closes(']'); more; {
		value, err := s.value()
		if err == nil {
			err = each(value)
		}
		if err == nil {
			more, err = s.More(']')
		}
		if err != nil {
			return err
		}
	}
	return s.End()
}

func (s *Scanner) value() ([]byte, error) {
	from := s.Pos
	err := s.Skip(0)
	return s.Data[from:s.Pos:s.Pos], err
}

// Valid reports whether text is one JSON value that this package accepts. White space around the value is allowed.
func Valid(text []byte) bool {
	s := Scanner{Data: text}
	s.Space()
	return s.Skip(0) == nil && s.End() == nil
}

// String decodes a JSON string.
func String(text []byte) (string, error) {
	decoded, err := Bytes(text)
	return string(decoded), err
}

// Bytes decodes a JSON string, as String does. If the string has no escapes, the result is a slice of text.
func Bytes(text []byte) ([]byte, error) {
	s := Scanner{Data: text}
	if s.Peek() != '"' {
		return nil, s.Fail("expected a string")
	}
	raw, escaped, err := s.Text()
	if err != nil {
		return nil, err
	}
	if escaped {
		raw = Unescape(raw)
	}
	return raw, s.End()
}
