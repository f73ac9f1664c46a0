package codec

import (
	"bytes"
	"fmt"
	"math"

	"replicator"
)

// jsonFormat reads JSON (RFC 8259). It accepts what encoding/json accepts, but for text that is not UTF-8 and lone
// surrogates, which encoding/json replaces, and for nesting deeper than MaxDepth.
type jsonFormat struct {
	shares bool // texts are parts of the body, which nobody writes to
}

// JSON decodes one JSON value of any kind: the content of a JSON column.
func JSON(text []byte) (any, error) {
	s := scanner{data: text, left: MaxValues}
	s.space()
	v, err := s.value(0)
	if err != nil {
		return nil, err
	}
	return v, s.end()
}

func (f jsonFormat) document(body []byte) (replicator.Object, error) {
	s := scanner{data: body, left: MaxValues, shares: f.shares}
	if err := s.openBody(); err != nil {
		return nil, err
	}
	doc, err := s.object(1)
	if err != nil {
		return nil, err
	}
	return doc, s.end()
}

func (f jsonFormat) members(body []byte, want names, values []any) error {
	s := scanner{data: body, left: MaxValues, shares: f.shares}
	if err := s.openBody(); err != nil {
		return err
	}
	for more := !s.closes('}'); more; {
		name, err := s.name()
		if err != nil {
			return err
		}
		if i := want.find(name); i >= 0 {
			values[i], err = s.value(1)
		} else {
			err = s.skip(1)
		}
		if err != nil {
			return err
		}
		if more, err = s.more('}'); err != nil {
			return err
		}
	}
	return s.end()
}

// openBody reads up to the first member of the body, which must be an object.
func (s *scanner) openBody() error {
	s.space()
	if s.pos == len(s.data) {
		return s.fail("the body is empty")
	}
	kind := ""
	switch c := s.data[s.pos]; {
	case c == '{':
		s.pos++
		return nil
	case c == '[':
		kind = "array"
	case c == '"':
		kind = "string"
	case c == '-' || '0' <= c && c <= '9':
		kind = "number"
	case s.begins("true"), s.begins("false"):
		kind = "boolean"
	case s.begins("null"):
		kind = "null"
	default:
		return s.fail("the body is not JSON")
	}
	return s.fail("the body is a JSON " + kind + ", want an object")
}

// begins reports whether the text goes on with a word.
func (s *scanner) begins(word string) bool { return bytes.HasPrefix(s.data[s.pos:], []byte(word)) }

// end accepts nothing but white space.
func (s *scanner) end() error {
	s.space()
	if s.pos < len(s.data) {
		return s.fail("something follows the end of the document")
	}
	return nil
}

// value decodes the value that starts here, inside depth levels.
func (s *scanner) value(depth int) (any, error) {
	if s.left--; s.left < 0 {
		return nil, s.fail(errMany.Error())
	}
	switch s.peek() {
	case '{':
		if depth >= MaxDepth {
			return nil, s.failDepth()
		}
		s.pos++
		return s.object(depth + 1)
	case '[':
		if depth >= MaxDepth {
			return nil, s.failDepth()
		}
		s.pos++
		return s.array(depth + 1)
	case '"':
		raw, escaped, err := s.text()
		if err != nil {
			return nil, err
		}
		if escaped {
			return asText(unescape(raw)), nil
		}
		return s.kept(raw), nil
	case 't':
		return true, s.literal("true")
	case 'f':
		return false, s.literal("false")
	case 'n':
		return nil, s.literal("null")
	}
	raw, integral, err := s.number()
	if err != nil {
		return nil, err
	}
	return s.numberValue(raw, integral), nil
}

// object decodes an object whose brace has been read.
func (s *scanner) object(depth int) (replicator.Object, error) {
	var few [8]replicator.Member // on the stack, and most objects have no more: those are allocated once
	members := few[:0]
	for more := !s.closes('}'); more; {
		raw, err := s.name()
		if err != nil {
			return nil, err
		}
		name := s.kept(raw)
		v, err := s.value(depth)
		if err != nil {
			return nil, err
		}
		members = append(members, replicator.Member{Name: name, Value: v})
		if more, err = s.more('}'); err != nil {
			return nil, err
		}
	}
	return replicator.MakeObject(append(make([]replicator.Member, 0, len(members)), members...)), nil
}

// array decodes an array whose bracket has been read.
func (s *scanner) array(depth int) ([]any, error) {
	list := []any{}
	for more := !s.closes(']'); more; {
		v, err := s.value(depth)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
		if more, err = s.more(']'); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// skip reads over the value that starts here, and checks it.
func (s *scanner) skip(depth int) error {
	switch c := s.peek(); c {
	case '{', '[':
		if depth >= MaxDepth {
			return s.failDepth()
		}
		s.pos++
		closing := c + 2 // '}' and ']' in ASCII
		for more := !s.closes(closing); more; {
			var err error
			if c == '{' {
				if _, err = s.name(); err != nil {
					return err
				}
			}
			if err = s.skip(depth + 1); err != nil {
				return err
			}
			if more, err = s.more(closing); err != nil {
				return err
			}
		}
		return nil
	case '"':
		_, _, err := s.text()
		return err
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	}
	_, _, err := s.number()
	return err
}

// numberValue converts a checked number.
func (s *scanner) numberValue(raw []byte, integral bool) any {
	if !integral {
		return replicator.Number(s.kept(raw))
	}
	digits, negative := raw, raw[0] == '-'
	if negative {
		digits = raw[1:]
	}
	if len(digits) > 20 {
		return replicator.Number(s.kept(raw))
	}
	var n uint64
	for _, c := range digits {
		d := uint64(c - '0')
		if n > (math.MaxUint64-d)/10 {
			return replicator.Number(s.kept(raw))
		}
		n = n*10 + d
	}
	switch {
	case !negative && n <= math.MaxInt64:
		return int64(n)
	case !negative:
		return n
	case n <= 1<<63:
		return -int64(n) // for 1<<63 the conversion and the sign both wrap, to the smallest int64
	}
	return replicator.Number(s.kept(raw))
}

func (s *scanner) fail(reason string) error {
	return fmt.Errorf("json: %s, at offset %d", reason, s.pos)
}

func (s *scanner) failDepth() error {
	return s.fail(fmt.Sprintf("the body nests deeper than %d levels", MaxDepth))
}
