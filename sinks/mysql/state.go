package mysql

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"replicator"
)

// stateFormat is the first byte of a stored state. The form that follows, integers as varints:
//
//	segments, each: version + 1, order, as-of, number of views, and for each view:
//	    its id, the digest (8 bytes), length of what is kept, what is kept
//
// Views that stand at the same state, which is nearly always all of them, share a segment. A view that never saw the
// cell is in none.
const stateFormat = 1

// cellState is what is known of one cell, view by view. The views of other targets are carried along.
type cellState []viewState

// viewState is what is known of one cell in one view.
type viewState struct {
	view   uint32
	state  replicator.State
	digest uint64 // of the contribution; noDigest if it is none, deadDigest if it could not be computed or held
	kept   []byte // the contribution itself, where other cells' contributions need it
}

// What no contribution's digest is.
const (
	noDigest   = 0
	deadDigest = 1
)

// contributes reports whether the cell has something in the view. It may be asked of nil.
func (v *viewState) contributes() bool { return v != nil && v.digest > deadDigest }

// dead reports whether the cell has nothing in the view because it is a dead letter. It may be asked of nil.
func (v *viewState) dead() bool { return v != nil && v.digest == deadDigest }

// find returns the state of a view; nil if it never saw the cell.
func (c cellState) find(view uint32) *viewState {
	for i := range c {
		if c[i].view == view {
			return &c[i]
		}
	}
	return nil
}

// append appends the stored form.
func (c cellState) append(b []byte) []byte {
	b = append(b, stateFormat)
	for i := range c {
		if c.seen(i) {
			continue
		}
		s := c[i].state
		n := 0
		for _, v := range c[i:] {
			if v.state == s {
				n++
			}
		}
		b = binary.AppendUvarint(b, uint64(s.Version+1))
		b = binary.AppendUvarint(b, uint64(s.Order))
		b = binary.AppendUvarint(b, uint64(s.AsOf))
		b = binary.AppendUvarint(b, uint64(n))
		for _, v := range c[i:] {
			if v.state != s {
				continue
			}
			b = binary.AppendUvarint(b, uint64(v.view))
			b = binary.BigEndian.AppendUint64(b, v.digest)
			b = binary.AppendUvarint(b, uint64(len(v.kept)))
			b = append(b, v.kept...)
		}
	}
	return b
}

// seen reports whether an earlier view has the state of view i.
func (c cellState) seen(i int) bool {
	for _, v := range c[:i] {
		if v.state == c[i].state {
			return true
		}
	}
	return false
}

var errState = errors.New("the stored state is damaged")

// parseState reads the stored form. What is kept points into b.
func parseState(b []byte) (cellState, error) {
	if len(b) == 0 || b[0] != stateFormat {
		return nil, fmt.Errorf("%w, or of a newer version of this program", errState)
	}
	r := reader{b: b[1:]}
	var c cellState
	for len(r.b) > 0 && !r.bad {
		version, order, asOf := r.uvarint(), r.uvarint(), r.uvarint()
		if version > math.MaxInt64 || order > math.MaxInt64 || asOf > math.MaxInt64 {
			return nil, errState
		}
		s := replicator.State{Version: int64(version) - 1, Order: int64(order), AsOf: int64(asOf)}
		for n := r.uvarint(); n > 0 && !r.bad; n-- {
			v := viewState{state: s}
			id := r.uvarint()
			if id > math.MaxUint32 || c.find(uint32(id)) != nil {
				return nil, errState
			}
			v.view, v.digest = uint32(id), r.uint64()
			v.kept = r.bytes(r.uvarint())
			c = append(c, v)
		}
	}
	if r.bad {
		return nil, errState
	}
	return c, nil
}

// reader reads what append wrote; once something is missing it is bad and gives zeroes.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) uint64() uint64 {
	b := r.bytes(8)
	if len(b) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

func (r *reader) bytes(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	if n == 0 {
		return nil
	}
	return b
}

// entityID is where the cells of an entity stand in the table of states: all of them side by side.
func entityID(source string, key replicator.Key) string {
	b := binary.AppendUvarint(make([]byte, 0, len(source)+len(key)+2), uint64(len(source)))
	return string(append(append(b, source...), key...))
}

// cellID tells the cells of an entity apart.
func cellID(c replicator.Cell) string {
	b := binary.AppendUvarint(make([]byte, 0, len(c.Table)+len(c.Column)+2), uint64(len(c.Table)))
	return string(append(append(b, c.Table...), c.Column...))
}

// The longest that the table of states takes. InnoDB indexes 3,072 bytes.
const (
	maxEntity = 2048
	maxCell   = 768
)

// parseCell is the inverse of entityID and cellID.
func parseCell(source string, entity, cell []byte) (replicator.Cell, error) {
	r := reader{b: entity}
	name := r.bytes(r.uvarint())
	if r.bad || string(name) != source {
		return replicator.Cell{}, errState
	}
	key := replicator.Key(r.b)
	r = reader{b: cell}
	table := r.bytes(r.uvarint())
	if r.bad {
		return replicator.Cell{}, errState
	}
	return replicator.Cell{Table: string(table), Key: key, Column: string(r.b)}, nil
}
