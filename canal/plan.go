package canal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"replicator"
	"replicator/canal/binlog"
	"replicator/internal/nearest"
	"replicator/internal/remedy"
)

// plan says how to decode the row images that a table map describes: which columns are needed, and how to skip the
// others.
type plan struct {
	t      *watched
	raw    []byte // the bytes of the table map
	single bool   // the table has at most one row per cell
	passed error  // why the rows can't be read and are skipped; nil: they can be read

	columns []binlog.Column
	wanted  []bool
	roles
	rowEnd  int   // the index of the column with a system-versioned row's end time; -1: the table is not versioned
	primary []int // indexes of the primary key's columns; nil: rows can't be looked up by that key
	oldTime int   // the index of the first column with a time in MariaDB's 5.3 format; -1: none

	refers []reference // joins of other tables that find rows of this table, with the columns that they compare

	// kinds caches decoded values of the column role (Table.Column), by their bytes in the binlog. The column has few
	// different values, so rows share the strings.
	kinds map[string]columnValue

	constants []constant // a pattern's $database and $table; in `roles`, constants[i] is constantPlace(i)

	keys replicator.KeyBuilder
	pad  []byte // room to pad a BINARY key with zero bytes
}

// columnValue is a value of the column role (Table.Column): as the row has it (`stored`), and the name that cells get
// for it (see columnNames).
type columnValue struct{ name, stored string }

const maxKinds = 1000

// newPlan makes the plan for a table map of a watched table. It takes the names of columns from the map, or else from
// the table's layout. The error has type `unreadable` if a needed column is missing.
func newPlan(t *watched, body []byte, m *binlog.TableMap, l *layout, charsets binlog.Charsets) (*plan, error) {
	s := t.schema.Load()
	p := &plan{t: t, raw: bytes.Clone(body), single: s.single(&t.Table), kinds: map[string]columnValue{}}
	for i := range m.Types {
		var known *binlog.Declared
		if m.Names == nil {
			known = &l.declared(i).Declared
		} else if now := s.column(string(m.Names[i])); now != nil {
			known = &now.Declared
		}
		c, err := binlog.NewColumn(m, i, known, charsets)
		if errors.Is(err, binlog.ErrOldTime) { // the known layout is from a later position, where the format may differ
			err = unreadable{why: err.Error()}
		}
		if err != nil {
			return nil, fmt.Errorf("%w. %s", err, wayOut)
		}
		p.columns = append(p.columns, c)
	}
	if err := p.assign(s); err != nil {
		return nil, err
	}
	p.primary = p.primaryOf(s)
	return p, p.sameKeys(s)
}

// sameKeys fails if the type of a key column changed after these rows were written. The rows' keys then no longer match
// the table's current keys.
func (p *plan) sameKeys(s *schema) error {
	for _, i := range p.key {
		if i < 0 {
			continue
		}
		c := &p.columns[i]
		if now := s.column(c.Name); now != nil && keyKindOf(c.Kind) != keyKindOf(newSelected(now).kind) {
			return fmt.Errorf("column %s had another type at this log position than now: %w. `replicator "+
				"rebuild "+remedy.Views+
				"` fills again the views that read the column", c.Name, replicator.ErrRedefined)
		}
	}
	return nil
}

// learn asks the server for the character set tables that decoding the needed columns requires. It must be called
// before rows are read.
func (p *plan) learn(ctx context.Context, charsets binlog.Charsets) error {
	for i := range p.columns {
		if !p.wanted[i] {
			continue
		}
		if err := p.columns[i].Learn(ctx, charsets); err != nil {
			return fmt.Errorf("column %s: %w", p.columns[i].Name, err)
		}
	}
	return nil
}

func (p *plan) assign(s *schema) error {
	p.wanted = make([]bool, len(p.columns))
	p.oldTime = slices.IndexFunc(p.columns, func(c binlog.Column) bool { return c.IsOldTime() })
	if p.rowEnd = rowEndOf(s, p.columns); p.rowEnd >= 0 {
		p.wanted[p.rowEnd] = true
	}
	p.constants = s.constants
	names := make([]string, len(p.columns))
	for i := range p.columns {
		names[i] = p.columns[i].Name
	}
	var err error
	p.roles, err = p.t.findRoles(s.withConstants(names), func(role, name string) (int, error) {
		if i := s.constant(name); i >= 0 {
			return constantPlace(i), nil
		}
		i := slices.IndexFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
		if i < 0 {
			return -1, unreadable{why: fmt.Sprintf("there is no column %s (%s)%s; the table was altered, or the configuration "+
				"is wrong. Restore the column or correct the configuration", name, role, nearest.Close(name, names))}
		}
		p.wanted[i] = true
		if err := p.columns[i].Problem; err != nil && role != "" { // a column only requested by "*" is left out
			return -1, fmt.Errorf("column %s (%s): %w", name, role, err)
		}
		return i, nil
	}, func(i int) binlog.Kind {
		if i < 0 {
			return binlog.KindText
		}
		return p.columns[i].Kind
	})
	if err != nil {
		return err
	}
	return p.assignReferences()
}

