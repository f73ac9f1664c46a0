package mysql

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"replicator"
	"replicator/internal/remedy"
	"replicator/internal/wire"
	"replicator/sinks/judge"
)

// stateFormat is the first byte of a stored state. Then follow segments, with integers as varints:
//
//	version + 1, order, as-of, number of views, and for each view:
//	    its id, the digest (8 bytes), the length of the kept contribution, the kept contribution
//
// Views whose version, order and as-of are equal share a segment, so there is nearly always only one.
const stateFormat = 1

// cellState is the state of one cell, view by view, including views of other targets.
type cellState []viewState

type viewState struct {
	view   uint32
	state  replicator.State
	digest uint64 // the contribution's digest, or one of the reserved digests

	// kept is the contribution's encoded rows, or "". It is set if the view merges cells or is a counter, or if the
	// contribution waits for another source's row to be deleted (waitingDigest).
	kept string
}

// These digests are reserved: no contribution has one of them.
const (
	noDigest      = 0 // there is no contribution
	deadDigest    = 1 // the contribution could not be computed or written
	waitingDigest = 2 // the view shows another source's row; the contribution waits in `kept` until that row is deleted
)

// known converts the state for package judge. v may be nil.
func (v *viewState) known() judge.Known {
	if v == nil {
		return judge.Unseen
	}
	waits := v.digest == waitingDigest
	return judge.Known{State: v.state, Shown: v.digest > waitingDigest, Dead: waits || v.digest == deadDigest, Waits: waits}
}

// contribution returns the encoded rows of the contribution, if the state keeps them and the view shows them; else "".
// v may be nil.
func (v *viewState) contribution() string {
	if v == nil || v.digest <= waitingDigest {
		return ""
	}
	return v.kept
}

// find returns the cell's state in a view; nil if the view never saw the cell.
func (c cellState) find(view uint32) *viewState {
	for i := range c {
		if c[i].view == view {
			return &c[i]
		}
	}
	return nil
}

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
		b = binary.AppendUvarint(judge.AppendState(b, s), uint64(n))
		for _, v := range c[i:] {
			if v.state != s {
				continue
			}
			b = binary.AppendUvarint(b, uint64(v.view))
			b = binary.BigEndian.AppendUint64(b, v.digest)
			b = wire.AppendText(b, v.kept)
		}
	}
	return b
}

// seen reports whether one of the views before index i in `c` has the same state as view i.
func (c cellState) seen(i int) bool {
	for _, v := range c[:i] {
		if v.state == c[i].state {
			return true
		}
	}
	return false
}

var errState = errors.New("the stored state is damaged. Delete this cell's row from table " + stateTable +
	", and then run `replicator rebuild " + remedy.Views + "`")

// parseState parses the stored form of a state. The kept contributions are substrings of stored.
func parseState(stored string) (cellState, error) {
	r := wire.NewReader(stored)
	if format := r.Byte(); format > stateFormat {
		return nil, fmt.Errorf("the stored state has format %d, which a newer version of this program wrote. "+
			"This version knows format %d. Use the newer version", format, stateFormat)
	} else if format != stateFormat {
		return nil, errState
	}
	var c cellState
	for r.More() {
		state := judge.ReadState(&r)
		for n := r.Uvarint(); n > 0 && !r.Bad(); n-- {
			id := r.Uvarint()
			if id > math.MaxUint32 || c.find(uint32(id)) != nil {
				return nil, errState
			}
			c = append(c, viewState{view: uint32(id), state: state, digest: r.Uint64(), kept: r.Text()})
		}
	}
	if r.Bad() {
		return nil, errState
	}
	return c, nil
}

// entityID is the id of a source's key in the table of states. The source comes first, so its rows are adjacent.
func entityID(source string, key replicator.Key) string {
	return string(append(wire.AppendText(make([]byte, 0, len(source)+len(key)+2), source), key...))
}

// cellID is a cell's id in the table of states, where it distinguishes cells of one key.
func cellID(c replicator.Cell) string {
	return string(append(wire.AppendText(make([]byte, 0, len(c.Table)+len(c.Column)+2), c.Table), c.Column...))
}

// The sizes, in bytes, of the key columns of the table of states. An InnoDB index holds at most 3,072 bytes.
const (
	maxEntity = 2048
	maxCell   = 768
)

// described names a cell in an error message. entity and cell are its ids in the table of states.
func described(entity, cell []byte) string {
	e := wire.NewReader(string(entity))
	c, err := parseCell(e.Text(), string(entity), string(cell))
	if err != nil {
		return "a cell whose key is damaged"
	}
	return fmt.Sprintf("cell %s of entity %s", strings.Trim(c.Table+"."+c.Column, "."), c.Key)
}

func parseCell(source, entity, cell string) (replicator.Cell, error) {
	e, c := wire.NewReader(entity), wire.NewReader(cell)
	name, table := e.Text(), c.Text()
	if e.Bad() || c.Bad() || name != source {
		return replicator.Cell{}, errState
	}
	return replicator.Cell{Table: table, Key: replicator.Key(e.Rest()), Column: c.Rest()}, nil
}
