package pipeline

import (
	"context"
	"fmt"
	"slices"
	"time"

	"replicator"
)

// What a source's column takes for equal is one key, however its rows spell it. Where a cell has several rows they may
// be spelt in several ways ('abc', 'ABC', 'abc '), and what counts is the newest of all of them; it is shown as that
// row spells it. So of the spellings of one key only that one has anything to show, and the others are as if they had
// no row: Reader.Newest says so.
//
// That a row has others beside it which are spelt in another way is not seen in the row. The source is asked for it:
// for many keys at once, and behind the lanes, which apply what they are given meanwhile. It is rare. Where it is
// found, all spellings of the key are looked at anew. Like a lane's, the keys that were not asked for yet hold back the
// position: none is forgotten in a crash.

// spelt has the key of a cell that is handed to its lane looked up.
func (s *session) spelt(ctx context.Context, c replicator.Cell, at time.Time) error {
	if !s.reader.MixesSpellings(c.Table) {
		return nil
	}
	size := s.budget.cost(keyOverhead + int64(len(c.Key)))
	if err := s.budget.take(ctx, size); err != nil {
		return err
	}
	s.spellings.add(&replicator.Change{Kind: replicator.Delete, Cell: replicator.Cell{Table: c.Table, Key: c.Key}, Version: look, Time: at}, size)
	return nil
}

// keyOverhead is about what a key costs that waits to be asked for.
const keyOverhead = 200

// respell asks the source for the other spellings of keys, and has all of them looked at where there are any.
func (s *session) respell(ctx context.Context, batch []*pending) error {
	keys := map[string][]replicator.Key{}
	size := int64(0)
	for _, p := range batch {
		keys[p.cell.Table] = append(keys[p.cell.Table], p.cell.Key)
		size += p.size
	}
	found := false
	for table, some := range keys {
		mixed, err := s.reader.Spellings(ctx, table, some)
		if err != nil {
			return fmt.Errorf("table %s: asking the source for other spellings of %d keys: %w", table, len(some), err)
		}
		for _, cells := range mixed {
			cells = slices.DeleteFunc(cells, func(c replicator.Cell) bool { return !s.run.feeds(c) })
			if err := s.unmerged(ctx, cells); err != nil {
				return err
			}
			for _, c := range cells {
				s.add(&replicator.Change{Kind: replicator.Delete, Cell: c, Version: look}, 0)
				found = true
			}
		}
	}
	s.budget.give(size)
	if !found {
		return nil
	}
	return appliedBy(s.lanes...)(ctx) // to the lanes, what they look at has no place in the log that they have yet to reach
}

// unmerged fails for views that merge cells of one key which is spelt in one way in some of them and in another in
// others: what they keep of it has no one key.
func (s *session) unmerged(ctx context.Context, cells []replicator.Cell) error {
	several := func(v *replicator.View) bool {
		return !slices.Contains([]string{"row", "hash", "json", "document"}, v.Kind)
	}
	views := slices.DeleteFunc(slices.Clone(s.run.views), several)
	if len(views) == 0 || len(cells) == 0 {
		return nil
	}
	rows, _, err := s.reader.Newest(ctx, cells, 0)
	if err != nil {
		return fmt.Errorf("reading the newest rows of %d cells: %w", len(cells), err)
	}
	for _, v := range views {
		var first *replicator.Row
		for _, row := range rows {
			switch {
			case row == nil || !v.Feeds(row.Cell):
			case first == nil:
				first = row
			case first.Cell.Key != row.Cell.Key:
				return replicator.OfView(replicator.Fatal(fmt.Errorf("view %s merges cells whose key the source takes for one, and which are spelt in two ways: %s "+
					"and %s. Spell the key of their newest rows one way, or give the key's columns a binary collation", v.Name, first.Cell, row.Cell)), v.Name)
			}
		}
	}
	return nil
}
