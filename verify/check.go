package verify

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"replicator"
	"replicator/internal/pause"
)

// suspect is a cell that differed at the last check.
type suspect struct {
	difference replicator.Difference
	op         replicator.Op
	wanted     [][]replicator.Entry // the entries that the view should hold, by cell of the same key
}

// same reports whether two checks found the same difference while nothing changed in the source and in the sink. It
// compares all cells with the same key, because they may share an entry of the view.
func (s suspect) same(other suspect) bool {
	return s.difference.Kind == other.difference.Kind && slices.Equal(s.difference.States, other.difference.States) &&
		reflect.DeepEqual(s.wanted, other.wanted)
}

// wanted returns what the view should have of the cells of one key, according to ops. If an entry holds a whole row
// (Entry.Row), wanted clears the row's time and log position, which may differ between two reads of an unchanged row.
func wanted(key replicator.Key, ops []replicator.Op) (all [][]replicator.Entry) {
	for _, op := range ops {
		if op.Cell.Key != key {
			continue
		}
		for _, v := range op.Values {
			entries := slices.Clone(v.Entries)
			for i := range entries {
				if entries[i].Row != nil {
					row := *entries[i].Row
					row.Order, row.Place, row.Time = 0, 0, time.Time{}
					entries[i].Row = &row
				}
			}
			all = append(all, entries)
		}
	}
	return all
}

// check checks cells again and again, until each is right, certainly wrong, or still changing.
//
// A difference is certain if two checks in a row find it, and nothing has changed in between. The second check reads
// the source, then waits until the view is as new (Options.Fence), and then reads the sink. So no earlier change is
// still on its way to the sink.
func (v *verifier) check(ctx context.Context, cells []replicator.Cell) error {
	atOnce := func(context.Context) error { return nil }
	fence := v.Fence
	if fence == nil {
		fence = atOnce
	}
	suspects, err := v.look(ctx, cells, atOnce)
	for n := 1; n < looks && len(suspects) > 0 && err == nil; n++ {
		if n > 1 {
			err = pause.For(ctx, time.Duration(n)*5*time.Millisecond)
		}
		if err != nil {
			break
		}
		again := make([]replicator.Cell, 0, len(suspects))
		for c := range suspects {
			again = append(again, c)
		}
		var now map[replicator.Cell]suspect
		if now, err = v.look(ctx, again, fence); err != nil {
			break
		}
		var sure []suspect
		for c, s := range now {
			if was, ok := suspects[c]; ok && s.same(was) {
				sure = append(sure, s)
				delete(now, c)
			}
		}
		err = v.report(ctx, sure)
		suspects = now
	}
	if err == nil && v.Repair && len(suspects) > 0 { // cells that differed in a new way at each look: not counted
		_, _, err = v.rewrite(ctx, suspects)
	}
	return err
}

// look compares cells once, together with the other cells of their keys, and returns those that differ. For at most
// pageBytes at a time, it reads the source, waits until the view is as new (fence), and then reads the sink.
func (v *verifier) look(ctx context.Context, cells []replicator.Cell,
	fence func(context.Context) error) (map[replicator.Cell]suspect, error) {
	cells, err := v.entities(ctx, cells)
	if err != nil {
		return nil, err
	}
	suspects := map[replicator.Cell]suspect{}
	for len(cells) > 0 {
		ops, _, err := v.alone().expected(ctx, cells)
		if err != nil {
			return nil, err
		}
		if err := fence(ctx); err != nil {
			return nil, err
		}
		differences, err := v.Target.Compare(ctx, ops)
		if err != nil {
			return nil, err
		}
		for _, d := range differences {
			op := v.named(d, ops)
			suspects[op.Cell] = suspect{d, op, wanted(op.Cell.Key, ops)}
		}
		cells = cells[len(ops):]
	}
	return suspects, nil
}

// named returns the op whose cell a difference is reported for, usually ops[d.Op]. That cell may have no row in the
// source, and differ only because the view lacks another cell of its key. The difference is then reported for the key's
// first cell that has a row, so that each pass reports the same cell.
func (v *verifier) named(d replicator.Difference, ops []replicator.Op) replicator.Op {
	op := ops[d.Op]
	if d.Kind != replicator.Extra && d.Kind != replicator.Dead && op.Version == replicator.NoVersion {
		same := func(other replicator.Op) bool {
			return other.Cell.Key == op.Cell.Key && other.Version != replicator.NoVersion
		}
		if i := slices.IndexFunc(ops, same); i >= 0 {
			return ops[i]
		}
	}
	return op
}

func (v *verifier) alone() *Together {
	return &Together{Views: []*replicator.View{v.View}, Reader: v.Reader, Target: v.Target, Evaluator: v.Evaluator,
		Close: func() error { return nil }}
}

