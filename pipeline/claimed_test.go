package pipeline_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"replicator"
	"replicator/sinks/sinktest"
	"replicator/verify"
)

// shard is one of several sources.
type shard struct {
	*fakeSource
	name string
}

func (s shard) Name() string { return s.name }

// A row that can't be shown because another shard has a row of the same key has a dead letter. The letter goes when the
// other shard's row is deleted. An unreadable row keeps its letter even then.
func TestLettersOfAKeyThatTwoShardsHave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, other := shard{newFakeSource(), "one"}, shard{newFakeSource(), "other"}
		sink, store := sinktest.NewReference(), newMemoryStore()
		p, q := start(newPipeline(one, sink, store, "a")), start(newPipeline(other, sink, store, "a"))
		one.commit(fakeChange{replicator.Insert, fakeRow{1, 1, "old"}}, fakeChange{replicator.Insert, fakeRow{2, 1, "old"}})
		p.caughtUp(t, one.fakeSource)
		other.commit(fakeChange{replicator.Insert, fakeRow{1, 2, "new"}}, fakeChange{replicator.Insert, fakeRow{2, 2, "bad"}})
		q.caughtUp(t, other.fakeSource)
		if letters := store.lettersOf("a"); len(letters) != 2 || letters[0].Source != "other" ||
			letters[1].Source != "other" {
			t.Fatalf("while two shards have rows of the keys the letters are %+v", letters)
		}
		one.commit(fakeChange{replicator.Delete, fakeRow{1, 1, "old"}}, fakeChange{replicator.Delete, fakeRow{2, 1, "old"}})
		p.caughtUp(t, one.fakeSource)
		letters := store.lettersOf("a")
		if len(letters) != 1 || letters[0].Cell != fakeCell(2) || !strings.Contains(letters[0].Reason, "bad") {
			t.Errorf("after the old rows were deleted the letters are %+v", letters)
		}
		if shown := sink.Read(fakeView("a")); len(shown) != 1 {
			t.Errorf("the view shows %v", shown)
		}
		p.stopped(t)
		q.stopped(t)
	})
}

// The row of the other shard may be deleted without a change in its log, for example by TRUNCATE. Then neither shard's
// log has a change of the key. The repair that finds this must show the row that waited, and remove its letter. The
// same holds if the deleted row was unreadable, so that the view showed nothing of it.
func TestTheLetterOfARowThatWaitedGoesWithARepair(t *testing.T) {
	for _, body := range []string{"old", unreadable} {
		t.Run(body, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { repairedOfAnother(t, body) })
		})
	}
}

func repairedOfAnother(t *testing.T, body string) {
	one, other := shard{newFakeSource(), "one"}, shard{newFakeSource(), "other"}
	sink, store := sinktest.NewReference(), newMemoryStore()
	p, q := start(newPipeline(one, sink, store, "a", "b")), start(newPipeline(other, sink, store, "a", "b"))
	one.commit(insert(1, 1, body))
	p.caughtUp(t, one.fakeSource)
	other.commit(insert(1, 2, "new"))
	q.caughtUp(t, other.fakeSource)
	one.mu.Lock()
	clear(one.rows)
	one.mu.Unlock()
	views := []*replicator.View{fakeView("a"), fakeView("b")}
	open := func(views ...*replicator.View) *verify.Together {
		target, err := sink.Open(t.Context(), "one", views)
		reader, failed := one.Open(t.Context(), []replicator.Position{fakePosition(len(one.log))})
		if err = errors.Join(err, failed); err != nil {
			t.Fatal(err)
		}
		return &verify.Together{Views: views, Reader: reader, Target: target, Evaluator: bodyEvaluator{views},
			Close: func() error { return nil }}
	}
	alone := open(views[0])
	_, err := verify.Run(t.Context(), verify.Options{View: views[0], Reader: alone.Reader, Target: alone.Target,
		Evaluator: alone.Evaluator, Repair: true, Raise: store.Raise,
		Together: func(context.Context) (*verify.Together, error) { return open(views...), nil }})
	if err != nil {
		t.Error(err)
	}
	for _, v := range views {
		letters := slices.DeleteFunc(store.lettersOf(v.Name), func(l replicator.DeadLetter) bool { return l.Source == "one" })
		if len(letters) > 0 || len(sink.Read(v)) != 1 {
			t.Errorf("view %s: the letters are %+v, and it shows %v", v.Name, letters, sink.Read(v))
		}
	}
	p.stopped(t)
	q.stopped(t)
}

