package canal

import (
	"bytes"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-mysql-org/go-mysql/replication"

	"replicator"
	"replicator/canal/binlog"
)

type rowsShape struct {
	change     replicator.ChangeKind
	extra      bool // version 2: additional data comes before the columns
	compressed bool // MariaDB compressed the rows
	diffs      bool // after images may contain only differences of JSON documents
}

var rowsShapes = [256]*rowsShape{
	replication.WRITE_ROWS_EVENTv1:                      {change: replicator.Insert},
	replication.UPDATE_ROWS_EVENTv1:                     {change: replicator.Update},
	replication.DELETE_ROWS_EVENTv1:                     {change: replicator.Delete},
	replication.WRITE_ROWS_EVENTv2:                      {change: replicator.Insert, extra: true},
	replication.UPDATE_ROWS_EVENTv2:                     {change: replicator.Update, extra: true},
	replication.DELETE_ROWS_EVENTv2:                     {change: replicator.Delete, extra: true},
	replication.MARIADB_WRITE_ROWS_COMPRESSED_EVENT_V1:  {change: replicator.Insert, compressed: true},
	replication.MARIADB_UPDATE_ROWS_COMPRESSED_EVENT_V1: {change: replicator.Update, compressed: true},
	replication.MARIADB_DELETE_ROWS_COMPRESSED_EVENT_V1: {change: replicator.Delete, compressed: true},
	replication.PARTIAL_UPDATE_ROWS_EVENT:               {change: replicator.Update, extra: true, diffs: true},
	binlog.MariaWriteRowsCompressed:                     {change: replicator.Insert, extra: true, compressed: true},
	binlog.MariaUpdateRowsCompressed:                    {change: replicator.Update, extra: true, compressed: true},
	binlog.MariaDeleteRowsCompressed:                    {change: replicator.Delete, extra: true, compressed: true},
}

type tables struct {
	byPlace  map[string]map[string]*watched // by database and table
	byName   map[string][]*watched          // by the name in the configuration; several tables only for a pattern
	byID     map[string]*watched
	patterns []*pattern
	fold     func(string) string // to lower case, if the server ignores the case of table names
}

// find finds a watched table without allocating strings.
func (t tables) find(database, table []byte) *watched {
	return t.byPlace[string(database)][string(table)]
}

// mentions returns the IDs of the watched tables with a database and a name; of all tables of the database if table is
// "".
func (t tables) mentions(database, table string) (names []string) {
	in := t.byPlace[t.fold(database)]
	if table == "" {
		for _, w := range in {
			names = append(names, w.id)
		}
		for _, p := range t.patterns {
			if p.inDatabase(database) {
				names = append(names, memberID(p.Name, database, "*"))
			}
		}
		slices.Sort(names)
		return names
	}
	if w := in[t.fold(table)]; w != nil {
		return some(w.id)
	}
	for _, p := range t.patterns {
		if p.matches(database, table) {
			return some(p.addNamed(database, table))
		}
	}
	return nil
}

func (s *stream) rows(ctx context.Context, shape *rowsShape, body []byte, place scale) error {
	c := binlog.Cursor{B: body}
	id := c.Uint(6)
	c.Take(2)
	p, mapped := s.maps[id]
	if p == nil {
		if !mapped && id != binlog.NoTable && !c.Bad && !s.silent() {
			return errors.New("a rows event has no table map before it")
		}
		return nil
	}
	if s.silent() {
		return nil
	}
	if p.passed != nil {
		return s.passOver(p)
	}
	if shape.extra {
		c.Take(int(c.Uint(2)) - 2)
	}
	if !s.tx.xa {
		s.handsOn(p.t)
		s.history.handOut(s.here(s.tx.run))
	}
	n := int(c.Packed())
	if c.Bad || n != len(p.columns) {
		return fmt.Errorf("a rows event has %d columns, but its table map has %d", n, len(p.columns))
	}
	parts := imageParts{before: partOf(c.Take((n+7)/8), n, false)}
	if shape.change == replicator.Update {
		parts.after, parts.pairs = partOf(c.Take((n+7)/8), n, shape.diffs), true
	}
	if err := c.Err("rows"); err != nil {
		return err
	}
	place.offset += int64(c.Off)
	data := c.Rest()
	if shape.compressed {
		size := int64(len(data))
		var err error
		if data, err = inflateMaria(data, s.unzipped); err != nil {
			return err
		}
		if cap(data) <= maxScratch {
			s.unzipped = data
		}
		s.raw = 0
		place = compressed(place.base+place.offset, size, int64(len(data)))
	}
	if err := p.measure(data, parts); err != nil {
		return s.passOverFrom(ctx, p, err)
	}
	switch column := p.untold(parts.before); {
	case column == "":
		return s.images(ctx, p, shape.change, parts, data, place)
	case s.byPrimary != nil && len(p.refers) == 0 && p.sameByPrimary(parts):
		return s.updateByPrimary(ctx, p, parts, data)
	default:
		return s.untold(p, column)
	}
}