// image is one row image: the bytes of the needed columns, inside the event's memory. A nil value is NULL or missing.
type image struct {
	values [][]byte
	lacks  []lack // for each column, why it is missing; nil: no column is missing
	spare  []lack
}

// split reads one row image and returns its length in bytes. part says which columns the image has; nil: all.
func (p *plan) split(data []byte, img *image, part *imagePart) (int, error) {
	if cap(img.values) < len(p.columns) {
		img.values = make([][]byte, len(p.columns))
	}
	img.values = img.values[:len(p.columns)]
	if part != nil {
		return p.splitPart(data, img, part)
	}
	img.lacks = nil
	nulls := (len(p.columns) + 7) / 8
	if len(data) < nulls {
		return 0, binlog.ErrShort
	}
	off := nulls
	for i := range p.columns {
		if data[i>>3]>>(i&7)&1 != 0 {
			img.values[i] = nil
			continue
		}
		c := &p.columns[i]
		n := c.Width
		if n == 0 || n > len(data)-off {
			if n = c.Size(data[off:]); n < 0 {
				return 0, binlog.ErrShort
			}
		}
		if p.wanted[i] {
			from := off
			if c.Width == 0 {
				from += c.Prefix
			}
			img.values[i] = data[from : off+n : off+n]
		}
		off += n
	}
	return off, nil
}

func (p *plan) sameCell(ctx context.Context, a, b *image) bool {
	for _, i := range p.key {
		if i >= 0 && !bytes.Equal(a.values[i], b.values[i]) {
			return false
		}
	}
	if p.column < 0 || bytes.Equal(a.values[p.column], b.values[p.column]) {
		return true
	}
	if p.t.names == nil {
		return false
	}
	was, err := p.columnValue(ctx, a)
	now, nowErr := p.columnValue(ctx, b)
	return err == nil && nowErr == nil && was.name == now.name
}

// keyError is the error for a row that belongs to no cell, because a key value is NULL or can't be read.
type keyError struct{ error }

func asKeyError(err error) (keyError, bool) {
	if err == nil {
		return keyError{}, false
	}
	var key keyError
	return key, errors.As(err, &key)
}

func (p *plan) cell(ctx context.Context, img *image) (replicator.Cell, error) {
	cell := replicator.Cell{Table: p.t.Name}
	for _, i := range p.key {
		if i < 0 {
			p.keys.Text([]byte(p.constants[constantPlace(i)].value))
			continue
		}
		if err := p.addKey(&p.columns[i], img.values[i]); err != nil {
			p.keys.Key()
			return cell, keyError{fmt.Errorf("key column %s: %w", p.columns[i].Name, err)}
		}
	}
	cell.Key = p.keys.Key()
	if p.column < 0 {
		return cell, nil
	}
	column, err := p.columnValue(ctx, img)
	cell.Column = column.name
	return cell, err
}

// columnValue returns the row's value of the column role; an empty columnValue if the column is NULL.
func (p *plan) columnValue(ctx context.Context, img *image) (columnValue, error) {
	raw := img.values[p.column]
	if raw == nil {
		return columnValue{}, nil
	}
	if known, ok := p.kinds[string(raw)]; ok {
		return known, nil
	}
	as, err := p.columnAs(raw)
	found := columnValue{stored: as}
	if err == nil {
		found.name, err = p.t.names.cellName(ctx, found.stored)
	}
	if err != nil {
		return columnValue{}, fmt.Errorf("column %s: %w", p.columns[p.column].Name, err)
	}
	if len(p.kinds) < maxKinds {
		p.kinds[string(raw)] = found
	}
	return found, nil
}

func (p *plan) columnAs(raw []byte) (string, error) {
	if known, ok := p.kinds[string(raw)]; ok {
		return known.stored, nil
	}
	v, err := p.columns[p.column].Value(raw)
	return replicator.FormatValue(v), err
}

var errNull = errors.New("it is NULL")

