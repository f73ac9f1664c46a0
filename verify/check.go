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
	wanted     [][]replicator.Entry // the expected contents of the entity, cell by cell
}

// same reports whether two checks found the same difference, and the entity did not change between the checks, neither
// in the source nor in the sink. It compares all of the entity's cells, because any of them may make the entity differ.
func (s suspect) same(other suspect) bool {
	return s.difference.Kind == other.difference.Kind && slices.Equal(s.difference.States, other.difference.States) &&
		reflect.DeepEqual(s.wanted, other.wanted)
}

// wanted returns the contents that the view should have of one entity (key), according to ops. It omits the times and
// log positions of whole rows, because they may differ between two checks although the row is unchanged.
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

// check checks cells until each is right, certainly wrong, or changing.
//
// From the second check on, check reads the source, waits for the fence, and then reads the sink, so the sink is at
// least as new as the source was. So if the sink is unchanged since the previous check, no earlier change of the source
// is still on its way, and the difference is real. The fence must not come before both reads. Otherwise a cell that
// gets a version, loses it and gets it again could look the same twice while it is changing.
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
	if err == nil && v.Repair && len(suspects) > 0 { // cells that keep changing may be wrong; they are not counted
		_, _, err = v.rewrite(ctx, suspects)
	}
	return err
}

// look compares cells, and the other cells of their entities, once. It returns the cells that differ. For at most
// pageBytes at a time, it reads the source, waits for the fence, and then reads the sink.
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

// named returns the op whose cell a difference is reported for. If the entity should be in the view, it returns the op
// of the entity's first cell that exists in the source. So each pass and each page names the same cell.
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

// alone returns a Together that has only the verified view.
func (v *verifier) alone() *Together {
	return &Together{Views: []*replicator.View{v.View}, Reader: v.Reader, Target: v.Target, Evaluator: v.Evaluator,
		Close: func() error { return nil }}
}

// expected reads the present rows of the first cells from the source: whole entities, up to pageBytes. For each of
// these cells it returns an op, which resets the cell to its row, and the row.
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

// reset returns the op that resets a cell to the row that a re-read found. row is nil if the re-read found none.
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

// entities adds the other cells of the same entities, because a merged view can only be compared by entity. An entity's
// cells are adjacent in the result, in the order of the feeds (View.From). For a feed that names no column, it adds all
// cells that exist in the source.
func (v *verifier) entities(ctx context.Context, cells []replicator.Cell) ([]replicator.Cell, error) {
	if len(v.View.From) == 1 && v.oneSort(v.View.From[0]) || len(cells) == 0 {
		return cells, nil
	}
	siblings := map[replicator.Key][]replicator.Cell{}
	for _, f := range v.View.From {
		if v.oneSort(f) {
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
			if v.oneSort(f) && v.keyed(f.Table, c.Key) {
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

// sideBySide reorders cells: it moves all cells of an entity next to the entity's first cell.
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

// oneSort reports whether a feed has at most one cell per entity.
func (v *verifier) oneSort(f replicator.Feed) bool { return f.Column != "" || v.columnless(f.Table) }

// columnless reports whether a table has no column role.
func (v *verifier) columnless(table string) bool {
	t := v.table(table)
	return t != nil && t.Column == ""
}

// table returns the definition of the table of that name; nil if the view has none.
func (v *verifier) table(name string) *replicator.Table {
	i := slices.IndexFunc(v.Tables, func(t replicator.Table) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return &v.Tables[i]
}
