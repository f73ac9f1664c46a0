package pipeline_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"replicator"
	"replicator/sinks/sinktest"
)

// A change that another replicator applied first is stale for this one. Its cell's letter must go if the sink holds
// something that is not dead, and otherwise stay.
func TestALetterIsRaisedByWhatAnotherReplicatorAppliedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
		p := start(newPipeline(f, sink, store, "a"))
		f.commit(fakeChange{replicator.Insert, fakeRow{1, 1, "bad"}}, fakeChange{replicator.Insert, fakeRow{2, 7, "bad"}},
			fakeChange{replicator.Insert, fakeRow{3, 7, "bad"}})
		p.caughtUp(t, f)
		other, err := sink.Open(t.Context(), "", []*replicator.View{fakeView("a")})
		if err != nil {
			t.Fatal(err)
		}
		// The other replicator is ahead, and has re-read the cells. Changes from before those re-reads are stale.
		for key, body := range map[int64]string{1: "good", 2: "fine", 3: "bad"} {
			op := replicator.Op{Cell: fakeCell(key), Version: 9 - key, AsOf: 9000,
				Values: []replicator.Value{{Entries: []replicator.Entry{{Fields: []any{body}}}}}}
			if body == "bad" {
				op.Values = []replicator.Value{{Err: errors.New("the body is bad")}}
			}
			if _, err := other.Apply(t.Context(), []replicator.Op{op}); err != nil {
				t.Fatal(err)
			}
		}
		f.commit(fakeChange{replicator.Insert, fakeRow{1, 8, "good"}}, fakeChange{replicator.Insert, fakeRow{2, 6, "older"}},
			fakeChange{replicator.Insert, fakeRow{3, 6, "older"}})
		p.caughtUp(t, f)
		if letters := store.lettersOf("a"); len(letters) != 1 || letters[0].Cell != fakeCell(3) {
			t.Errorf("the letters are %+v; want that of key 3 alone", letters)
		}
		p.stopped(t)
	})
}

// lookless is a sink that applies puts after a second, and never returns from a re-read.
type lookless struct{ replicator.Sink }

func (s lookless) Open(ctx context.Context, source string, views []*replicator.View) (replicator.Target, error) {
	target, err := s.Sink.Open(ctx, source, views)
	return looklessTarget{target}, err
}

type looklessTarget struct{ replicator.Target }

func (t looklessTarget) Apply(ctx context.Context, ops []replicator.Op) (replicator.Applied, error) {
	if slices.ContainsFunc(ops, func(op replicator.Op) bool { return op.AsOf != 0 }) {
		<-ctx.Done()
		return replicator.Applied{}, context.Cause(ctx)
	}
	time.Sleep(time.Second)
	return t.Target.Apply(ctx, ops)
}

// Another replicator has re-read a cell and found it dead. This one's checkpoint must not pass the row before the
// letter is saved, because a crash in between would lose the letter.
func TestTheLetterOfWhatAnotherReplicatorFoundDeadIsSavedBeforeTheCheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
		f.commit(insert(9, 1, "something"))
		p := startCaughtUp(t, f, newPipeline(f, lookless{sink}, store, "a"))
		other, err := sink.Open(t.Context(), "", []*replicator.View{fakeView("a")})
		if err != nil {
			t.Fatal(err)
		}
		found := replicator.Op{Cell: fakeCell(1), Version: 1, AsOf: 2000, Values: []replicator.Value{{Err: errors.New("bad")}}}
		if _, err := other.Apply(t.Context(), []replicator.Op{found}); err != nil {
			t.Fatal(err)
		}
		f.commit(insert(1, 1, unreadable))
		time.Sleep(time.Minute)
		p.crash()
		<-p.done
		p.stop()
		p = startCaughtUp(t, f, newPipeline(f, sink, store, "a"))
		store.has(t, "after a crash", "a", 1)
		p.stopped(t)
	})
}

// An older row may be applied to one view and be stale in another one. The other view's letter must stay.
func TestALetterStaysWhereAnOlderRowCountsInAnotherView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
		p := start(newPipeline(f, sink, store, "a", "b"))
		f.commit(insert(1, 5, unreadable))
		p.caughtUp(t, f)
		other, err := sink.Open(t.Context(), "", []*replicator.View{fakeView("b")})
		if err != nil {
			t.Fatal(err)
		}
		gone := replicator.Op{Cell: fakeCell(1), Version: replicator.NoVersion, AsOf: 1000, Values: []replicator.Value{{}}}
		if _, err := other.Apply(t.Context(), []replicator.Op{gone}); err != nil {
			t.Fatal(err)
		}
		f.commit(insert(1, 4, "older"))
		p.caughtUp(t, f)
		store.has(t, "in the end", "a", 1)
		store.has(t, "in the end", "b")
		p.stopped(t)
	})
}
