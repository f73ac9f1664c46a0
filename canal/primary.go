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

// Where binlog_row_image is MINIMAL, an UPDATE that leaves the key of a row as it is does not tell it, unless it is in
// the primary key. The row still has it, or there is a later change of its key in the log. So the row is looked for by
// its primary key. If it is gone, or its key may have been changed, the table counts as changed without a log.

// primaryOf returns the places of the primary key's columns, where a row can be looked for by them.
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

// foundByPrimary reports whether rows can be looked for by the primary key.
func (s *schema) foundByPrimary() bool {
	return !slices.ContainsFunc(s.primary, func(name string) bool {
		c := s.column(name)
		return c == nil || newSelected(c).kind != binlog.KindInt
	})
}

// sameByPrimary reports whether an UPDATE leaves the cells of its rows as they are, and tells their primary keys.
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
		if isSet(parts.after.present, i) || now == nil || now.generated { // a generated column may be left out, and change
			return false
		}
	}
	return true
}

// updateByPrimary hands on the cells of the rows of an UPDATE, which it looks for by their primary keys.
func (s *stream) updateByPrimary(ctx context.Context, p *plan, parts imageParts, data []byte, place scale) error {
	var names []string
	for _, i := range p.primary {
		names = append(names, p.columns[i].Name)
	}
	for off := 0; off < len(data); {
		at := off
		var keys [][]any
		for off < len(data) && len(keys) < newestBatch {
			at = off
			for _, image := range []struct {
				img  *image
				part *imagePart
			}{{&s.before, parts.before}, {&s.after, parts.after}} {
				n, err := p.split(data[off:], image.img, image.part)
				if err != nil {
					return fmt.Errorf("table %s: row image: %w", p.t.Name, err)
				}
				off += n
			}
			s.after.inherit(&s.before)
			key := make([]any, len(p.primary))
			for n, i := range p.primary {
				v, err := p.columns[i].Value(s.after.values[i])
				if err != nil {
					return fmt.Errorf("table %s: column %s: %w", p.t.Name, p.columns[i].Name, err)
				}
				key[n] = v
			}
			keys = append(keys, key)
		}
		cells, err := s.byPrimary(ctx, p.t, names, keys)
		if err != nil {
			return err
		}
		d := s.delivery(p, &s.after, place, at)
		for _, cell := range cells {
			if err := s.deliver(ctx, replicator.Change{
				Kind: replicator.Update, Cell: cell, Version: replicator.AnyVersion, Order: d.order, Time: s.tx.at,
			}); err != nil {
				return err
			}
		}
		if len(cells) < len(keys) {
			err := s.unlogged(p.t.Name, fmt.Errorf("table %s: rows were changed of which the binlog tells only the primary key, and "+
				"they are gone: %w", p.t.Name, replicator.ErrUnlogged))
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// cellsByPrimary returns the cells of the rows that have the given values in some columns, as of the binlog's present end
// or later.
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
	defer f.end()
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
