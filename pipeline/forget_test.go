package pipeline_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"replicator"
	"replicator/sinks/sinktest"
)

func TestWhatIsGoneIsForgottenOnceTheHorizonHasPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, store, sink := newFakeSource(), newMemoryStore(), sinktest.NewReference()
		pipeline := newPipeline(f, sink, store, "a", "b")
		pipeline.Deleted = time.Hour
		p := start(pipeline)
		const rows = 50
		insert := func(from int64) {
			for key := from; key < from+rows; key++ {
				f.commit(fakeChange{replicator.Insert, fakeRow{key: key, version: 1, body: "x"}})
			}
		}
		remove := func(from int64) {
			for key := from; key < from+rows; key++ {
				f.commit(fakeChange{replicator.Delete, fakeRow{key: key, version: 1, body: "x"}})
			}
		}
		remembers := func(when string, want int) {
			t.Helper()
			p.caughtUp(t, f)
			if got := sink.Remembered(); got != want {
				t.Errorf("%s the sink remembers %d cells, want %d", when, got, want)
			}
		}
		// A re-read has the position of the log's end. goesOn adds a transaction, so that the re-read is below the end.
		goesOn := func() { f.commit(fakeChange{replicator.Insert, fakeRow{key: 1001, version: 2, body: "y"}}) }
		p.caughtUp(t, f)
		insert(1)
		insert(1001)
		p.caughtUp(t, f)
		remove(1)
		p.caughtUp(t, f)
		goesOn()
		time.Sleep(30 * time.Minute)
		remembers("half an hour later", 2*rows)
		time.Sleep(2 * time.Hour)
		remembers("while nothing else happens", rows)
		for round := range int64(5) {
			insert(2001 + 100*round)
			p.caughtUp(t, f)
			remove(2001 + 100*round)
			p.caughtUp(t, f)
			goesOn()
			time.Sleep(20 * time.Minute)
		}
		time.Sleep(2 * time.Hour)
		remembers("after five rounds", rows)
		p.stopped(t)
		holds(t, f, sink, "a")
	})
}

// readSink is an in-memory sink whose contents are read after each batch.
type readSink struct {
	*sinktest.Reference
	old    atomic.Bool // no entry "old" may be visible any more
	failed atomic.Bool // one was visible
}

func (s *readSink) Open(ctx context.Context, source string, views []*replicator.View) (replicator.Target, error) {
	target, err := s.Reference.Open(ctx, source, views)
	return readTarget{target, target.(replicator.Forgetter), s}, err
}

type readTarget struct {
	replicator.Target
	replicator.Forgetter
	sink *readSink
}

func (t readTarget) Apply(ctx context.Context, ops []replicator.Op) (replicator.Applied, error) {
	applied, err := t.Target.Apply(ctx, ops)
	for entry := range t.sink.Read(fakeView("a")) {
		if t.sink.old.Load() && strings.HasPrefix(entry, "old") {
			t.sink.failed.Store(true)
		}
	}
	return applied, err
}

// A process with an older checkpoint repeats changes of forgotten cells. Readers must not see the old rows again.
func TestAReplayBelowTheHorizonShowsNothingOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, store, sink := newFakeSource(), newMemoryStore(), &readSink{Reference: sinktest.NewReference()}
		run := func() *started {
			pipeline := newPipeline(f, sink, store, "a")
			pipeline.Deleted = time.Minute
			return start(pipeline)
		}
		change := func(kind replicator.ChangeKind, key, version int64, body string) {
			f.commit(fakeChange{kind, fakeRow{key: key, version: version, body: body}})
		}
		p := run()
		p.caughtUp(t, f)
		change(replicator.Insert, 9, 1, "lives")
		p.caughtUp(t, f)
		time.Sleep(time.Minute)
		older, err := store.Checkpoints(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for key := range int64(5) {
			change(replicator.Insert, key, 7, "old")
		}
		p.caughtUp(t, f)
		for key := range int64(5) {
			change(replicator.Delete, key, 7, "old")
		}
		p.caughtUp(t, f)
		change(replicator.Insert, 9, 2, "lives on")
		time.Sleep(5 * time.Minute)
		change(replicator.Insert, 1, 3, "new")
		p.caughtUp(t, f)
		if got := sink.Remembered(); got != 2 {
			t.Errorf("the sink remembers %d cells, want the two that live", got)
		}
		p.stopped(t)
		sink.old.Store(true)
		if err := store.Save(t.Context(), older); err != nil {
			t.Fatal(err)
		}
		f.set(func() { f.breaks = 2 }) // each transaction is a separate batch
		p = run()
		time.Sleep(time.Hour)
		f.set(func() { f.breaks = 0 })
		p.caughtUp(t, f)
		p.stopped(t)
		if sink.failed.Load() {
			t.Error("the view shows a row again that was deleted")
		}
		holds(t, f, sink.Reference, "a")
	})
}
