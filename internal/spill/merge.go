package spill

import "bytes"

// input returns entries in key order.
type input interface {
	// next moves to the next entry, and reports whether there is one. The previous entry is no longer valid.
	next() (bool, error)
	entry() (key, value []byte)
}

// merge calls `each` for every entry of all inputs in key order, until `each` returns false or fails. If several
// inputs have a key, the last of them counts.
func merge(all []input, each func(key, value []byte) (bool, error)) error {
	left := all[:0:0]
	for _, s := range all {
		more, err := s.next()
		if err != nil {
			return err
		}
		if more {
			left = append(left, s)
		}
	}
	for len(left) > 0 {
		newest := len(left) - 1
		key, value := left[newest].entry()
		for i := newest - 1; i >= 0; i-- {
			if k, v := left[i].entry(); bytes.Compare(k, key) < 0 {
				newest, key, value = i, k, v
			}
		}
		if more, err := each(key, value); err != nil || !more {
			return err
		}
		kept := left[:0]
		// Move each input that is at `key` to its next entry. The newest input moves last, because `key` is a part of
		// its memory.
		for i, s := range left {
			if k, _ := s.entry(); i == newest || i < newest && bytes.Equal(k, key) {
				more, err := s.next()
				if err != nil {
					return err
				}
				if !more {
					continue
				}
			}
			kept = append(kept, s)
		}
		left = kept
	}
	return nil
}

// cursor is an input that reads a run.
type cursor struct {
	run        *run
	block      int // index of the next block to read
	memory     []byte
	rest       []byte // the unread part of the current block
	key, value []byte
}

func (c *cursor) next() (bool, error) {
	if len(c.rest) == 0 {
		if c.block >= len(c.run.offsets) {
			return false, nil
		}
		var err error
		if c.memory, err = c.run.read(c.block, c.memory); err != nil {
			return false, err
		}
		c.rest = c.memory
		c.block++
	}
	var err error
	c.key, c.value, c.rest, err = split(c.rest)
	return err == nil, err
}

func (c *cursor) entry() (key, value []byte) { return c.key, c.value }

// inMemory returns the entries of a map in the order of their keys.
type inMemory struct {
	values map[string][]byte
	keys   []string // the map's keys, sorted
	at     int
	key    []byte
}

func (s *inMemory) next() (bool, error) {
	if s.at++; s.at >= len(s.keys) {
		return false, nil
	}
	s.key = append(s.key[:0], s.keys[s.at]...)
	return true, nil
}

func (s *inMemory) entry() (key, value []byte) { return s.key, s.values[s.keys[s.at]] }