// handsOn records that rows of a table are delivered before it is known whether their transaction is committed.
func (s *stream) handsOn(t *watched) {
	if !s.tx.rows {
		s.tx.rows, s.rowed = true, s.rowed[:0]
	}
	if !slices.Contains(s.rowed, t) {
		s.rowed = append(s.rowed, t)
	}
}

func (s *stream) images(
	ctx context.Context, p *plan, kind replicator.ChangeKind, parts imageParts, data []byte, place scale,
) error {
	var keyless keyError
	for off := 0; off < len(data); {
		at := off
		n, err := p.split(data[off:], &s.before, parts.before)
		if err != nil {
			return fmt.Errorf("table %s: row image: %w", p.t.Name, err)
		}
		off += n
		d := s.delivery(p, &s.before, place, at)
		past := p.isHistory(&s.before)
		images, ats, changed := [2]*image{&s.before, &s.after}, [2]int{at, off}, 1
		switch {
		case kind == replicator.Update:
			after := off
			if n, err = p.split(data[off:], &s.after, parts.after); err != nil {
				return fmt.Errorf("table %s: row image: %w", p.t.Name, err)
			}
			off += n
			changed = 2
			s.after.inherit(&s.before)
			err = s.update(ctx, d, s.delivery(p, &s.after, place, after))
		case past:
		case kind == replicator.Insert:
			err = s.insert(ctx, d)
		default:
			err = s.delete(ctx, d)
		}
		if key, is := asKeyError(err); is {
			keyless, err = key, nil
		}
		if err == nil && len(p.refers) > 0 {
			err = s.refer(ctx, p, place, images[:changed], ats[:changed])
		}
		if err != nil {
			return err
		}
	}
	if keyless.error != nil {
		return s.keyless(p.t, keyless)
	}
	return nil
}

type delivery struct {
	p     *plan
	img   *image
	order int64
	own   bool // no other row has the same log position
}

func (s *stream) delivery(p *plan, img *image, place scale, off int) delivery {
	address, own := place.row(off)
	return delivery{p, img, s.order(address), own}
}

func (s *stream) order(address int64) int64 { return orderOf(s.epoch, s.file.number, address) }

func (s *stream) insert(ctx context.Context, d delivery) error {
	cell, err := s.cell(ctx, d)
	if err != nil {
		return err
	}
	return s.put(ctx, replicator.Insert, cell, d)
}

func (s *stream) put(ctx context.Context, kind replicator.ChangeKind, cell replicator.Cell, d delivery) error {
	if s.tx.again {
		return s.deliver(ctx, replicator.Change{
			Kind: replicator.Delete, Cell: cell, Version: replicator.AnyVersion, Order: d.order, Time: s.tx.at,
		})
	}
	if !d.p.whole(d.img) {
		return s.deliver(ctx, replicator.Change{
			Kind: kind, Cell: cell, Version: replicator.AnyVersion, Order: d.order, Time: s.tx.at,
		})
	}
	row := d.p.row(cell, d.img, d.order, s.tx.at, s.kept)
	return s.deliver(ctx, replicator.Change{
		Kind: kind, Cell: cell, Version: row.Version, Order: d.order, Time: s.tx.at, Row: row,
	})
}

