package pipeline_test

import (
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