// addKey adds a value to the key that is being built. The key is the same as MakeKey makes of decoded values, but the
// most frequent kinds of values are not decoded, which saves allocations.
func (p *plan) addKey(c *binlog.Column, raw []byte) error {
	switch {
	case raw == nil:
		return errNull
	case c.Kind == binlog.KindInt && c.Unsigned:
		p.keys.Uint(binlog.LittleEndian(raw))
		return nil
	case c.Kind == binlog.KindInt:
		p.keys.Int(binlog.Signed(binlog.LittleEndian(raw), c.Width))
		return nil
	case c.Kind == binlog.KindBytes && !c.Packed:
		if len(raw) < c.Pad {
			p.pad = append(append(p.pad[:0], raw...), make([]byte, c.Pad-len(raw))...)
			raw = p.pad
		}
		p.keys.Bytes(raw)
		return nil
	case c.Kind == binlog.KindText && !c.Packed:
		p.keys.Text(c.Charset.Bytes(raw))
		return nil
	}
	v, err := c.Value(raw)
	if err != nil {
		return err
	}
	switch v := v.(type) {
	case int64:
		p.keys.Int(v)
	case uint64:
		p.keys.Uint(v)
	case string:
		p.keys.Text([]byte(v))
	case replicator.Number:
		p.keys.Text([]byte(v))
	case []byte:
		p.keys.Bytes(v)
	default:
		return fmt.Errorf("it is a %T, which can't be a key", v)
	}
	return nil
}

// versionOf returns a row's version. If the value is not a valid version, it returns an error and the valid version
// that is nearest in the source's order.
func (p *plan) versionOf(img *image, order int64) (int64, error) {
	if p.version < 0 || p.single {
		return order, nil
	}
	raw := img.values[p.version]
	c := &p.columns[p.version]
	if raw == nil {
		return 0, errVersion(c.Name, "is NULL")
	}
	switch c.Kind {
	case binlog.KindBit:
		return checkVersion(c.Name, binlog.BigEndian(raw), false)
	case binlog.KindYear:
		return binlog.Year(raw), nil
	case binlog.KindInt:
		n := binlog.LittleEndian(raw)
		if !c.Unsigned {
			n = uint64(binlog.Signed(n, c.Width))
		}
		return checkVersion(c.Name, n, !c.Unsigned)
	}
	n, ok := c.Clock(raw).Micros()
	if !ok {
		return 0, errVersion(c.Name, "is a zero date or before 1970")
	}
	return n, nil
}

func checkVersion(name string, n uint64, signed bool) (int64, error) {
	switch {
	case n <= math.MaxInt64:
		return int64(n), nil
	case signed:
		return 0, errVersion(name, "is negative")
	}
	return math.MaxInt64, errVersion(name, "is above 9223372036854775807")
}

func errVersion(name, what string) error { return fmt.Errorf("version column %s %s", name, what) }

// row returns the row of an image. Row.Err says what is wrong with the row.
//
// row allocates the Row. If the caller allocated it, Go's nil check of the pointer would read the memory before row
// writes it. In untouched memory, the read and the write cost a page fault each.
func (p *plan) row(
	cell replicator.Cell, img *image, order int64, at time.Time, kept func([]byte) []byte,
) *replicator.Row {
	r := &replicator.Row{Cell: cell, Order: order, Time: at, Names: p.names}
	r.Version, r.Err = p.versionOf(img, order)
	if p.t.names != nil && img.values[p.column] != nil {
		if as, err := p.columnAs(img.values[p.column]); err == nil && as != cell.Column {
			r.ColumnAs = as
		}
	}
	if p.body >= 0 && img.values[p.body] != nil {
		c := &p.columns[p.body]
		b, err := c.Stored(img.values[p.body])
		if err != nil {
			r.Err = fmt.Errorf("column %s: %w", c.Name, err)
		}
		switch c.Kind {
		case binlog.KindText:
			if out := c.Charset.Bytes(b); len(b) > 0 && &out[0] != &b[0] {
				r.Body = out
			} else {
				r.Body = kept(b)
			}
		case binlog.KindBytes:
			if len(b) >= c.Pad {
				r.Body = kept(b)
			} else {
				r.Body = binlog.Padded(b, c.Pad)
			}
		default:
			r.Body, r.Text = owned(b), binlog.JSONText
		}
	}
	if len(p.extras) == 0 {
		return r
	}
	r.Columns = make([]any, len(p.extras))
	for n, i := range p.extras {
		if i < 0 {
			r.Columns[n] = p.constants[constantPlace(i)].value
			continue
		}
		if img.values[i] == nil {
			continue
		}
		v, err := p.columns[i].Value(img.values[i])
		if err != nil {
			if r.Err == nil && p.columns[i].Problem == nil {
				r.Err = fmt.Errorf("column %s: %w", p.columns[i].Name, err)
			}
			continue
		}
		r.Columns[n] = v
	}
	return r
}

// owned returns a copy of b, which is never nil: nil would mean NULL.
func owned(b []byte) []byte {
	out := make([]byte, len(b))
	copy(out, b)
	return out
}