func (s *stream) delete(ctx context.Context, d delivery) error {
	cell, err := s.cell(ctx, d)
	if err != nil {
		return err
	}
	version, err := d.p.versionOf(d.img, d.order)
	shared := d.p.t.Shared && d.p.single // another of the pattern's tables may have a row of the same cell
	if err != nil || !d.own || s.tx.again || shared {
		// AnyVersion makes the pipeline read the cell's newest row from the table. The deleted row's version is unusable
		// (invalid, or another row has the same version), or the cell may have newer rows.
		version = replicator.AnyVersion
	}
	return s.deliver(ctx, replicator.Change{
		Kind: replicator.Delete, Cell: cell, Version: version, Order: d.order, Time: s.tx.at,
		Last: d.p.single && !shared && d.own && !s.tx.again && (d.p.rowEnd < 0 || d.img.has(d.p.rowEnd)),
	})
}

// update delivers an update. If the row moved to another cell, or if its version fell, it delivers a delete and an
// insert instead.
func (s *stream) update(ctx context.Context, before, after delivery) error {
	switch was, is := before.p.isHistory(before.img), after.p.isHistory(after.img); {
	case was && is:
		return nil
	case is:
		return s.delete(ctx, before)
	case was:
		return s.insert(ctx, after)
	}
	cell, err := s.cell(ctx, after)
	if err != nil {
		return err
	}
	p := after.p
	if p.sameCell(ctx, before.img, after.img) &&
		(p.version < 0 || p.single || !p.whole(after.img) || !p.lowered(before, after)) {
		return s.put(ctx, replicator.Update, cell, after)
	}
	if err := s.delete(ctx, before); err != nil {
		return err
	}
	return s.put(ctx, replicator.Insert, cell, after)
}

// lowered reports whether an update lowered the row's version, or whether the old or the new version is invalid.
func (p *plan) lowered(before, after delivery) bool {
	old, err := p.versionOf(before.img, before.order)
	if err != nil {
		return true
	}
	now, err := p.versionOf(after.img, after.order)
	return err != nil || now < old
}

func (s *stream) cell(ctx context.Context, d delivery) (replicator.Cell, error) {
	cell, err := d.p.cell(ctx, d.img)
	if err != nil && !errors.As(err, new(keyError)) {
		err = d.p.t.fatal(fmt.Errorf("table %s: %w. %s", d.p.t.Name, err, wayOut))
	}
	return cell, err
}

// keyless reports that a row has no usable key. Reading continues, but the views differ from the table until the row is
// corrected.
func (s *stream) keyless(t *watched, key keyError) error {
	return s.unlogged(t.Name, fmt.Errorf("table %s: a row has no usable key: %w. Correct it at the source: %w",
		t.Name, key, replicator.ErrUnlogged))
}

func (s *stream) deliver(ctx context.Context, c replicator.Change) error {
	if s.tally.rows++; s.tally.full() { // update the totals now and then, because an event may have millions of rows
		s.stats.tell(&s.tally)
	}
	if s.change = c; s.tx.xa {
		s.holdCell(&s.change)
		return nil
	}
	if err := s.handler.Change(ctx, &s.change); err != nil {
		return handlerError{err}
	}
	return nil
}

func isSet(bits []byte, i int) bool { return i>>3 < len(bits) && bits[i>>3]>>(i&7)&1 != 0 }

// inflateMaria decompresses the rows of an event that was written with MariaDB's log_bin_compress. The data is a byte
// with the size of the length field, the length, and a zlib stream.
func inflateMaria(data, reuse []byte) ([]byte, error) {
	if len(data) == 0 {
		return nil, binlog.ErrShort
	}
	n := int(data[0] & 7)
	if n > 4 || len(data) < 1+n {
		return nil, binlog.ErrShort
	}
	size := binlog.BigEndian(data[1 : 1+n])
	if size > 1<<30 || size > uint64(len(data))*1100 { // zlib can't compress that much
		return nil, errors.New("compressed rows are damaged")
	}
	r, err := zlib.NewReader(bytes.NewReader(data[1+n:]))
	if err != nil {
		return nil, errors.New("compressed rows are damaged")
	}
	if uint64(cap(reuse)) < size {
		reuse = make([]byte, size)
	}
	out := reuse[:size]
	if _, err := io.ReadFull(r, out); err != nil {
		return nil, errors.New("compressed rows are damaged")
	}
	return out, nil
}
