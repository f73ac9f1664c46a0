package pipeline_test

import (
	"context"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"replicator"
	"replicator/pipeline"
	"replicator/sinks/sinktest"
)

// dead returns the keys for which the store has dead letters of a view.
func (m *memoryStore) dead(view string) (keys []int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.letters {
		if l.View == view {
			values, _ := l.Cell.Key.Values()
			keys = append(keys, values[0].(int64))
		}
	}
	slices.Sort(keys)
	return keys
}

func (m *memoryStore) has(t *testing.T, when, view string, keys ...int64) {
	t.Helper()
	if got := m.dead(view); !slices.Equal(got, keys) {
		t.Errorf("%s the store has letters of %v, and not of %v", when, got, keys)
	}
}

func insert(key, version int64, body string) fakeChange {
	return fakeChange{replicator.Insert, fakeRow{key: key, version: version, body: body}}
}

// The sink knows which cells are dead. So if the store is lost, its dead letters are recorded again, without any new
// change in the source.
func TestLettersComeBackToAStoreThatLostThem(t *testing.T) {
	for _, single := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f, sink := newFakeSource(), sinktest.NewReference()
			f.single = single
			first := newMemoryStore()
			p := start(newPipeline(f, sink, first, "a", "b"))
			f.commit(insert(1, 1, "good"), insert(2, 1, unreadable), insert(3, 1, refused), insert(4, 1, unreadable))
			f.commit(insert(4, 2, "mended"))
			p.caughtUp(t, f)
			p.stopped(t)
			first.has(t, "at first", "a", 2, 3)

			lost := newMemoryStore()
			p = startCaughtUp(t, f, newPipeline(f, sink, lost, "a", "b"))
			for _, view := range []string{"a", "b"} {
				lost.has(t, "after its loss", view, 2, 3)
			}
			for _, l := range lost.letters {
				if l.Reason == "" || len(l.Raw) == 0 {
					t.Errorf("%+v", l)
				}
			}
			f.commit(insert(2, 2, "newer"))
			p.caughtUp(t, f)
			lost.has(t, "after a newer version", "a", 3)
			p.stopped(t)
			holds(t, f, sink, "a")
		})
	}
}

// The next start must not record a letter again that the operator dropped. Only a new store gets it again.
func TestADroppedLetterStaysDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
		p := start(newPipeline(f, sink, store, "a"))
		f.commit(insert(1, 1, unreadable), insert(2, 1, refused))
		p.caughtUp(t, f)
		list := store.lettersOf("a")
		if _, err := store.Drop(t.Context(), []string{list[0].ID, list[1].ID}); err != nil {
			t.Fatal(err)
		}
		p.stopped(t)
		for range 2 {
			p = start(newPipeline(f, sink, store, "a"))
			f.commit(insert(3, 1, "something"))
			p.caughtUp(t, f)
			store.has(t, "after they were dropped", "a")
			if r := verifyView(t, p, f, sink, "a", false); r.Dead != 2 {
				t.Errorf("verify: %+v", r)
			}
			p.stopped(t)
		}
	})
}

// The comparison of store and sink removes letters of cells that are gone, or that another replicator has repaired.
func TestLettersThatTheSinkDoesNotKnowAreLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
		f.commit(insert(1, 1, "good"))
		for key := range int64(3) {
			letter := replicator.DeadLetter{View: "a", Cell: fakeCell(key), Reason: "was bad once"}
			if err := store.Bury(t.Context(), []replicator.DeadLetter{letter}); err != nil {
				t.Fatal(err)
			}
		}
		p := startCaughtUp(t, f, newPipeline(f, sink, store, "a"))
		p.stopped(t)
		store.has(t, "in the end", "a")
	})
}

// lateStore delays List until the first letter is buried, but lists the letters from before that.
type lateStore struct {
	*memoryStore
	first  sync.Once
	buried chan struct{}
	count  atomic.Int64
}

func (s *lateStore) Bury(ctx context.Context, letters []replicator.DeadLetter) error {
	defer s.first.Do(func() { close(s.buried) })
	s.count.Add(int64(len(letters)))
	return s.memoryStore.Bury(ctx, letters)
}

func (s *lateStore) List(ctx context.Context, view string) iter.Seq2[replicator.DeadLetter, error] {
	list := s.memoryStore.List(ctx, view)
	<-s.buried
	return list
}

// If a cell becomes dead while store and sink are compared, its letter must not count as lost and be recorded twice.
func TestALetterThatIsBuriedDuringTheComparisonIsBuriedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sink := newFakeSource(), sinktest.NewReference()
		store := &lateStore{memoryStore: newMemoryStore(), buried: make(chan struct{})}
		p := start(newPipeline(f, sink, store, "a"))
		f.commit(insert(1, 1, unreadable))
		p.caughtUp(t, f)
		p.stopped(t)
		store.has(t, "in the end", "a", 1)
		if n := store.count.Load(); n != 1 {
			t.Errorf("the letter was buried %d times", n)
		}
	})
}

