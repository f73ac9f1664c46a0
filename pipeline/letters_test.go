package pipeline_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"replicator"
	"replicator/sinks/sinktest"
)

// What another replicator applied first comes to this one as stale. A letter is obsolete all the same where what stands
// in the sink is not dead; else it stays.
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
		// It is ahead, and looked at both cells in full: nothing that comes before that look is applied any more.
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

// unreadSource can't be asked for the newest rows of cells.
type unreadSource struct{ *fakeSource }

func (s unreadSource) Open(ctx context.Context, at []replicator.Position, tables ...string) (replicator.Reader, error) {
	r, err := s.fakeSource.Open(ctx, at, tables...)
	return unreadReader{r}, err
}

type unreadReader struct{ replicator.Reader }

func (unreadReader) Newest(context.Context, []replicator.Cell, int64) ([]*replicator.Row, int64, error) {
	return nil, 0, errors.New("the source can't be read")
}

// A look that found a dead row is applied, and the session ends before its letter is saved. What the log tells of the
// cell comes again then, and is no news to the sink. The letter is saved by that, whether the source can be asked or not.
func TestALetterThatASessionDidNotSaveIsSavedByTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
		p := start(newPipeline(unreadSource{f}, sink, store, "a"))
		p.caughtUp(t, f)
		before, err := sink.Open(t.Context(), "", []*replicator.View{fakeView("a")})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := before.Apply(t.Context(), []replicator.Op{{Cell: fakeCell(2), Version: 1, AsOf: 9000,
			Values: []replicator.Value{{Err: errors.New("the body is bad")}}}}); err != nil {
			t.Fatal(err)
		}
		f.commit(insert(1, 1, "good"), insert(2, 1, unreadable))
		p.caughtUp(t, f)
		store.has(t, "after the change came again", "a", 2)
		p.stopped(t)
	})
}
