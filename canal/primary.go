package canal

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"replicator"
	"replicator/canal/binlog"
	"replicator/internal/sqlname"
)

// With binlog_row_image = MINIMAL, an UPDATE that does not change the configured key columns logs them only if they are
// part of the primary key. So the row is looked up in the table by its primary key. If the row is gone, or if its key
// may have changed, the table is reported with ErrUnlogged.

// primaryOf returns the indexes of the primary key's columns; nil if rows can't be looked up by that key.
func (p *plan) primaryOf(s *schema) []int {
	var at []int
	for _, name := range s.primary {
		i := slices.IndexFunc(p.columns, func(c binlog.Column) bool { return strings.EqualFold(c.Name, name) })
		if i < 0 || p.columns[i].Kind != binlog.KindInt || p.columns[i].Problem != nil {
			return nil
		}
		at = append(at, i)
	}
	return at
}

func (s *schema) foundByPrimary() bool {
	return !slices.ContainsFunc(s.primary, func(name string) bool {
		c := s.column(name)
		return c == nil || newSelected(c).kind != binlog.KindInt
	})
}

// sameByPrimary reports whether each row of an UPDATE certainly stays in its cell, and is logged with its primary key.
func (p *plan) sameByPrimary(parts imageParts) bool {
	if !parts.pairs || parts.after == nil || len(p.primary) == 0 {
		return false
	}
	for _, i := range p.primary {
		if !isSet(parts.before.present, i) {
			return false
		}
	}
	for _, i := range append(slices.Clone(p.key), p.column) {
		if i < 0 {
			continue
		}
		now := p.t.schema.Load().column(p.columns[i].Name)
		if isSet(parts.after.present, i) || now == nil || now.generated { // a generated column may change unlogged
			return false
		}
	}
	return true
}

// sought are changed rows of one table that must be looked up by their primary keys.
type sought struct {
	t     *watched
	names []string
	keys  [][]any
}

// updateByPrimary records the rows of an UPDATE that must be looked up by their primary keys. The look-up happens at
// the transaction's end, or earlier if there are many.
func (s *stream) updateByPrimary(ctx context.Context, p *plan, parts imageParts, data []byte) error {
	i := slices.IndexFunc(s.tx.sought, func(x sought) bool { return x.t == p.t })
	if i < 0 {
		x := sought{t: p.t}
		for _, at := range p.primary {
			x.names = append(x.names, p.columns[at].Name)
		}
		i, s.tx.sought = len(s.tx.sought), append(s.tx.sought, x)
	}
	x := &s.tx.sought[i]
	for off := 0; off < len(data); {
		n, err := p.split(data[off:], &s.before, parts.before)
		if err == nil {
			off += n
			n, err = p.split(data[off:], &s.after, parts.after)
		}
		if err != nil {
			return fmt.Errorf("table %s: row image: %w", p.t.Name, err)
		}
		off += n
		s.after.inherit(&s.before)
		key := make([]any, len(p.primary))
		for n, at := range p.primary {
			if key[n], err = p.columns[at].Value(s.after.values[at]); err != nil {
				return fmt.Errorf("table %s: column %s: %w", p.t.Name, p.columns[at].Name, err)
			}
		}
		if slices.ContainsFunc(x.keys, func(known []any) bool { return slices.Equal(known, key) }) {
			continue
		}
		if x.keys = append(x.keys, key); len(x.keys) >= newestBatch {
			if err := s.seek(ctx, x); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *stream) seekAll(ctx context.Context) error {
	for i := range s.tx.sought {
		if err := s.seek(ctx, &s.tx.sought[i]); err != nil {
			return err
		}
	}
	s.tx.sought = nil
	return nil
}

func (s *stream) seek(ctx context.Context, x *sought) error {
	if len(x.keys) == 0 {
		return nil
	}
	cells, err := s.byPrimary(ctx, x.t, x.names, x.keys)
	if err != nil {
		return err
	}
	gone := len(cells) < len(x.keys)
	x.keys = nil
	for _, cell := range cells {
		if err := s.deliver(ctx, replicator.Change{
			Kind: replicator.Update, Cell: cell, Version: replicator.AnyVersion, Order: s.order(s.pos - 1), Time: s.tx.at,
		}); err != nil {
			return err
		}
	}
	if !gone {
		return nil
	}
	return s.unlogged(x.t.Name, fmt.Errorf("table %s: the binlog holds only the primary key of some changed rows, and "+
		"the table no longer has these rows. Set binlog_row_image=FULL on the source and in its sessions: %w",
		x.t.Name, replicator.ErrUnlogged))
}

// cellsByPrimary returns the cells of the rows that have the given values in some columns. The result includes
// everything up to the binlog's current end.
func (r *Reader) cellsByPrimary(ctx context.Context, t *watched, names []string, keys [][]any) (
	cells []replicator.Cell, err error,
) {
	x, err := newSelection(t)
	if err != nil {
		return nil, t.fatal(err)
	}
	x = x.keysOnly()
	conn, err := r.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	f, err := r.present(ctx, conn)
	if err != nil {
		return nil, err
	}
	var same, wanted []string
	for _, name := range names {
		same = append(same, sqlname.Quote(name)+" = ?")
	}
	var args []any
	for _, key := range keys {
		wanted, args = append(wanted, "("+strings.Join(same, " AND ")+")"), append(args, key...)
	}
	query := fmt.Sprintf("SELECT 0, %s FROM %s WHERE %s%s", x.list, x.from(), strings.Join(wanted, " OR "), f.lock)
	err = untilFree(ctx, 1, func(int) error {
		cells = cells[:0]
		return x.read(ctx, conn, query, args, func(_ int, values [][]byte) error {
			row, err := x.row(ctx, values, 0, time.Time{})
			if err == nil {
				cells = append(cells, row.Cell)
			}
			return err
		})
	})
	return cells, classify(err)
}