// Two replicators maintain one view, each with its own store. The second one's changes are stale, because the first one
// has re-read the cells at a later position. Both stores must still have the same letters.
func TestReplicatorsSideBySideKnowTheSameLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sink := newFakeSource(), sinktest.NewReference()
		stores := []*memoryStore{newMemoryStore(), newMemoryStore()}
		frozen := newFakeSource() // the second replicator reads the same changes, later
		f.commit(insert(9, 1, "something"))
		frozen.commit(insert(9, 1, "something"))
		first, second := start(newPipeline(f, sink, stores[0], "a")), start(newPipeline(frozen, sink, stores[1], "a"))
		first.caughtUp(t, f)
		second.caughtUp(t, frozen)
		both := func(changes ...fakeChange) {
			f.commit(changes...)
			first.caughtUp(t, f)
			// the re-reads have a later position than any row
			if err := first.Look(t.Context(), "a", []replicator.Cell{fakeCell(1), fakeCell(2)}); err != nil {
				t.Fatal(err)
			}
			frozen.commit(changes...)
			second.caughtUp(t, frozen)
			time.Sleep(time.Second)
		}
		both(insert(1, 1, "good"), insert(2, 1, unreadable))
		for i, s := range stores {
			s.has(t, []string{"first", "second"}[i], "a", 2)
		}
		both(insert(1, 2, refused), insert(2, 2, "good"))
		for i, s := range stores {
			s.has(t, []string{"first", "second"}[i]+" then", "a", 1)
		}
		first.stopped(t)
		second.stopped(t)
	})
}

// After a swap, the view has its shadow's letters, in the store and in the sink.
func TestARebuiltViewKeepsItsLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
		p := start(newPipeline(f, sink, store, "a"))
		f.commit(insert(1, 1, "good"), insert(2, 1, unreadable), insert(3, 1, refused))
		p.caughtUp(t, f)
		p.rebuild(t, pipeline.BySwap, "a")
		time.Sleep(10 * time.Second)
		p.caughtUp(t, f)
		store.has(t, "after the rebuild", "a", 2, 3)
		if n := len(store.dead("a" + replicator.ShadowSuffix)); n > 0 {
			t.Errorf("%d letters of the shadow are left", n)
		}
		if r := verifyView(t, p, f, sink, "a", false); r.Dead != 2 || r.Remaining() != 2 {
			t.Errorf("verify: %+v", r)
		}
		p.stopped(t)
		lost := newMemoryStore()
		p = startCaughtUp(t, f, newPipeline(f, sink, lost, "a"))
		lost.has(t, "after the store's loss", "a", 2, 3)
		p.stopped(t)
	})
}

// unwilling is a store whose Forget fails once: when the view has its shadow's letters.
type unwilling struct {
	*memoryStore
	failed atomic.Bool
}

func (s *unwilling) Forget(ctx context.Context, view string) error {
	if view == "a"+replicator.ShadowSuffix && len(s.dead("a")) > 0 && s.failed.CompareAndSwap(false, true) {
		return errBroken
	}
	return s.memoryStore.Forget(ctx, view)
}

// If the store fails after a swap, the rest of the swap's work in the store is repeated, and no letter is lost.
func TestARebuiltViewKeepsItsLettersWhereTheStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sink, store := newFakeSource(), sinktest.NewReference(), &unwilling{memoryStore: newMemoryStore()}
		p := start(newPipeline(f, sink, store, "a"))
		f.commit(insert(1, 1, "good"))
		p.caughtUp(t, f)
		p.rebuild(t, pipeline.BySwap, "a")
		f.commit(insert(2, 1, unreadable), insert(3, 1, refused))
		time.Sleep(5 * time.Minute)
		p.caughtUp(t, f)
		if !store.failed.Load() {
			t.Error("the store did not fail")
		}
		store.has(t, "after the rebuild", "a", 2, 3)
		store.has(t, "after the rebuild", "a"+replicator.ShadowSuffix)
		p.stopped(t)
	})
}

// A crash may happen after a shadow's checkpoint is removed, and before its letters are.
func TestLettersThatARebuildLeftGoWithTheNextStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
		f.commit(insert(1, 1, unreadable))
		shadow := "a" + replicator.ShadowSuffix
		if err := store.Bury(t.Context(), []replicator.DeadLetter{{View: shadow, Cell: fakeCell(7)}}); err != nil {
			t.Fatal(err)
		}
		p := startCaughtUp(t, f, newPipeline(f, sink, store, "a"))
		p.stopped(t)
		store.has(t, "after a start", shadow)
		store.has(t, "after a start", "a", 1)
	})
}
