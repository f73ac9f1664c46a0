package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"replicator"
	"replicator/internal/remedy"
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

// spellings has them looked up. It has no state but what it remembers in lone, and may be used by several goroutines;
// its lane's goroutine asks the source.
type spellings struct {
	*group
	reader replicator.Reader
	budget *budget
	lanes  *lanes
	lone   *loneKeys
}

// ask has the key of a change that is handed to its lane looked up, unless it is known to be the only spelling.
func (s *spellings) ask(ctx context.Context, c *replicator.Change) error {
	cell := replicator.Cell{Table: c.Cell.Table, Key: c.Cell.Key}
	if !s.reader.MixesSpellings(cell.Table) || !s.lone.ask(cell, c.Kind == replicator.Delete) {
		return nil
	}
	size := s.budget.cost(keyOverhead + int64(len(cell.Key)))
	if err := s.budget.take(ctx, size); err != nil {
		return err
	}
	s.lanes.spellings.add(reread(cell, 0, c.Time), size)
	return nil
}

// keyOverhead is about what a key costs that waits to be asked for.
const keyOverhead = 200

// apply asks the source for the other spellings of keys, and has all of them looked at where there are any.
func (s *spellings) apply(ctx context.Context, batch []pending) error {
	keys := map[string][]replicator.Key{}
	size := int64(0)
	for i := range batch {
		p := &batch[i]
		keys[p.cell.Table] = append(keys[p.cell.Table], p.cell.Key)
		size += p.size
	}
	var changes []*replicator.Change
	for table, some := range keys {
		mixed, err := s.reader.Spellings(ctx, table, some)
		if err != nil {
			return fmt.Errorf("table %s: asking the source for other spellings of %d keys: %w", table, len(some), err)
		}
		s.lone.answered(table, some, mixed)
		for _, cells := range mixed {
			cells = slices.DeleteFunc(cells, func(c replicator.Cell) bool { return !s.views.feeds(c) })
			if err := s.checkMerged(ctx, cells); err != nil {
				return err
			}
			for _, c := range cells {
				changes = append(changes, reread(c, 0, time.Time{}))
			}
		}
	}
	for _, c := range changes {
		s.lanes.add(c, 0)
	}
	s.budget.give(size)
	if len(changes) == 0 {
		return nil
	}
	// To the lanes, what they look at has no place in the log that they have yet to reach.
	return appliedBy(s.lanes.shares)(ctx)
}

// checkMerged fails for views that merge cells of one key which is spelt in one way in some of them and in another in
// others: what they keep of it has no one key.
func (s *spellings) checkMerged(ctx context.Context, cells []replicator.Cell) error {
	several := func(v *replicator.View) bool {
		return !slices.Contains([]string{"row", "hash", "json", "document"}, v.Kind)
	}
	views := slices.DeleteFunc(slices.Clone(s.views), several)
	if len(views) == 0 || len(cells) == 0 {
		return nil
	}
	var found error
	for range 2 { // the cells are not read at one moment: what was spelt anew meanwhile is spelt in two ways
		rows, _, err := s.reader.Newest(ctx, cells, 0)
		if err != nil {
			return fmt.Errorf("reading the newest rows of %d cells: %w", len(cells), err)
		}
		if found = speltApart(views, rows); found == nil {
			return nil
		}
	}
	return found
}

// speltApart is the error of a view for which the newest rows of one key's cells are spelt in two ways. Several of rows
// may be of one cell, each the newest of its spelling when it was read: the newest of them counts.
func speltApart(views []*replicator.View, rows []*replicator.Row) error {
	type sort struct{ table, column string }
	newest := map[sort]*replicator.Row{}
	for _, row := range rows {
		if row == nil {
			continue
		}
		at := sort{row.Cell.Table, row.Cell.Column}
		if was := newest[at]; was == nil || cmp.Or(cmp.Compare(was.Version, row.Version),
			cmp.Compare(was.Order, row.Order)) < 0 {
			newest[at] = row
		}
	}
	for _, v := range views {
		var first *replicator.Row
		for _, row := range rows {
			switch {
			case row == nil || !v.Feeds(row.Cell):
			case newest[sort{row.Cell.Table, row.Cell.Column}] != row:
			case first == nil:
				first = row
			case first.Cell.Key != row.Cell.Key:
				return replicator.OfView(replicator.Fatal(fmt.Errorf("view %s merges cells whose key the source takes "+
					"for one, and which are spelt in two ways: %s and %s. Spell the key of their newest rows one way, "+
					"or give the key's columns %s", v.Name, first.Cell, row.Cell, remedy.ExactCollation)), v.Name)
			}
		}
	}
	return nil
}

// loneKeys remembers keys of which the source had no other spelling, so that a cell that changes often is asked for
// once. It stays true until the key's last row is gone: another spelling that comes later is asked for itself, finds
// this one, and ends that. A row that goes is a Delete, after which the key is asked for again. Guarded by its mutex.
type loneKeys struct {
	mu   sync.Mutex
	seed maphash.Seed
	keys map[uint64]bool // by hash; false: it was asked for, and the answer is still to come
}

// rememberedKeys is how many keys are remembered: some 5 MiB.
const rememberedKeys = 1 << 18

func newLoneKeys() *loneKeys { return &loneKeys{seed: maphash.MakeSeed(), keys: map[uint64]bool{}} }

func (l *loneKeys) hash(table string, key replicator.Key) uint64 {
	return maphash.Comparable(l.seed, replicator.Cell{Table: table, Key: key})
}

// ask reports whether the source is to be asked for other spellings of a cell's key.
func (l *loneKeys) ask(c replicator.Cell, gone bool) bool {
	h := l.hash(c.Table, c.Key)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case gone: // an answer that is on its way may be of before
		delete(l.keys, h)
	case l.keys[h]:
		return false
	default:
		for old := range l.keys {
			if len(l.keys) < rememberedKeys {
				break
			}
			delete(l.keys, old)
		}
		l.keys[h] = false
	}
	return true
}

// answered notes the answer: of the keys all are alone but those of mixed cells.
func (l *loneKeys) answered(table string, keys []replicator.Key, mixed [][]replicator.Cell) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, cells := range mixed {
		for _, c := range cells {
			delete(l.keys, l.hash(c.Table, c.Key))
		}
	}
	for _, key := range keys {
		h := l.hash(table, key)
		if _, asked := l.keys[h]; asked {
			l.keys[h] = true
		}
	}
}
