package codec

import (
	"unicode/utf8"
	"unsafe"
)

// scanner reads JSON's tokens. Its methods leave pos behind what they read, or at the fault.
type scanner struct {
	data   []byte
	pos    int
	left   int  // how many more values may be made
	shares bool // texts may be parts of data
}

// kept is a part of data as a text that stays.
func (s *scanner) kept(raw []byte) string {
	if s.shares {
		return asText(raw)
	}
	return string(raw)
}

// asText is bytes as a text, without a copy of them. Nobody may write to them any more.
func asText(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// peek returns the byte here, 0 at the end (no token begins with 0).
func (s *scanner) peek() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// closes reads space and, if it is here, the closing bracket of an empty list or object.
func (s *scanner) closes(closing byte) bool {
	s.space()
	if s.peek() == closing {
		s.pos++
		return true
	}
	return false
}

// more reads what follows a member or element: a comma, so there is more, or the closing bracket.
func (s *scanner) more(closing byte) (bool, error) {
	s.space()
	switch s.peek() {
	case ',':
		s.pos++
		s.space()
		return true, nil
	case closing:
		s.pos++
		return false, nil
	case 0:
		if s.pos == len(s.data) {
			return false, s.fail("the document is cut short")
		}
	}
	return false, s.fail("expected a comma or a closing bracket")
}

// name reads a member's name and the colon.
func (s *scanner) name() ([]byte, error) {
	if s.peek() != '"' {
		if s.pos == len(s.data) {
			return nil, s.fail("the document is cut short")
		}
		return nil, s.fail("expected a member's name in double quotes")
	}
	raw, escaped, err := s.text()
	if err != nil {
		return nil, err
	}
	if escaped {
		raw = unescape(raw)
	}
	s.space()
	if s.peek() != ':' {
		return nil, s.fail("expected a colon after a member's name")
	}
	s.pos++
	s.space()
	return raw, nil
}

func (s *scanner) literal(word string) error {
	if len(s.data)-s.pos < len(word) || string(s.data[s.pos:s.pos+len(word)]) != word {
		return s.fail("expected a value")
	}
	s.pos += len(word)
	return nil
}

// number reads a number; integral ones have neither a fraction nor an exponent.
func (s *scanner) number() (raw []byte, integral bool, err error) {
	start := s.pos
	if s.peek() == '-' {
		s.pos++
	}
	switch c := s.peek(); {
	case c == '0':
		s.pos++
	case '1' <= c && c <= '9':
		s.digits()
	case s.pos == len(s.data):
		return nil, false, s.fail("the document is cut short")
	case s.pos > start:
		return nil, false, s.fail("a number has no digits")
	default:
		return nil, false, s.fail("expected a value")
	}
	integral = true
	if s.peek() == '.' {
		s.pos++
		integral = false
		if !s.digits() {
			return nil, false, s.fail("a number has no digits after its point")
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.pos++
		integral = false
		if c := s.peek(); c == '+' || c == '-' {
			s.pos++
		}
		if !s.digits() {
			return nil, false, s.fail("a number has no digits in its exponent")
		}
	}
	return s.data[start:s.pos], integral, nil
}

func (s *scanner) digits() bool {
	start := s.pos
	for s.pos < len(s.data) && '0' <= s.data[s.pos] && s.data[s.pos] <= '9' {
		s.pos++
	}
	return s.pos > start
}

// text reads a string that starts here and returns what stands between its quotes, checked but not unescaped.
func (s *scanner) text() (raw []byte, escaped bool, err error) {
	data := s.data
	start := s.pos + 1
	for i := start; i < len(data); {
		c := data[i]
		if plain[c] {
			i++
			continue
		}
		switch {
		case c == '"':
			s.pos = i + 1
			return data[start:i], escaped, nil
		case c == '\\':
			escaped = true
			n := escapeLength(data[i:])
			if n == 0 {
				s.pos = i
				return nil, false, s.fail("a string has an escape that is not allowed, or half of a surrogate pair")
			}
			i += n
		case c < ' ':
			s.pos = i
			return nil, false, s.fail("a string has a control character that is not escaped")
		default:
			r, n := utf8.DecodeRune(data[i:])
			if r == utf8.RuneError && n == 1 {
				s.pos = i
				return nil, false, s.fail("a string is not valid UTF-8")
			}
			i += n
		}
	}
	s.pos = len(data)
	return nil, false, s.fail("a string is not closed")
}

// plain are the bytes of a string that need no look: ASCII but for control characters, quotes and backslashes.
var plain = func() (table [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		table[c] = c != '"' && c != '\\'
	}
	return table
}()

// escapeLength returns how long the escape at the start of b is; 0 if it is not allowed. The halves of a surrogate pair
// are one escape: alone they stand for no character, and nothing could store them.
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

// hex4 is the value of the escape \uXXXX at the start of b, -1 if there is none.
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

// unescape returns the text that raw, which text has checked, stands for.
func unescape(raw []byte) []byte {
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
