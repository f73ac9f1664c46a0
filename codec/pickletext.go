package codec

import (
	"bytes"
	"errors"
	"math/big"
	"strconv"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

func (u *unpickler) take(n uint64) ([]byte, error) {
	if n > uint64(len(u.data)-u.pos) {
		return nil, errShort
	}
	b := u.data[u.pos : u.pos+int(n)]
	u.pos += int(n)
	return b, nil
}

func (u *unpickler) line() ([]byte, error) {
	n := bytes.IndexByte(u.data[u.pos:], '\n')
	if n < 0 {
		return nil, errShort
	}
	b := u.data[u.pos : u.pos+n]
	u.pos += n + 1
	return b, nil
}

func (u *unpickler) uint(n int) (uint64, error) {
	b, err := u.take(uint64(n))
	var v uint64
	for i := len(b) - 1; i >= 0; i-- {
		v = v<<8 | uint64(b[i])
	}
	return v, err
}

func (u *unpickler) unsigned(n int) (any, error) {
	v, err := u.uint(n)
	return unsigned(v), err
}

// bytes reads a byte string. Its length comes first and takes n bytes.
func (u *unpickler) bytes(n int) (any, error) {
	size, err := u.uint(n)
	if err != nil {
		return nil, err
	}
	b, err := u.take(size)
	return pyBytes(b), err
}

// python3 marks 16 bytes that Python 3 wrote as bytes, so that they never become text: they may be a UUID that happens
// to look like text. Other bytes become text if they look like text.
func python3(v any, err error) (any, error) {
	if b, ok := v.(pyBytes); ok && len(b) == 16 {
		return py16(b), err
	}
	return v, err
}

// text reads a UTF-8 string. Its length comes first and takes n bytes.
func (u *unpickler) text(n int) (any, error) {
	v, err := u.bytes(n)
	if err != nil {
		return nil, err
	}
	if s := string(v.(pyBytes)); utf8.ValidString(s) {
		return s, nil
	}
	return nil, errText
}

// numberLine reads a number that protocol 0 writes as a line of text.
func (u *unpickler) numberLine(op byte) (any, error) {
	b, err := u.line()
	if err != nil {
		return nil, err
	}
	switch {
	case op == 'F':
		f, err := strconv.ParseFloat(string(b), 64)
		if err != nil {
			return nil, errors.New("a number is invalid")
		}
		return finite(f), nil
	case op == 'I' && string(b) == "01":
		return true, nil
	case op == 'I' && string(b) == "00":
		return false, nil
	}
	b = bytes.TrimSuffix(b, []byte("L"))
	if len(b) > 2*maxInteger {
		return nil, errLongDigit
	}
	n, ok := new(big.Int).SetString(string(b), 10)
	if !ok {
		return nil, errors.New("an integer is invalid")
	}
	return bigInteger(n), nil
}

// textLine reads a string that protocol 0 writes as a line of text: Python 2's str in quotes, or unicode.
func (u *unpickler) textLine(op byte) (any, error) {
	b, err := u.line()
	if err != nil {
		return nil, err
	}
	if op == 'V' {
		return rawUnicode(b)
	}
	b = bytes.TrimRight(b, " \r")
	if len(b) < 2 || b[0] != b[len(b)-1] || b[0] != '\'' && b[0] != '"' {
		return nil, errors.New("a string has no quotes")
	}
	return unquotePython(b[1 : len(b)-1])
}

func unquotePython(b []byte) (any, error) {
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' {
			out = append(out, b[i])
			continue
		}
		if i++; i == len(b) {
			return nil, errors.New("a string ends inside an escape sequence")
		}
		switch c := b[i]; c {
		case '\\', '\'', '"':
			out = append(out, c)
		case 'a', 'b', 'f', 'n', 'r', 't', 'v':
			out = append(out, map[byte]byte{'a': '\a', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v'}[c])
		case 'x':
			if i+2 >= len(b) {
				return nil, errors.New("a string ends inside an escape sequence")
			}
			n, err := strconv.ParseUint(string(b[i+1:i+3]), 16, 8)
			if err != nil {
				return nil, errors.New("a string has an invalid escape sequence")
			}
			out = append(out, byte(n))
			i += 2
		default:
			return nil, errors.New("a string has an escape sequence that Python does not write")
		}
	}
	return pyBytes(out), nil
}

// rawUnicode decodes Python's raw-unicode-escape: Latin-1, with \uXXXX and \UXXXXXXXX for other characters. Old builds
// of Python write characters above U+FFFF as two surrogates.
func rawUnicode(b []byte) (any, error) {
	var units []rune
	for i := 0; i < len(b); i++ {
		digits := 0
		if b[i] == '\\' && i+1 < len(b) {
			switch b[i+1] {
			case 'u':
				digits = 4
			case 'U':
				digits = 8
			}
		}
		if digits == 0 {
			units = append(units, rune(b[i]))
			continue
		}
		if i+2+digits > len(b) {
			return nil, errors.New("a string ends inside an escape sequence")
		}
		n, err := strconv.ParseUint(string(b[i+2:i+2+digits]), 16, 32)
		if err != nil || n > unicode.MaxRune {
			return nil, errors.New("a string has an invalid escape sequence")
		}
		i += 1 + digits
		r := rune(n)
		if last := len(units) - 1; last >= 0 {
			if pair := utf16.DecodeRune(units[last], r); pair != unicode.ReplacementChar {
				units[last] = pair
				continue
			}
		}
		units = append(units, r)
	}
	for _, r := range units {
		if utf16.IsSurrogate(r) {
			return nil, errText
		}
	}
	return string(units), nil
}

// latin1 encodes text as Latin-1; false if a character is above U+00FF.
func latin1(text string) (string, bool) {
	out := make([]byte, 0, len(text))
	for _, r := range text {
		if r > 0xFF {
			return "", false
		}
		out = append(out, byte(r))
	}
	return string(out), true
}

// textOrBytes decides whether s is text, for formats that write text and bytes in the same way. Text is valid UTF-8
// without control characters, except tabs and line ends.
func textOrBytes(s string) any {
	if !utf8.ValidString(s) {
		return []byte(s)
	}
	for _, r := range s {
		if unicode.IsControl(r) && r != '\t' && r != '\n' && r != '\r' {
			return []byte(s)
		}
	}
	return s
}
