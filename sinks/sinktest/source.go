package sinktest

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"replicator"
)

type row struct {
	version int64
	order   int64 // the log position of the row's last change: of two rows with equal versions, the later one counts
	body    body
}

// moment is the state of a cell from a log position on: its newest row, or nil if it has no row.
type moment struct {
	order  int64
	newest *row
}

// cell is a cell at the source, with its present and past rows.
type cell struct {
	id        replicator.Cell
	versioned bool // the cell may have several rows; otherwise at most one, whose version is its log position
	rows      []row
	past      []moment
	deleted   []row // deleted rows, which may be inserted again
}

func (c *cell) newestAt(order int64) *row {
	for _, m := range slices.Backward(c.past) {
		if m.order <= order {
			return m.newest
		}
	}
	return nil
}

func (c *cell) newest() *row {
	if len(c.rows) == 0 {
		return nil
	}
	r := slices.MaxFunc(c.rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.version, b.version),
			cmp.Compare(a.order, b.order))
	})
	return &r
}

type event struct {
	cell  *cell
	row   row  // the row after the change, or before its deletion
	gone  bool // the row was deleted
	place int64
}

type source struct {
	rnd     *rand.Rand
	subject *Subject
	ties    bool // rows of one cell may have equal versions
	cells   []*cell
	log     []event
	now     int64 // the log position of the last change
}

// newSource makes a source with a few cells. Keys and log positions begin at base, so that histories in one target
// don't overlap.
func newSource(rnd *rand.Rand, s *Subject, base int64, ties bool) *source {
	src := &source{rnd: rnd, subject: s, ties: ties, now: base}
	for entity := range 1 + rnd.IntN(3) {
		for _, f := range s.feeds() {
			if rnd.IntN(4) == 0 {
				continue
			}
			t := s.table(f.Table)
			id := replicator.Cell{Table: f.Table, Column: f.Column, Key: keyOf(t, base, int64(entity))}
			src.cells = append(src.cells, &cell{id: id, versioned: t.Version != ""})
		}
	}
	if len(src.cells) == 0 {
		return newSource(rnd, s, base, ties)
	}
	return src
}

// keyOf makes a key with 16 bytes in each of the table's key columns.
func keyOf(t *replicator.Table, base, entity int64) replicator.Key {
	values := make([]any, len(t.Key))
	for i := range values {
		b := binary.BigEndian.AppendUint64(nil, uint64(base))
		values[i] = binary.BigEndian.AppendUint64(b, uint64(entity)<<8|uint64(i))
	}
	key, err := replicator.MakeKey(values...)
	if err != nil {
		panic(err) // can't happen: any bytes make a key
	}
	return key
}

func (s *source) change() {
	c := s.cells[s.rnd.IntN(len(s.cells))]
	s.now += 1 + int64(s.rnd.IntN(3))
	if c.versioned {
		s.changeVersioned(c)
	} else {
		s.changeSingle(c)
	}
}

func (s *source) changeVersioned(c *cell) {
	top := int64(0)
	if n := c.newest(); n != nil {
		top = n.version
	}
	n := s.rnd.IntN(100)
	switch {
	case len(c.rows) == 0 || n < 45: // a new newest row; after deletes, the version may have existed before
		s.insert(c, top+1+int64(s.rnd.IntN(3)))
	case n < 52: // a new row with a lower version
		s.insert(c, max(0, top-1-int64(s.rnd.IntN(3))))
	case n < 62: // a body is updated in place
		i := s.rnd.IntN(len(c.rows))
		c.rows[i].body, c.rows[i].order = s.subject.body(s.rnd), s.now
		s.record(event{cell: c, row: c.rows[i], place: s.now})
	case n < 80: // the newest row is deleted
		newest := *c.newest()
		s.remove(c, slices.IndexFunc(c.rows, func(r row) bool {
			return r.version == newest.version &&
				r.order == newest.order
		}))
	case n < 92 || len(c.deleted) == 0: // any row is deleted
		s.remove(c, s.rnd.IntN(len(c.rows)))
	default: // a deleted row comes back
		s.insert(c, c.deleted[s.rnd.IntN(len(c.deleted))].version)
	}
}

// insert adds a row with the version, or with the next free one.
func (s *source) insert(c *cell, version int64) {
	for !s.ties && slices.ContainsFunc(c.rows, func(r row) bool { return r.version == version }) {
		version++
	}
	r := row{version: version, order: s.now, body: s.subject.body(s.rnd)}
	c.rows = append(c.rows, r)
	s.record(event{cell: c, row: r, place: s.now})
}

func (s *source) remove(c *cell, i int) {
	r := c.rows[i]
	c.rows = slices.Delete(c.rows, i, i+1)
	c.deleted = append(c.deleted, r)
	s.record(event{cell: c, row: r, gone: true, place: s.now})
}

func (s *source) changeSingle(c *cell) {
	if len(c.rows) > 0 && s.rnd.IntN(4) == 0 {
		s.remove(c, 0)
		return
	}
	r := row{version: s.now, order: s.now, body: s.subject.body(s.rnd)}
	c.rows = []row{r}
	s.record(event{cell: c, row: r, place: s.now})
}

func (s *source) clear() {
	for _, c := range s.cells {
		for len(c.rows) > 0 {
			s.now++
			s.remove(c, len(c.rows)-1)
		}
	}
}

func (s *source) record(e event) {
	s.log = append(s.log, e)
	newest := e.cell.newest()
	e.cell.past = append(e.cell.past, moment{order: s.now, newest: newest})
}

// earlier returns a position shortly before now, but at least low. A read of the source may claim to include only the
// changes up to this position, although it saw all changes.
func (s *source) earlier(low int64) int64 { return max(low, s.now-int64(s.rnd.IntN(8))) }

func (s *source) describe() string {
	var b strings.Builder
	for _, e := range s.log {
		what := "is"
		if e.gone {
			what = "was deleted:"
		}
		fmt.Fprintf(&b, "  %d %s version %d %s %v\n", e.place, e.cell.id, e.row.version, what, e.row.body)
	}
	return b.String()
}
