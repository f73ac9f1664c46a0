package judge

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"

	"replicator"
	"replicator/internal/wire"
)

var errWide = errors.New("too wide")

func put(version, order int64, views ...int) replicator.Op {
	op := replicator.Op{Version: version, Order: order}
	for _, v := range views {
		op.Values = append(op.Values, replicator.Value{View: v})
	}
	return op
}

func TestTheOutcomeOfABatch(t *testing.T) {
	at := func(version int64) Known { return Known{State: replicator.State{Version: version, Order: version}} }
	dead := at(5)
	dead.Dead = true
	tests := []struct {
		name  string
		ops   []replicator.Op
		judge func(*Batch)
		want  replicator.Applied
	}{
		{"all counts", []replicator.Op{put(7, 7, 0, 1)}, func(b *Batch) {
			b.Judge(0, 0, at(5))
			b.Judge(0, 1,
				Unseen)
		}, replicator.Applied{}},
		{"stale in every view", []replicator.Op{put(7, 7, 0), put(3, 3, 0, 1)}, func(b *Batch) {
			b.Judge(0, 0, at(5))
			b.Judge(1, 0, at(5))
			b.Judge(1, 1, at(4))
		}, replicator.Applied{Stale: []int{1}}},
		{"stale in one view of two", []replicator.Op{put(3, 3, 0, 1)},
			func(b *Batch) { b.Judge(0, 0, at(5)); b.Judge(0, 1, Unseen) }, replicator.Applied{}},
		{"no values", []replicator.Op{put(3, 3)}, func(*Batch) {}, replicator.Applied{}},
		{"a value that can't be held", []replicator.Op{put(7, 7, 2, 4)}, func(b *Batch) {
			b.Judge(0, 0, at(5))
			b.Judge(0, 1, at(5))
			b.Reject(0, 1, errWide)
		}, replicator.Applied{Rejected: []replicator.Rejected{{Op: 0, View: 4, Err: errWide}}}},
		{"a stale value that could not be held either", []replicator.Op{put(3, 3, 2)}, func(b *Batch) {
			b.Reject(0, 0, errWide)
			b.Judge(0, 0, at(5))
		}, replicator.Applied{Stale: []int{0}}},
		{"a value of which nothing could be known", []replicator.Op{put(3, 3, 2)}, func(b *Batch) { b.Reject(0, 0, errWide) },
			replicator.Applied{Rejected: []replicator.Rejected{{Op: 0, View: 2, Err: errWide}}}},
		{"a stale op whose cell is a dead letter", []replicator.Op{put(3, 3, 2, 4)}, func(b *Batch) {
			b.Judge(0, 0, dead)
			b.Judge(0, 1, at(5))
		}, replicator.Applied{Stale: []int{0}, Dead: []replicator.ValueAt{{Op: 0, View: 2}}}},
		{"dead in the view where it is stale", []replicator.Op{put(3, 3, 2, 4)}, func(b *Batch) {
			b.Judge(0, 0, dead)
			b.Judge(0, 1, Unseen)
		}, replicator.Applied{Dead: []replicator.ValueAt{{Op: 0, View: 2}}}},
		{"a dead letter is ended by what counts", []replicator.Op{put(7, 7, 2)},
			func(b *Batch) { b.Judge(0, 0, dead) }, replicator.Applied{}},
		{"judged again after a lost race", []replicator.Op{put(7, 7, 2)}, func(b *Batch) {
			b.Judge(0, 0, at(5))
			b.Reject(0, 0, errWide)
			b.Judge(0, 0, at(9))
		}, replicator.Applied{Stale: []int{0}}},
		{"held after all", []replicator.Op{put(7, 7, 2)}, func(b *Batch) {
			b.Judge(0, 0, at(5))
			b.Reject(0, 0, errWide)
			b.Judge(0, 0, at(5))
			b.Reject(0, 0, nil)
		}, replicator.Applied{}},
		{"another cell's refusal", []replicator.Op{put(7, 7, 2)}, func(b *Batch) {
			b.Judge(0, 0, at(5))
			b.RejectBeside(0, 2, errWide)
		}, replicator.Applied{Rejected: []replicator.Rejected{{Op: 0, View: 2, Err: errWide}}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := NewBatch(test.ops)
			test.judge(b)
			if got := b.Applied(); !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestTheOutcomeOfABatchThatIsAppliedInParts(t *testing.T) {
	ops := []replicator.Op{put(9, 9, 0, 2), put(8, 8, 2), put(7, 7, 2), put(6, 6, 0, 2)}
	first, second := NewPart([]int{0, 2}), NewPart([]int{2})
	first.Add(0, put(9, 9, 0, 1))
	first.Add(1, put(8, 8, 1))
	first.Add(2, put(7, 7, 1))
	first.Add(3, put(6, 6, 0, 1))
	second.Add(0, put(9, 9, 0))
	second.Add(1, put(8, 8, 0))
	second.Add(2, put(7, 7, 0))
	b := NewBatch(ops)
	b.Include(&first, replicator.Applied{Stale: []int{1, 2},
		Dead: []replicator.ValueAt{{Op: 1, View: 1}, {Op: 2, View: 1}, {Op: 3, View: 1}}})
	b.Include(&second, replicator.Applied{Stale: []int{2},
		Rejected: []replicator.Rejected{{Op: 0, View: 0, Err: errWide}}})
	want := replicator.Applied{ // the second op counts in one part, the fourth in one view
		Stale: []int{2}, Dead: []replicator.ValueAt{{Op: 2, View: 2}, {Op: 3, View: 2}}, Rejected: []replicator.Rejected{{Op: 0,
			View: 2, Err: errWide}},
	}
	if got := b.Applied(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if at := second.At(1, 0); at != (replicator.ValueAt{Op: 1, View: 2}) {
		t.Errorf("a value of a part is at %+v", at)
	}
}

func TestABatchThatIsBegunAgainHasNothingOfTheEarlierOne(t *testing.T) {
	ops := func(n int) []replicator.Op { return slices.Repeat([]replicator.Op{put(1, 1, 0, 1)}, n) }
	b := NewBatch(ops(3))
	for i := range 3 {
		b.Reject(i, 1, errWide)
	}
	b.RejectBeside(2, 0, errWide)
	first := b.Applied()
	for _, n := range []int{1, 2, 3, 50} {
		if b.Begin(ops(n)); !reflect.DeepEqual(b.Applied(), replicator.Applied{}) {
			t.Errorf("%d ops of which nothing is judged yet: %+v", n, b.Applied())
		}
		for i := range n {
			b.Judge(i, 1, Unseen)
			b.Reject(i, 0, errWide)
		}
		if got := b.Applied(); len(got.Rejected) != n || len(got.Stale) != 0 {
			t.Errorf("%d ops that can't be held: %+v", n, got)
		}
	}
	if len(first.Rejected) != 4 || first.Rejected[0] != (replicator.Rejected{Op: 0, View: 1, Err: errWide}) {
		t.Errorf("what was told of the first batch is now %+v", first)
	}
}

func TestAStateIsKeptAlsoWhereAnOpDoesNotCount(t *testing.T) {
	known := Known{State: replicator.State{Version: 9, Order: 20}}
	b := NewBatch([]replicator.Op{{Version: 4, AsOf: 10, Values: []replicator.Value{{}}}})
	next, applies := b.Judge(0, 0, known)
	if want := (replicator.State{Version: 9, Order: 20, AsOf: 10}); applies || next != want {
		t.Errorf("applies %v, state %+v", applies, next)
	}
}

func TestACellIsOutdatedIfNothingWasAppliedSince(t *testing.T) {
	tests := []struct {
		name  string
		known Known
		want  bool
	}{
		{"never seen", Unseen, false},
		{"shown, applied before", Known{State: replicator.State{Version: 3, Order: 9}, Shown: true}, true},
		{"shown, applied at the order", Known{State: replicator.State{Version: 3, Order: 10}, Shown: true}, false},
		{"shown, looked at since", Known{State: replicator.State{Version: 3, Order: 2, AsOf: 10}, Shown: true}, false},
		{"a version without a contribution", Known{State: replicator.State{Version: 3, Order: 9}}, true},
		{"gone", Known{State: replicator.State{Version: replicator.NoVersion, Order: 9}}, false},
		{"shown without a version", Known{State: replicator.State{Version: replicator.NoVersion,
			Order: 9}, Shown: true}, true},
	}
	for _, test := range tests {
		if got := test.known.Outdated(10); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

func TestAStateIsReadAsItWasWritten(t *testing.T) {
	for _, s := range []replicator.State{replicator.Unseen, {Version: 0, Order: 1, AsOf: 2},
		{Version: math.MaxInt64, Order: math.MaxInt64, AsOf: math.MaxInt64}} {
		r := wire.NewReader(string(AppendState(nil, s)))
		if got := ReadState(&r); got != s || r.Bad() || r.More() {
			t.Errorf("%+v is read as %+v", s, got)
		}
	}
	r := wire.NewReader("\x81\x80\x80\x80\x80\x80\x80\x80\x80\x01\x00\x00")
	if ReadState(&r); !r.Bad() {
		t.Error("a version beyond 63 bits is read")
	}
}

func TestTheVersionsOfTheViewsThatACellFeeds(t *testing.T) {
	v := NewVersions(4)
	v.Add(0, 7)
	v.Add(0, 5)
	v.Add(1, replicator.NoVersion)
	v.Add(1, 5)
	v.Add(3, math.MaxInt64)
	elsewhere := NewVersions(4)
	elsewhere.Add(0, 6)
	v.Join(elsewhere)
	want := []replicator.Span{{Lowest: 5, Highest: 7}, {Lowest: replicator.NoVersion, Highest: 5},
		{Lowest: replicator.NoVersion, Highest: replicator.NoVersion}, {Lowest: math.MaxInt64, Highest: math.MaxInt64}}
	if got := v.Spans(); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestCellsGiveTheirFieldsInTheOrderOfTheFeeds(t *testing.T) {
	view := &replicator.View{From: []replicator.Feed{{Table: "t", Column: "b"}, {Table: "u"}}}
	cells := []replicator.Cell{{Table: "t", Column: "gone"}, {Table: "u", Column: "z"}, {Table: "u", Column: "a"},
		{Table: "t", Column: "b"}}
	slices.SortFunc(cells, func(a, b replicator.Cell) int { return Order(view, a, b) })
	want := []replicator.Cell{{Table: "t", Column: "b"}, {Table: "u", Column: "a"}, {Table: "u", Column: "z"},
		{Table: "t", Column: "gone"}}
	if !slices.Equal(cells, want) {
		t.Errorf("got %v", cells)
	}
}

func TestWhichViewsCellsShare(t *testing.T) {
	hasColumn := func(table string) bool { return table == "cells" }
	tests := []struct {
		from []replicator.Feed
		want bool
	}{
		{[]replicator.Feed{{Table: "cells", Column: "users"}}, false},
		{[]replicator.Feed{{Table: "cells"}}, true},
		{[]replicator.Feed{{Table: "plain"}}, false},
		{[]replicator.Feed{{Table: "plain"}, {Table: "other"}}, true},
		{nil, false},
	}
	for _, test := range tests {
		if got := Shares(&replicator.View{From: test.from}, hasColumn); got != test.want {
			t.Errorf("%v: %v", test.from, got)
		}
	}
}

func TestWhatIsWrongWithWhatAViewHolds(t *testing.T) {
	tests := []struct {
		want, held, right bool
		kind              replicator.DifferenceKind
	}{
		{false, false, false, ""}, {true, true, true, ""},
		{true, false, false, replicator.Missing}, {false, true, false, replicator.Extra},
		{true, true, false, replicator.Stale}, {false, true, true, replicator.Extra},
	}
	for _, test := range tests {
		if kind := Difference(test.want, test.held, test.right); kind != test.kind {
			t.Errorf("%+v: %q", test, kind)
		}
	}
}

func TestMarksThatFell(t *testing.T) {
	filled := func(order int64) replicator.Standing {
		return replicator.Standing{Position: replicator.Position{Order: order, Token: "t"}}
	}
	views := []*replicator.View{{Name: "v"}}
	m := NewMarks(views, []replicator.Standing{filled(5)}, "")
	mark := func(at, stood int64) (replicator.Standing, error) {
		var raised replicator.Standing
		err := m.Mark(filled(at), func(mk *Marking) (err error) {
			raised, err = mk.Raise(0, filled(stood))
			return err
		})
		return raised, err
	}
	if _, err := mark(9, 4); !errors.Is(err, replicator.ErrSinkLost) {
		t.Errorf("below what was there when it was opened: %v", err)
	}
	if at, err := mark(9, 5); err != nil || at.Position.Order != 9 {
		t.Errorf("raised to %+v, %v", at, err)
	}
	if at, err := mark(7, 12); err != nil || at.Position.Order != 12 {
		t.Errorf("where another replicator is farther: %+v, %v", at, err)
	}
	if _, err := mark(20, 11); !errors.Is(err, replicator.ErrSinkLost) {
		t.Errorf("below what was seen last: %v", err)
	}
	failed := errors.New("not written")
	if err := m.Mark(filled(30), func(mk *Marking) error {
		mk.Note(0,
			filled(30))
		return failed
	}); !errors.Is(err, failed) {
		t.Fatal(err)
	}
	if at, err := mark(13, 12); err != nil || at.Position.Order != 13 {
		t.Errorf("after what was not written: %+v, %v", at, err)
	}
}

// Two targets may be opened before either marks anything. Without the check, they would write positions of two logs in
// one epoch.
func TestAnEpochIsRegisteredByOneTarget(t *testing.T) {
	at := func(epoch, order int64, token string) replicator.Standing {
		return replicator.Standing{Position: replicator.Position{Order: epoch<<replicator.EpochShift + order, Token: token}}
	}
	for _, test := range []struct {
		name             string
		last, stood, now replicator.Standing
		want             error
	}{
		{"nobody registered the first one", replicator.Standing{}, replicator.Standing{}, at(0, 5, "b"), nil},
		{"another target registered the first one", replicator.Standing{}, at(0, 3, "a"), at(0, 5, "b"), ErrRegistered},
		{"another target registered a later one", at(0, 9, "a"), at(1, 3, "a"), at(1, 5, "b"), ErrRegistered},
		{"it was there when the target was opened", at(1, 3, "a"), at(1, 4, "a"), at(1, 5, "b"), nil},
		{"it is this target's, whose answer was lost", at(0, 9, "a"), at(1, 5, "b"), at(1, 5, "b"), nil},
	} {
		m := NewMarks([]*replicator.View{{Name: "v"}}, []replicator.Standing{test.last}, "")
		err := m.Mark(test.now, func(mk *Marking) error { _, err := mk.Raise(0, test.stood); return err })
		if !errors.Is(err, test.want) {
			t.Errorf("%s: %v, not %v", test.name, err, test.want)
		}
	}
}

func TestACursorLeadsBackToItsPlace(t *testing.T) {
	type place struct {
		Node int
		Last []byte
	}
	want := place{3, []byte{0, 255}}
	var got place
	if err := At(Cursor(want), &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := At("", &got); err != nil || got.Node != 3 {
		t.Errorf("the beginning: %+v, %v", got, err)
	}
	if At("nonsense", &got) == nil {
		t.Error("nonsense is taken for a cursor")
	}
}

func TestAMarkOnAnotherServerCountsOnlyWhereNothingWasApplied(t *testing.T) {
	at := func(order int64) replicator.Standing {
		return replicator.Standing{Position: replicator.Position{Order: order, Token: "t"}}
	}
	m := NewMarks([]*replicator.View{{Name: "v"}}, []replicator.Standing{at(1)}, "a")
	failed := errors.New("not written")
	for i, step := range []struct {
		applied bool
		server  string
		fails   error // of the write
		want    error
	}{
		{server: "a"},
		{applied: true, server: "a"},
		{server: "b"},
		{applied: true, server: "b"},
		{applied: true, server: "c", want: ErrOtherServer},
		{server: "c", want: ErrOtherServer}, // still
		{server: "b"},                       // it was the old one after all
		{applied: true, server: "b", fails: failed, want: failed},
		{server: "c", want: ErrOtherServer},
		{server: "b", fails: failed, want: failed},
		{server: "b"},
		{server: "c"},
	} {
		if step.applied {
			m.Applied()
		}
		err := m.Mark(at(int64(i)+2), func(mk *Marking) error {
			if err := mk.Answered(step.server); err != nil {
				return err
			}
			return step.fails
		})
		if !errors.Is(err, step.want) {
			t.Errorf("step %d: %v, want %v", i, err, step.want)
		}
	}
	unnamed := NewMarks([]*replicator.View{{Name: "v"}}, []replicator.Standing{at(1)}, "")
	unnamed.Applied()
	if err := unnamed.Mark(at(2), func(mk *Marking) error { return mk.Answered("a") }); err != nil {
		t.Errorf("where no server was known: %v", err)
	}
}
