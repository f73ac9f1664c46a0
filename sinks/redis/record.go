package redis

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"replicator"
)

// A record is what the sink remembers of one entity: for each of its cells and each view the state, and what the cell
// contributed last. It is one string in Redis:
//
//	8 bytes    nonce: another one each time the record is written, so that a script can tell whether it is still the one
//	           that was decided on
//	1 byte     recordFormat
//	uvarint    revision; see push.go
//	cells      their number, and each: table, column, key, the number of views, and each of these:
//	    id of the view (6 bytes), generation, state (version + 1, order, as-of), claims
//	pending    the number of changes that may not have reached their keys yet, and each: see pending
//
// Numbers are uvarints; texts and lists of claims have their length in front.
type record struct {
	nonce    string // of what was read; "": there is no record yet
	revision uint64
	cells    []cellRecord
	pending  []pending
}

const (
	recordFormat = 1
	nonceSize    = 8
)

type cellRecord struct {
	cell  replicator.Cell
	views []viewRecord
}

// viewRecord is what is known of a cell in a view. The claims are those that its key shows now, whatever the
// generation; the state counts only in the generation that it was made in: a view that was forgotten or redefined
// begins a new one.
type viewRecord struct {
	id         viewID
	generation uint64
	state      replicator.State
	claims     string // encoded
}

// dead reports whether the cell is a dead letter in the view: a claim of its own says so, and is the only one then.
func (v *viewRecord) dead() bool { return v.claims != "" && v.claims[0] == kindDead }

// contributes reports whether the view's keys show something of the cell.
func (v *viewRecord) contributes() bool { return v.claims != "" && !v.dead() }

// pending is a change of one key that stands in the record before the key is touched: only in a cluster, where a key
// and the record live apart.
type pending struct {
	id   viewID
	kind byte
	key  string
	args []string // as the scripts take them
}

var errDamaged = errors.New("its record is damaged")

// parseRecord reads a stored record; "" is no record.
func parseRecord(s string) (*record, error) {
	if s == "" {
		return &record{}, nil
	}
	if len(s) <= nonceSize {
		return nil, errDamaged
	}
	if s[nonceSize] != recordFormat {
		return nil, fmt.Errorf("%w, or was written by a newer version of this program", errDamaged)
	}
	r := &record{nonce: s[:nonceSize]}
	d := decoder{s: s[nonceSize+1:]}
	r.revision = d.uvarint()
	n := d.count()
	r.cells = slices.Grow(r.cells, int(min(n, few)))
	for ; n > 0 && !d.bad; n-- {
		c := cellRecord{cell: replicator.Cell{Table: d.text(), Column: d.text(), Key: replicator.Key(d.text())}}
		n := d.count()
		c.views = slices.Grow(c.views, int(min(n, few)))
		for ; n > 0 && !d.bad; n-- {
			c.views = append(c.views, d.view())
		}
		r.cells = append(r.cells, c)
	}
	for n := d.count(); n > 0 && !d.bad; n-- {
		p := pending{id: viewID(d.bytes(viewIDSize)), kind: d.byte(), key: d.text()}
		for n := d.count(); n > 0 && !d.bad; n-- {
			p.args = append(p.args, d.text())
		}
		r.pending = append(r.pending, p)
	}
	if d.bad || d.s != "" {
		return nil, errDamaged
	}
	return r, nil
}

func (d *decoder) view() viewRecord {
	v := viewRecord{id: viewID(d.bytes(viewIDSize)), generation: d.uvarint()}
	version, order, asOf := d.uvarint(), d.uvarint(), d.uvarint()
	if version > math.MaxInt64 || order > math.MaxInt64 || asOf > math.MaxInt64 {
		d.fail()
		return v
	}
	v.state = replicator.State{Version: int64(version) - 1, Order: int64(order), AsOf: int64(asOf)}
	v.claims = d.text()
	return v
}

// append appends the stored form, without the nonce.
func (r *record) append(b []byte) []byte {
	b = append(b, recordFormat)
	b = binary.AppendUvarint(b, r.revision)
	b = binary.AppendUvarint(b, uint64(len(r.cells)))
	for _, c := range r.cells {
		b = appendText(appendText(appendText(b, c.cell.Table), c.cell.Column), string(c.cell.Key))
		b = binary.AppendUvarint(b, uint64(len(c.views)))
		for _, v := range c.views {
			b = append(b, v.id...)
			b = binary.AppendUvarint(b, v.generation)
			b = binary.AppendUvarint(b, uint64(v.state.Version+1))
			b = binary.AppendUvarint(b, uint64(v.state.Order))
			b = binary.AppendUvarint(b, uint64(v.state.AsOf))
			b = appendText(b, v.claims)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(r.pending)))
	for _, p := range r.pending {
		b = append(append(b, p.id...), p.kind)
		b = appendText(b, p.key)
		b = binary.AppendUvarint(b, uint64(len(p.args)))
		for _, a := range p.args {
			b = appendText(b, a)
		}
	}
	return b
}

// find returns what is known of a cell in a view; nil if that is nothing.
func (r *record) find(c replicator.Cell, id viewID) *viewRecord {
	for i := range r.cells {
		if r.cells[i].cell != c {
			continue
		}
		for j := range r.cells[i].views {
			if r.cells[i].views[j].id == id {
				return &r.cells[i].views[j]
			}
		}
	}
	return nil
}

