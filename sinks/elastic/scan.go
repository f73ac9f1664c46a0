package elastic

import (
	"strconv"

	"replicator/internal/jsonscan"
)

// scanner decodes the answers to _bulk and _mget and the states in documents, in a quarter of the time that
// encoding/json takes (BenchmarkAnswers). It only understands what Elasticsearch and this sink write. Anything else
// sets bad, and encoding/json decodes it.
type scanner struct {
	jsonscan.Scanner
	bad bool
}

func newScanner(text []byte) scanner { return scanner{Scanner: jsonscan.Scanner{Data: text}} }

// object reads a JSON object. It calls the function `member` for each member's name, and that function reads the value.
func (s *scanner) object(member func(name []byte)) {
	for more := s.opens('{'); more; more = s.goesOn('}') {
		name, err := s.Name()
		if s.bad = err != nil; !s.bad {
			member(name)
		}
	}
}

// array reads a JSON array. It calls the function `element` for each element, and that function reads the element.
func (s *scanner) array(element func()) {
	for more := s.opens('['); more; more = s.goesOn(']') {
		element()
	}
}

// opens reads an opening bracket, and reports whether an element follows.
func (s *scanner) opens(bracket byte) bool {
	s.Space()
	if s.bad = s.bad || s.Peek() != bracket; s.bad {
		return false
	}
	s.Pos++
	return !s.Closes(bracket + 2) // in ASCII, the closing bracket is two above the opening one
}

// goesOn reads the comma or bracket after an element, and reports whether another element follows.
func (s *scanner) goesOn(closing byte) bool {
	if s.bad {
		return false
	}
	more, err := s.More(closing)
	s.bad = err != nil
	return more
}

func (s *scanner) end() bool { return !s.bad && s.End() == nil }

// text reads a string without escapes and returns what is between its quotes.
func (s *scanner) text() []byte {
	if s.Peek() != '"' {
		s.bad = true
		return nil
	}
	raw, escaped, err := s.Text()
	s.bad = s.bad || escaped || err != nil
	return raw
}

// value returns the next value undecoded.
func (s *scanner) value() []byte {
	from := s.Pos
	s.bad = s.bad || s.Skip(0) != nil
	return s.Data[from:s.Pos]
}

func (s *scanner) number() int64 {
	n, err := strconv.ParseInt(string(s.value()), 10, 64)
	s.bad = s.bad || err != nil
	return n
}

func (s *scanner) flag() bool {
	v := s.value()
	is := string(v) == "true"
	s.bad = s.bad || !is && string(v) != "false"
	return is
}
