package codec

import (
	"math"

	"replicator"
	"replicator/internal/jsonscan"
)

// jsonFormat reads JSON (RFC 8259). It accepts what encoding/json accepts, except that nesting deeper than MaxDepth,
// invalid UTF-8 and lone surrogates are errors. encoding/json would replace the latter two.
type jsonFormat struct {
	shares bool // decoded strings may share the body's memory, which must not change afterwards
}

// JSON decodes one JSON value of any kind, such as a JSON column.
func JSON(text []byte) (any, error) {
	s := scanner{Scanner: jsonscan.Scanner{Data: text}, left: MaxValues}
	s.Space()
	v, err := s.value(0)
	if err != nil {
		return nil, err
	}
	return v, s.End()
}

func (f jsonFormat) document(body []byte) (replicator.Object, error) {
	s := scanner{Scanner: jsonscan.Scanner{Data: body}, left: MaxValues, shares: f.shares}
	if err := s.openBody(); err != nil {
		return nil, err
	}
	doc, err := s.object(1)
	if err != nil {
		return nil, err
	}
	return doc, s.End()
}

func (f jsonFormat) members(body []byte, want names, values []any) error {
	s := scanner{Scanner: jsonscan.Scanner{Data: body}, left: MaxValues, shares: f.shares}
	if err := s.openBody(); err != nil {
		return err
	}
	for more := !s.Closes('}'); more; {
		name, err := s.Name()
		if err != nil {
			return err
		}
		if i := want.find(name); i >= 0 {
			values[i], err = s.value(1)
		} else {
			err = s.Skip(1)
		}
		if err != nil {
			return err
		}
		if more, err = s.More('}'); err != nil {
			return err
		}
	}
	return s.End()
}

// openBody reads up to the first member of the body, which must be an object.
func (s *scanner) openBody() error {
	s.Space()
	if s.Pos == len(s.Data) {
		return s.Fail("the body is empty")
	}
	kind := ""
	switch c := s.Data[s.Pos]; {
	case c == '{':
		s.Pos++
		return nil
	case c == '[':
		kind = "array"
	case c == '"':
		kind = "string"
	case c == '-' || '0' <= c && c <= '9':
		kind = "number"
	case s.Begins("true"), s.Begins("false"):
		kind = "boolean"
	case s.Begins("null"):
		kind = "null"
	default:
		return s.Fail("the body is not JSON")
	}
	return s.Fail("the body is a JSON " + kind + ", want an object")
}

func (s *scanner) value(depth int) (any, error) {
	if s.left--; s.left < 0 {
		return nil, s.Fail(errMany.Error())
	}
	switch s.Peek() {
	case '{':
		if depth >= MaxDepth {
			return nil, s.FailDepth()
		}
		s.Pos++
		return s.object(depth + 1)
	case '[':
		if depth >= MaxDepth {
			return nil, s.FailDepth()
		}
		s.Pos++
		return s.array(depth + 1)
	case '"':
		raw, escaped, err := s.Text()
		if err != nil {
			return nil, err
		}
		if escaped {
			return asText(jsonscan.Unescape(raw)), nil
		}
		return s.kept(raw), nil
	case 't':
		return true, s.Literal("true")
	case 'f':
		return false, s.Literal("false")
	case 'n':
		return nil, s.Literal("null")
	}
	raw, integral, err := s.Number()
	if err != nil {
		return nil, err
	}
	return s.numberValue(raw, integral), nil
}

func (s *scanner) object(depth int) (replicator.Object, error) {
	var few [8]replicator.Member // on the stack: few objects have more members, so most objects need one allocation
	members := few[:0]
	for more := !s.Closes('}'); more; {
		raw, err := s.Name()
		if err != nil {
			return nil, err
		}
		name := s.kept(raw)
		v, err := s.value(depth)
		if err != nil {
			return nil, err
		}
		members = append(members, replicator.Member{Name: name, Value: v})
		if more, err = s.More('}'); err != nil {
			return nil, err
		}
	}
	return replicator.MakeObject(append(make([]replicator.Member, 0, len(members)), members...)), nil
}

func (s *scanner) array(depth int) ([]any, error) {
	list := []any{}
	for more := !s.Closes(']'); more; {
		v, err := s.value(depth)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
		if more, err = s.More(']'); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// numberValue converts a number of valid syntax to an int64 or uint64 if that is exact, and otherwise to a Number.
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
		return -int64(n) // if n is 1<<63, both the conversion and the sign wrap, which gives the smallest int64
	}
	return replicator.Number(s.kept(raw))
}
