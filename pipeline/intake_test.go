package pipeline

import (
	"testing"
	"testing/synctest"

	"replicator"
)

type exactReader struct{ replicator.Reader }

func (exactReader) MixesSpellings(string) bool { return false }

// A row that takes most of the budget must be applied before the next row is read, because the next row may be as
// large.
func TestAHugeRowIsAppliedBeforeTheNextIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(64<<20, 1)
		l := newLane(b, &reach{}, nil)
		all := &lanes{reach: &reach{}, shares: []*lane{l}, spellings: l}
		in := &intake{budget: b, lanes: all, spellings: &spellings{reader: exactReader{}}}
		key, err := replicator.MakeKey(int64(1))
		if err != nil {
			t.Fatal(err)
		}
		add := func(size int) chan error {
			row := &replicator.Row{Cell: replicator.Cell{Table: "t", Key: key}, Order: 1, Body: make([]byte, size)}
			added := make(chan error, 1)
			go func() {
				added <- in.add(t.Context(), &replicator.Change{Kind: replicator.Insert, Cell: row.Cell, Row: row})
			}()
			synctest.Wait()
			return added
		}
		if added := add(1); len(added) != 1 {
			t.Fatal("a small row waits to be applied")
		}
		apply := func() {
			for _, p := range l.take() {
				b.give(p.size)
			}
			l.landed()
			synctest.Wait()
		}
		apply()
		added := add(40 << 20)
		if len(added) > 0 {
			t.Fatalf("a huge row does not wait to be applied: %v", <-added)
		}
		apply()
		if err := <-added; err != nil || b.used != 0 {
			t.Errorf("%v, and %d bytes are used", err, b.used)
		}
	})
}
