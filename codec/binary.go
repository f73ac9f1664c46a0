package codec

import (
	"fmt"
	"unicode/utf8"

	"replicator"
)

// reader reads the two binary formats, MessagePack and CBOR. Their numbers are big-endian.
type reader struct {
	data  []byte
	pos   int
	value func(r *reader, depth int) (any, error)
	left  int // how many more values may be created: see MaxValues

	// skips is set while a member that no view uses is read. Its syntax is checked, but its lists, maps, strings and
	// bytes are returned empty.
	skips bool

	// wanted receives the top-level members that views use. It is nil if views use all members. It is also nil inside
	// the body's top-level map or list, so that nested maps are read completely.
	wanted *wanted
}

// wanted holds the members of a body that views use. Only these are decoded.
type wanted struct {
	names  names
	values []any
}

// decodeAll decodes a value that must fill the whole body. If w is not nil, the body's top-level members that w names
// go to w, and the returned value is empty.
func decodeAll(body []byte, w *wanted, value func(*reader, int) (any, error)) (any, error) {
	r := &reader{data: body, value: value, left: MaxValues, wanted: w}
	v, err := r.next(0)
	if err == nil && r.pos < len(r.data) {
		err = errTrailing
	}
	if err != nil {
		return nil, fmt.Errorf("%w, at offset %d", err, r.pos)
	}
	return v, nil
}

// next reads a value. It refuses a body that nests too deep, or of which more than MaxValues values would be kept.
func (r *reader) next(depth int) (any, error) {
	if depth >= MaxDepth {
		return nil, errDepth
	}
	if !r.skips {
		if r.left--; r.left < 0 {
			return nil, errMany
		}
	}
	return r.value(r, depth)
}

func (r *reader) take(n uint64) ([]byte, error) {
	if n > uint64(len(r.data)-r.pos) {
		return nil, errShort
	}
	b := r.data[r.pos : r.pos+int(n)]
	r.pos += int(n)
	return b, nil
}

func (r *reader) uint(n int) (uint64, error) {
	b, err := r.take(uint64(n))
	var v uint64
	for _, c := range b {
		v = v<<8 | uint64(c)
	}
	return v, err
}

func (r *reader) text(n uint64) (string, error) {
	b, err := r.take(n)
	if err == nil && !utf8.Valid(b) {
		err = errText
	}
	if r.skips {
		return "", err
	}
	return string(b), err
}

func (r *reader) bytes(n uint64) ([]byte, error) {
	b, err := r.take(n)
	if r.skips {
		return nil, err
	}
	return append([]byte{}, b...), err
}

// Initial capacities of lists and maps. Both grow as they are read, because a body can claim a false length at every
// level.
const (
	firstList = 256
	firstMap  = 16
)

// list reads n values. If n is the constant indefinite, the list ends with CBOR's break code.
func (r *reader) list(n uint64, depth int) (any, error) {
	r.wanted = nil // views select members of the body's top-level map only
	list := []any{}
	if !r.skips && n != indefinite {
		list = make([]any, 0, min(n, firstList))
	}
	for {
		if more, err := r.more(&n); !more || err != nil {
			return list, err
		}
		v, err := r.next(depth + 1)
		if err != nil {
			return nil, err
		}
		if !r.skips {
			list = append(list, v)
		}
	}
}

// dict reads a map of n members. If n is the constant indefinite, the map ends with CBOR's break code.
func (r *reader) dict(n uint64, depth int) (any, error) {
	if r.wanted != nil {
		w := r.wanted
		r.wanted = nil
		return r.wantedOf(w, n, depth)
	}
	members := []replicator.Member{}
	if !r.skips && n != indefinite {
		members = make([]replicator.Member, 0, min(n, firstMap))
	}
	for {
		if more, err := r.more(&n); !more || err != nil {
			return replicator.MakeObject(members), err
		}
		m, err := r.member(depth)
		if err != nil {
			return nil, err
		}
		if !r.skips {
			members = append(members, m)
		}
	}
}

// wantedOf reads the body's top-level map. It sets w.values to the members that w.names lists, and skips the others.
func (r *reader) wantedOf(w *wanted, n uint64, depth int) (any, error) {
	for {
		if more, err := r.more(&n); !more || err != nil {
			return replicator.Object(nil), err
		}
		name, err := r.name(depth)
		if err != nil {
			return nil, err
		}
		i := w.names.find([]byte(name))
		if r.skips = i < 0; r.skips {
			r.left++ // MaxValues does not count the name of a skipped member
		}
		v, err := r.next(depth + 1)
		r.skips = false
		if err != nil {
			return nil, err
		}
		if i >= 0 {
			w.values[i] = v
		}
	}
}

// more reports whether another value of a list or map follows, and counts it in n, the number of values left.
func (r *reader) more(n *uint64) (bool, error) {
	switch *n {
	case 0:
		return false, nil
	case indefinite:
		return r.continues()
	}
	*n--
	return true, nil
}

func (r *reader) member(depth int) (m replicator.Member, err error) {
	if m.Name, err = r.name(depth); err != nil {
		return m, err
	}
	m.Value, err = r.next(depth + 1)
	return m, err
}

func (r *reader) name(depth int) (string, error) {
	key, err := r.next(depth + 1)
	if err != nil {
		return "", err
	}
	return memberName(key)
}