// quick is a store that saves its first letter only after the other shard's row was deleted.
type quick struct {
	replicator.Store
	once   sync.Once
	before func()
}

func (s *quick) Bury(ctx context.Context, letters []replicator.DeadLetter) error {
	s.once.Do(s.before)
	return s.Store.Bury(ctx, letters)
}

// The other shard's row may be deleted before the letter that it caused is saved. The deletion then finds no letter to
// remove.
func TestALetterOfAKeyThatTwoShardsHadGoesHoweverCloselyTheyMeet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sink, store := shard{newFakeSource(), "other"}, sinktest.NewReference(), newMemoryStore()
		one, err := sink.Open(t.Context(), "one", []*replicator.View{fakeView("a")})
		apply := func(op replicator.Op, bodies ...any) {
			value := replicator.Value{}
			for _, b := range bodies {
				value.Entries = append(value.Entries, replicator.Entry{Fields: []any{b}})
			}
			op.Cell, op.Values = fakeCell(1), []replicator.Value{value}
			_, failed := one.Apply(context.Background(), []replicator.Op{op})
			err = errors.Join(err, failed)
		}
		apply(replicator.Op{Version: 1, Order: 1}, "old")
		gone := func() { apply(replicator.Op{Version: replicator.NoVersion, AsOf: 9}) }
		p := start(newPipeline(f, sink, &quick{Store: store, before: gone}, "a"))
		f.commit(fakeChange{replicator.Insert, fakeRow{1, 2, "new"}})
		p.caughtUp(t, f.fakeSource)
		if letters := store.lettersOf("a"); len(letters) > 0 || len(sink.Read(fakeView("a"))) != 1 || err != nil {
			t.Errorf("the letters are %+v, and the view shows %v (%v)", letters, sink.Read(fakeView("a")), err)
		}
		p.stopped(t)
	})
}

// meeting is a sink that calls meet once: after an op removed a cell, and before Apply returns.
type meeting struct {
	replicator.Sink
	once sync.Once
	meet func()
}

func (s *meeting) Open(ctx context.Context, source string, views []*replicator.View) (replicator.Target, error) {
	target, err := s.Sink.Open(ctx, source, views)
	return meetingTarget{target, s}, err
}

type meetingTarget struct {
	replicator.Target
	sink *meeting
}

func (t meetingTarget) Apply(ctx context.Context, ops []replicator.Op) (replicator.Applied, error) {
	applied, err := t.Target.Apply(ctx, ops)
	if len(applied.Elsewhere) > 0 {
		t.sink.once.Do(t.sink.meet)
	}
	return applied, err
}

// A shard's pipeline learns that the view shows another shard's row. Meanwhile that row may have become a dead letter.
// Its letter must stay.
func TestALetterOfAnotherShardIsRemovedOnlyIfItIsOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, other := shard{newFakeSource(), "one"}, shard{newFakeSource(), "other"}
		sink, store := &meeting{Sink: sinktest.NewReference()}, newMemoryStore()
		q := start(newPipeline(other, sink, store, "a"))
		sink.meet = func() {
			other.commit(insert(1, 3, unreadable))
			q.caughtUp(t, other.fakeSource)
		}
		other.commit(insert(1, 1, "shown"))
		q.caughtUp(t, other.fakeSource)
		p := start(newPipeline(one, sink, store, "a"))
		one.commit(insert(1, 2, "waits"))
		p.caughtUp(t, one.fakeSource)
		one.commit(fakeChange{replicator.Delete, fakeRow{1, 2, "waits"}})
		p.caughtUp(t, one.fakeSource)
		if letters := store.lettersOf("a"); len(letters) != 1 || letters[0].Source != "other" || letters[0].Version != 3 {
			t.Errorf("the letters are %+v, not that of the other shard's version 3", letters)
		}
		other.commit(insert(1, 4, "mended"))
		q.caughtUp(t, other.fakeSource)
		if letters := store.lettersOf("a"); len(letters) > 0 {
			t.Errorf("letters that are left: %+v", letters)
		}
		p.stopped(t)
		q.stopped(t)
	})
}