// expected reads the newest rows of the first cells from the source. It ends once it has read pageBytes, but not
// between two cells of one key. For each cell that it read, it returns an op that writes the row, and the row.
func (v *Together) expected(
	ctx context.Context, cells []replicator.Cell,
) (ops []replicator.Op, from []*replicator.Row, err error) {
	for size := int64(0); len(ops) < len(cells); {
		rows, asOf, err := v.Reader.Newest(ctx, cells[len(ops):], max(pageBytes-size, 1))
		if err != nil {
			return nil, nil, fmt.Errorf("reading the newest rows: %w", err)
		}
		for _, row := range rows {
			cell := cells[len(ops)]
			if size >= pageBytes && cell.Key != cells[len(ops)-1].Key {
				return ops, from, nil
			}
			op := v.reset(cell, row, asOf)
			if row != nil {
				size += row.Size()
			}
			for _, value := range op.Values {
				size += value.Size()
			}
			ops, from = append(ops, op), append(from, row)
		}
	}
	return ops, from, nil
}

// reset returns the op that replaces what a cell contributes by the contributions of the source's row; nil: the source
// has no row. asOf is the log position at which the row was read.
func (v *Together) reset(cell replicator.Cell, row *replicator.Row, asOf int64) replicator.Op {
	op := replicator.Op{Cell: cell, Version: replicator.NoVersion, AsOf: asOf, Rewrite: true}
	if row != nil {
		op.Version = row.Version
		if row.Version == row.Order {
			op.Version = asOf // without a version column, a log position is the version: use the re-read's position
		}
	}
	op.Values = v.Evaluator.Evaluate(cell, row)
	return op
}

// entities adds the other cells of the same keys, because a view that merges them can only be compared as a whole. The
// cells of a key are adjacent in the result, in the order of View.From.
func (v *verifier) entities(ctx context.Context, cells []replicator.Cell) ([]replicator.Cell, error) {
	if len(v.View.From) == 1 && v.oneKind(v.View.From[0]) || len(cells) == 0 {
		return cells, nil
	}
	siblings := map[replicator.Key][]replicator.Cell{}
	for _, f := range v.View.From {
		if v.oneKind(f) {
			continue
		}
		found, err := v.Reader.Siblings(ctx, f.Table, slices.DeleteFunc(keysOf(cells), func(key replicator.Key) bool {
			return !v.keyed(f.Table, key)
		}))
		if err != nil {
			return nil, fmt.Errorf("listing the cells of some keys: %w", err)
		}
		for _, c := range found {
			siblings[c.Key] = append(siblings[c.Key], c)
		}
	}
	seen := map[replicator.Cell]bool{}
	var all []replicator.Cell
	add := func(c replicator.Cell) {
		if !seen[c] {
			seen[c] = true
			all = append(all, c)
		}
	}
	for _, c := range cells {
		for _, f := range v.View.From {
			if v.oneKind(f) && v.keyed(f.Table, c.Key) {
				add(replicator.Cell{Table: f.Table, Key: c.Key, Column: f.Column})
			}
		}
		for _, s := range siblings[c.Key] {
			add(s)
		}
		add(c)
	}
	return sideBySide(all), nil
}

// keyed reports whether a key has as many values as the table's key has columns. The tables that feed one view may
// differ in that.
func (v *verifier) keyed(table string, key replicator.Key) bool {
	values, err := key.Values()
	t := v.table(table)
	return err == nil && t != nil && len(values) == len(t.Key)
}

// sideBySide moves all cells of a key next to the first of them.
func sideBySide(cells []replicator.Cell) []replicator.Cell {
	place := map[replicator.Key]int{}
	for i := len(cells) - 1; i >= 0; i-- {
		place[cells[i].Key] = i
	}
	slices.SortStableFunc(cells, func(a, b replicator.Cell) int { return place[a.Key] - place[b.Key] })
	return cells
}

func keysOf(cells []replicator.Cell) []replicator.Key {
	seen := map[replicator.Key]bool{}
	var keys []replicator.Key
	for _, c := range cells {
		if !seen[c.Key] {
			seen[c.Key] = true
			keys = append(keys, c.Key)
		}
	}
	return keys
}

// oneKind reports whether a feed has rows of only one kind, and so at most one cell for each key.
func (v *verifier) oneKind(f replicator.Feed) bool { return f.Column != "" || v.columnless(f.Table) }

func (v *verifier) columnless(table string) bool {
	t := v.table(table)
	return t != nil && t.Column == ""
}

func (v *verifier) table(name string) *replicator.Table {
	i := slices.IndexFunc(v.Tables, func(t replicator.Table) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return &v.Tables[i]
}
