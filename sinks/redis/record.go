package redis

import (
	"encoding/binary"
	"errors"
	"fmt"

	"replicator"
	"replicator/internal/wire"
	"replicator/sinks/judge"
)

// A record is what the sink stores of one entity (the rows of one key): for each of its cells and each view, the state
// and the last contribution. It is one string in Redis:
//
//	8 bytes    nonce: a new one each time the record is written, so that a script can tell whether the record has
//	           changed since it was read
//	1 byte     fullFormat; or compactFormat, and then the rest has another form: see layout.go
//	uvarint    revision; see push.go
//	cells      their number, and each: table, column, key, the number of views, and each of these:
//	    id of the view (6 bytes), generation (number of its definition), state (version + 1, order,
//	    as-of), claims (contributions)
//	pending    the number of changes that may not have reached their keys yet, and each: see pending; if its kind has
//	           the bit hasGoes, the key is followed by the milliseconds until it expires, plus 1
//
// Numbers are uvarints; texts and lists of claims are preceded by their length.
type record struct {
	nonce    string // the nonce that the record had when it was read; "": there is no record yet
	revision uint64
	cells    []cellRecord
	pending  []pending
}

const (
	fullFormat = 1
	nonceSize  = 8
)

type cellRecord struct {
	cell  replicator.Cell
	views []viewRecord
}

// viewRecord is what the sink knows of a cell in a view. The claims are what the view's keys show now, even if an
// earlier definition of the view made them. The state counts only in the generation that wrote it: a view that is
// redefined begins a new one.
type viewRecord struct {
	id         viewID
	generation uint64
	state      replicator.State
	claims     string // what the cell contributes (see claim), as encoded by appendClaims
}

func (v *viewRecord) dead() bool { return v.claims != "" && v.claims[0] == kindDead }

// contributes reports whether the view's keys show something of the cell.
func (v *viewRecord) contributes() bool { return v.claims != "" && !v.dead() }

// pending is a change of one key, listed in the record until the key has been changed. It exists only in a cluster,
// where no script reaches both the record and the key.
type pending struct {
	viewKey
	goes goes
	args []string // the arguments of the change, as the scripts take them
}

// hasGoes is a flag in the stored kind of a pending change that sets or removes the key's expiry.
const hasGoes = 0x80

var errDamaged = errors.New("its record is damaged: delete the Redis key " + entityPrefix + ":KEY, where KEY is the " +
	"entity's key, and then run `replicator verify --repair`")

// parseRecord parses an entity's stored record; "" is no record.
func (a *arena) parseRecord(s, entity string, known *layouts) (*record, error) {
	r := a.records.new()
	if s == "" {
		return r, nil
	}
	if len(s) <= nonceSize {
		return nil, errDamaged
	}
	r.nonce = s[:nonceSize]
	in := wire.NewReader(s[nonceSize+1:])
	ok := false
	switch format := s[nonceSize]; format {
	case 0:
	case fullFormat:
		ok = a.parseFull(r, &in)
	case compactFormat:
		layout, is := known.get(in.Bytes(layoutIDSize))
		if !is && !in.Bad() {
			return nil, errNoLayout
		}
		e := expander{arena: a, layout: wire.NewReader(layout), values: in, entity: entity}
		ok = e.expand(r)
	default:
		return nil, fmt.Errorf("its record has format %d, which a newer version of this program wrote; "+
			"this one knows format %d: use the newer version", format, compactFormat)
	}
	if !ok {
		return nil, errDamaged
	}
	return r, nil
}

// parseFull reads the full form of a record. It reports false if the record is damaged.
func (a *arena) parseFull(r *record, in *wire.Reader) bool {
	r.revision = in.Uvarint()
	n := in.Count()
	r.cells = a.cells.grow(r.cells, min(n, few))
	for ; n > 0 && !in.Bad(); n-- {
		c := cellRecord{cell: replicator.Cell{Table: in.Text(), Column: in.Text(), Key: replicator.Key(in.Text())}}
		n := in.Count()
		c.views = a.views.grow(c.views, min(n, few))
		for ; n > 0 && !in.Bad(); n-- {
			c.views = append(c.views, viewRecord{
				id: viewID(in.Bytes(viewIDSize)), generation: in.Uvarint(), state: judge.ReadState(in), claims: in.Text(),
			})
		}
		r.cells = append(r.cells, c)
	}
	for n := in.Count(); n > 0 && !in.Bad(); n-- {
		p := pending{viewKey: viewKey{viewID(in.Bytes(viewIDSize)), in.Byte(), in.Text()}}
		if p.kind&hasGoes != 0 {
			p.kind, p.goes = p.kind&^hasGoes, goes(in.Uvarint())-1
		}
		for n := in.Count(); n > 0 && !in.Bad(); n-- {
			p.args = append(p.args, in.Text())
		}
		r.pending = append(r.pending, p)
	}
	return !in.Bad() && !in.More()
}

// append appends the record in its full form, from the byte fullFormat on. The caller writes the nonce, which precedes
// that byte.
func (r *record) append(b []byte) []byte {
	b = append(b, fullFormat)
	b = binary.AppendUvarint(b, r.revision)
	b = binary.AppendUvarint(b, uint64(len(r.cells)))
	for _, c := range r.cells {
		b = wire.AppendText(wire.AppendText(wire.AppendText(b, c.cell.Table), c.cell.Column), string(c.cell.Key))
		b = binary.AppendUvarint(b, uint64(len(c.views)))
		for _, v := range c.views {
			b = append(b, v.id...)
			b = judge.AppendState(binary.AppendUvarint(b, v.generation), v.state)
			b = wire.AppendText(b, v.claims)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(r.pending)))
	for _, p := range r.pending {
		kind := p.kind
		if p.goes != asIs {
			kind |= hasGoes
		}
		b = wire.AppendText(append(append(b, p.id...), kind), p.key)
		if p.goes != asIs {
			b = binary.AppendUvarint(b, uint64(p.goes+1))
		}
		b = binary.AppendUvarint(b, uint64(len(p.args)))
		for _, a := range p.args {
			b = wire.AppendText(b, a)
		}
	}
	return b
}

// find returns what the record has of a cell in a view; nil if there is nothing.
func (r *record) find(c replicator.Cell, id viewID) *viewRecord {
	if cell := r.cell(c); cell != nil {
		return cell.view(id)
	}
	return nil
}

// set stores the state of a cell in a view. views is the number of views that a new cell gets room for.
func (a *arena) set(r *record, c replicator.Cell, v viewRecord, views int) {
	cell := r.cell(c)
	if cell == nil {
		r.cells = append(a.cells.grow(r.cells, 1), cellRecord{cell: c, views: a.views.take(views)})
		cell = &r.cells[len(r.cells)-1]
	}
	if known := cell.view(v.id); known != nil {
		*known = v
		return
	}
	cell.views = append(cell.views, v)
}

func (r *record) cell(c replicator.Cell) *cellRecord {
	for i := range r.cells {
		if r.cells[i].cell == c {
			return &r.cells[i]
		}
	}
	return nil
}

func (c *cellRecord) view(id viewID) *viewRecord {
	for i := range c.views {
		if c.views[i].id == id {
			return &c.views[i]
		}
	}
	return nil
}
