package pipeline_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"replicator"
	"replicator/sinks/sinktest"
)

// brokenSink is a sink whose Apply fails while it is broken.
type brokenSink struct {
	replicator.Sink
	broken atomic.Bool
}

func (s *brokenSink) Open(ctx context.Context, source string, views []*replicator.View) (replicator.Target, error) {
	target, err := s.Sink.Open(ctx, source, views)
	return brokenTarget{target, s}, err
}

type brokenTarget struct {
	replicator.Target
	sink *brokenSink
}

func (t brokenTarget) Apply(ctx context.Context, ops []replicator.Op) (replicator.Applied, error) {
	if t.sink.broken.Load() {
		return replicator.Applied{}, errBroken
	}
	return t.Target.Apply(ctx, ops)
}

func TestALookEndsWithTheSessionThatItWasAskedOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, store, sink := newFakeSource(), newMemoryStore(), &brokenSink{Sink: sinktest.NewReference()}
		p := start(newPipeline(f, sink, store, "a"))
		f.commit(fakeChange{replicator.Insert, fakeRow{key: 1, version: 1, body: "x"}})
		p.caughtUp(t, f)
		sink.broken.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := p.Look(ctx, "a", []replicator.Cell{fakeCell(1)}); !errors.Is(err, replicator.ErrNotServing) {
			t.Errorf("a look at a cell whose session failed: %v", err)
		}
		sink.broken.Store(false)
		time.Sleep(time.Minute)
		if err := p.Look(ctx, "a", []replicator.Cell{fakeCell(1)}); err != nil {
			t.Error(err)
		}
		p.stopped(t)
	})
}

// A re-read includes everything committed before it, also deletes that the log has not delivered yet. Rows from between
// the delete that caused the re-read and the re-read are outdated. The view must not show them.
func TestWhatWasGoneAtAReadOfTheSourceDoesNotComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, store := newFakeSource(), newMemoryStore()
		sink := sinktest.NewReference()
		p := start(newPipeline(f, sink, store, "a"))
		left := fakeRow{key: 1, version: 1, body: "left"}
		newest, between := fakeRow{key: 1, version: 3, body: "newest"}, fakeRow{key: 1, version: 2, body: "between"}
		f.commit(fakeChange{replicator.Insert, left}, fakeChange{replicator.Insert, newest})
		p.caughtUp(t, f)
		shows := func(want string) {
			t.Helper()
			held := slices.Collect(maps.Keys(sink.Read(fakeView("a"))))
			if len(held) != 1 || !strings.HasPrefix(held[0], want) {
				t.Errorf("the view shows %q, want %q", held, want)
			}
		}
		shows("newest")
		f.set(func() { f.behind = 2 }) // the log is late, re-reads are not
		f.commit(fakeChange{replicator.Delete, newest})
		f.commit(fakeChange{replicator.Insert, between})
		f.commit(fakeChange{replicator.Delete, between})
		time.Sleep(time.Second)
		shows("left")
		for range 2 { // the log delivers one more transaction
			f.commit()
			time.Sleep(time.Second)
			shows("left")
		}
		f.set(func() { f.behind = 0 })
		f.commit()
		p.caughtUp(t, f)
		p.stopped(t)
		shows("left")
	})
}
