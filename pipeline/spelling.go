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

// Keys that a source's column treats as equal are one key, in several variants ('abc', 'ABC', 'abc '). If a cell has
// several rows, they may have different variants. The newest of all these rows counts, and is shown with its own
// variant. So only one variant of a key has anything to show, and the others count as without rows: Reader.Newest
// ensures that.
//
// A row doesn't show whether the key has other variants, so the source is asked: for many keys at once, and behind the
// lanes, which continue meanwhile. Other variants are rare. If there are any, all variants of the key are re-read. Like
// a lane's changes, keys that have not been asked for yet hold back the position, so that none is forgotten in a crash.

// spellings looks up variants of keys. Its only state is what lone remembers, and several goroutines may use it. Its
// lane's goroutine asks the source.
type spellings struct {
	*group
	reader replicator.Reader
	budget *budget
	lanes  *lanes
	lone   *loneKeys
}

// ask has the key of a change looked up, unless it is known to have no other variant.
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

// keyOverhead is the approximate memory of a key that waits to be asked for.
const keyOverhead = 200

// apply asks the source for other variants of keys, and re-reads all of them if there are any.
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
	// In the lanes, these re-reads have no log position that they must still reach.
	return appliedBy(s.lanes.shares)(ctx)
}

// checkMerged fails for views that merge cells of one key if the cells have different variants of it: the views' entry
// has no single key.
func (s *spellings) checkMerged(ctx context.Context, cells []replicator.Cell) error {
	several := func(v *replicator.View) bool {
		return !slices.Contains([]string{"row", "hash", "json", "document"}, v.Kind)
	}
	views := slices.DeleteFunc(slices.Clone(s.views), several)
	if len(views) == 0 || len(cells) == 0 {
		return nil
	}
	var found error
	for range 2 { // the cells are not read at one moment: a key that changed in between has two variants
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

// speltApart is the error of a view if the newest rows of one key's cells have different variants. There may be several
// rows of one cell, each the newest of its variant when it was read: the newest of them counts.
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
				return replicator.OfView(replicator.Fatal(fmt.Errorf("view %s merges cells whose keys are equal at the source "+
					"and written differently: %s and %s. Write the key the same way in their newest rows, or give the "+
					"key's columns %s", v.Name, first.Cell, row.Cell, remedy.ExactCollation)), v.Name)
			}
		}
	}
	return nil
}

// loneKeys remembers keys of which the source had no other variant, so that a cell that changes often is asked for
// once. That stays true until the key's last row is gone: a variant that comes later is asked for itself, finds this
// one, and ends it. A deleted row is a Delete, after which the key is asked for again. A mutex guards it.
type loneKeys struct {
	mu   sync.Mutex
	seed maphash.Seed
	keys map[uint64]bool // by hash; false: it was asked for, and the answer is pending
}

// rememberedKeys is how many keys are remembered: some 5 MiB.
const rememberedKeys = 1 << 18

func newLoneKeys() *loneKeys { return &loneKeys{seed: maphash.MakeSeed(), keys: map[uint64]bool{}} }

func (l *loneKeys) hash(table string, key replicator.Key) uint64 {
	return maphash.Comparable(l.seed, replicator.Cell{Table: table, Key: key})
}

// ask reports whether the source must be asked for other variants of a cell's key.
func (l *loneKeys) ask(c replicator.Cell, gone bool) bool {
	h := l.hash(c.Table, c.Key)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case gone: // a pending answer may be from before
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

// answered records the answer: all keys but those of mixed cells have no other variant.
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
