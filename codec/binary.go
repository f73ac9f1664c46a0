package codec

import (
	"fmt"
	"unicode/utf8"

	"replicator"
)

// reader reads the binary formats that write lengths before what they are of, big end first.
type reader struct {
	data []byte
	pos  int
}

// decodeAll decodes one value that must be all of body.
func decodeAll(body []byte, value func(*reader, int) (any, error)) (any, error) {
	r := &reader{data: body}
	v, err := value(r, 0)
	if err == nil && r.pos < len(r.data) {
		err = errTrailing
	}
	if err != nil {
		return nil, fmt.Errorf("%w, at offset %d", err, r.pos)
	}
	return v, nil
}

func (r *reader) take(n uint64) ([]byte, error) {
	if n > uint64(len(r.data)-r.pos) {
		return nil, errShort
	}
	b := r.data[r.pos : r.pos+int(n)]
	r.pos += int(n)
	return b, nil
}

// uint reads an integer of n bytes.
func (r *reader) uint(n int) (uint64, error) {
	b, err := r.take(uint64(n))
	var v uint64
	for _, c := range b {
		v = v<<8 | uint64(c)
	}
	return v, err
}

// text reads n bytes that must be UTF-8.
func (r *reader) text(n uint64) (string, error) {
	b, err := r.take(n)
	if err == nil && !utf8.Valid(b) {
		err = errText
	}
	return string(b), err
}

// bytes reads n bytes.
func (r *reader) bytes(n uint64) ([]byte, error) {
	b, err := r.take(n)
	return append([]byte{}, b...), err
}

// Memory for lists and maps grows with what is read: a length may lie, on every level.
const (
	firstList = 256
	firstMap  = 16
)

// list reads n values.
func (r *reader) list(n uint64, depth int, value func(*reader, int) (any, error)) (any, error) {
	list := make([]any, 0, min(n, firstList))
	for range n {
		v, err := value(r, depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// dict reads n members.
func (r *reader) dict(n uint64, depth int, value func(*reader, int) (any, error)) (any, error) {
	members := make([]replicator.Member, 0, min(n, firstMap))
	for range n {
		m, err := r.member(depth, value)
		if err != nil {
			return nil, err
		}
		members = append(members, m)
	}
	return replicator.MakeObject(members), nil
}

func (r *reader) member(depth int, value func(*reader, int) (any, error)) (m replicator.Member, err error) {
	key, err := value(r, depth+1)
	if err != nil {
		return m, err
	}
	if m.Name, err = memberName(key); err != nil {
		return m, err
	}
	m.Value, err = value(r, depth+1)
	return m, err
}