// set keeps what is known of a cell in a view.
func (r *record) set(c replicator.Cell, v viewRecord) {
	if known := r.find(c, v.id); known != nil {
		*known = v
		return
	}
	i := slices.IndexFunc(r.cells, func(r cellRecord) bool { return r.cell == c })
	if i < 0 {
		i = len(r.cells)
		r.cells = append(r.cells, cellRecord{cell: c})
	}
	r.cells[i].views = append(r.cells[i].views, v)
}

// A claim is one thing that a cell puts into a view.
type claim struct {
	kind   byte
	key    string
	member string // of s, m, u and z; "": the entity's key
	amount string // of c and z, in decimal digits
	row    *row   // of h and j
}

// The kinds of claims, by which the scripts know them, too.
const (
	kindHash    = 'h'
	kindJSON    = 'j'
	kindSet     = 's' // a set of entities' keys
	kindMembers = 'm' // a set of other members: several entities may claim one
	kindUnique  = 'u'
	kindCounter = 'c'
	kindRanking = 'z'
	kindDead    = 'd' // no contribution: the entity is one of those that have a dead letter in the view
)

// row is what a cell gives to a hash or a JSON object.
type row struct {
	fields []field
	digest digest // of names and values
	kept   bool   // the values are kept in the record, because other cells are merged with them
	whole  bool   // the values are at hand; else only the names
}

type field struct{ name, value string }

const digestSize = 16

type digest [digestSize]byte

func appendClaims(b []byte, claims []claim) []byte {
	for _, c := range claims {
		b = appendText(append(b, c.kind), c.key)
		switch c.kind {
		case kindHash, kindJSON:
			b = append(b, c.row.digest[:]...)
			kept := byte(0)
			if c.row.kept {
				kept = 1
			}
			b = append(b, kept)
			b = binary.AppendUvarint(b, uint64(len(c.row.fields)))
			for _, f := range c.row.fields {
				b = appendText(b, f.name)
				if c.row.kept {
					b = appendText(b, f.value)
				}
			}
		default:
			b = appendText(appendText(b, c.member), c.amount)
		}
	}
	return b
}

// parseClaims reads what appendClaims wrote.
func parseClaims(s string) ([]claim, error) {
	d := decoder{s: s}
	var claims []claim
	for d.s != "" && !d.bad {
		c := claim{kind: d.byte(), key: d.text()}
		switch c.kind {
		case kindHash, kindJSON:
			c.row = &row{digest: digest([]byte(d.bytes(digestSize)))}
			switch d.byte() {
			case 0:
			case 1:
				c.row.kept, c.row.whole = true, true
			default:
				d.fail()
			}
			n := d.count()
			c.row.fields = slices.Grow(c.row.fields, int(min(n, few)))
			for ; n > 0 && !d.bad; n-- {
				f := field{name: d.text()}
				if c.row.kept {
					f.value = d.text()
				}
				c.row.fields = append(c.row.fields, f)
			}
		case kindSet, kindMembers, kindUnique, kindCounter, kindRanking, kindDead:
			c.member, c.amount = d.text(), d.text()
		default:
			d.fail()
		}
		claims = append(claims, c)
	}
	if d.bad {
		return nil, errDamaged
	}
	return claims, nil
}

// otherValues reports whether two lists of claims are of one row each, without kept values, and differ in the row's
// digest alone: key and names are the same.
func otherValues(a string, b []byte) bool {
	d := decoder{s: a}
	if kind := d.byte(); kind != kindHash && kind != kindJSON || len(a) != len(b) {
		return false
	}
	d.text()
	at := len(a) - len(d.s)
	after := at + digestSize
	return !d.bad && after < len(a) && a[after] == 0 && a[:at] == string(b[:at]) && a[after:] == string(b[after:])
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// decoder reads what was appended; once something is missing it is bad and gives nothing.
type decoder struct {
	s   string
	bad bool
}

func (d *decoder) fail() { d.s, d.bad = "", true }

func (d *decoder) uvarint() uint64 {
	var v uint64
	for i := 0; i < len(d.s) && i < binary.MaxVarintLen64; i++ {
		c := d.s[i]
		if i == binary.MaxVarintLen64-1 && c > 1 || i > 0 && c == 0 {
			break // too large, or not the shortest form, which is all that is ever written
		}
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			d.s = d.s[i+1:]
			return v
		}
	}
	d.fail()
	return 0
}

// count is a number of things of a byte at least, so that a damaged one can't ask for more than there is.
func (d *decoder) count() uint64 {
	n := d.uvarint()
	if n > uint64(len(d.s)) {
		d.fail()
		return 0
	}
	return n
}

func (d *decoder) bytes(n uint64) string {
	if n > uint64(len(d.s)) {
		d.fail()
		return strings.Repeat("\x00", int(min(n, digestSize)))
	}
	s := d.s[:n]
	d.s = d.s[n:]
	return s
}

func (d *decoder) byte() byte { return d.bytes(1)[0] }

func (d *decoder) text() string {
	n := d.uvarint()
	if n > uint64(len(d.s)) {
		d.fail()
		return ""
	}
	return d.bytes(n)
}
