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

// A source's column may treat different keys as equal ('abc', 'ABC', 'abc '): variants of one key. Only the newest row
// of all variants is shown, so a change of one may hide or uncover another. So the source is asked for other variants
// of each changed key, and all of them are re-read.

// spellings asks the source for variants of changed keys. Any goroutine may call ask. Only the lane `lanes.spellings`,
// which has its own goroutine, calls apply.
type spellings struct {
	*group
	reader replicator.Reader
	budget *budget
	lanes  *lanes
	lone   *loneKeys
}

// ask queues a query of the source for other variants of a change's key, unless the key is known to have none.
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

// keyOverhead is about how many bytes of memory a key takes, besides the key itself, while it waits for a query of the
// source.
const keyOverhead = 200

// apply asks the source which keys of a batch have other variants, and re-reads all variants of those keys.
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
		variants, err := s.reader.Spellings(ctx, table, some)
		if err != nil {
			return fmt.Errorf("table %s: finding keys that the source treats as equal to %d changed keys: %w",
				table, len(some), err)
		}
		s.lone.answered(table, some, variants)
		for _, cells := range variants {
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
	// The changes that were just added have no log position, so they don't hold back the position that `saver` saves.
	// Wait until they are applied.
	return appliedBy(s.lanes.shares)(ctx)
}

// checkMerged fails for views that merge several cells of a key into one entry, if the newest rows of these cells write
// the key differently ('abc', 'ABC'): the entry would have no single key.
func (s *spellings) checkMerged(ctx context.Context, cells []replicator.Cell) error {
	several := func(v *replicator.View) bool { return !v.OfEntities() }
	views := slices.DeleteFunc(slices.Clone(s.views), several)
	if len(views) == 0 || len(cells) == 0 {
		return nil
	}
	var found error
	for range 2 { // try twice: a key that changes between two reads seems to have two variants
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

// speltApart returns an error if the newest rows of cells that a view merges have different variants of one key, such
// as 'abc' and 'ABC'. rows may contain several rows of a cell, one for each variant. Then the newest of them counts.
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

// loneKeys remembers keys without another collation variant ('abc', 'ABC') in the source, so that the source is asked
// only once about a key that changes often. A key is forgotten when a row of it is deleted or another variant is found.
type loneKeys struct {
	mu   sync.Mutex
	seed maphash.Seed
	keys map[uint64]bool // by the hash of a key: true if the key has no other variant; false until the source answers
}

// rememberedKeys is how many keys are remembered: some 5 MiB.
const rememberedKeys = 1 << 18

func newLoneKeys() *loneKeys { return &loneKeys{seed: maphash.MakeSeed(), keys: map[uint64]bool{}} }

func (l *loneKeys) hash(table string, key replicator.Key) uint64 {
	return maphash.Comparable(l.seed, replicator.Cell{Table: table, Key: key})
}

// ask reports whether the source must be asked for other variants of a cell's key. gone: a row of the key is deleted.
func (l *loneKeys) ask(c replicator.Cell, gone bool) bool {
	h := l.hash(c.Table, c.Key)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case gone: // drop the source's answer, even one that is still to come: it may be older than the deletion
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

// answered records which of the given keys have no variants: other texts that the source treats as equal, such as 'ABC'
// for 'abc'. `variants` is the source's answer: the cells whose keys have variants.
func (l *loneKeys) answered(table string, keys []replicator.Key, variants [][]replicator.Cell) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, cells := range variants {
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
