package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"replicator"
)

func standingAt(order, epoch int64, fill map[string]replicator.Progress) replicator.Standing {
	return replicator.Standing{Position: replicator.Position{Order: order, Token: fmt.Sprint(order)},
		Epoch: epoch, Fill: fill}
}

func scanned(rows int64) map[string]replicator.Progress {
	return map[string]replicator.Progress{"t": {Rows: rows}}
}

// Each case says where a view begins (want), given its last known mark (known) and the sink's mark (mark).
func TestBeginning(t *testing.T) {
	var filled map[string]replicator.Progress
	at := standingAt
	anew := map[string]replicator.Progress{}
	for name, c := range map[string]struct {
		known    replicator.Standing
		unmarked bool
		mark     *replicator.Standing
		want     replicator.Standing
		lost     bool
	}{
		"kept": {known: at(20, 1, filled), mark: new(at(20, 1, filled)), want: at(20, 1, filled)},
		"kept, filling": {known: at(20, 1, scanned(5)), mark: new(at(20, 1, scanned(5))),
			want: at(20, 1, scanned(5))},
		"set back": {known: at(20, 1, filled), mark: new(at(15, 1, filled)), want: at(15, 1, filled)},
		"set back in a fill": {known: at(20, 1, scanned(5)), mark: new(at(20, 1, scanned(3))),
			want: at(20, 1, scanned(3))},
		"set back to the fill":  {known: at(20, 1, filled), mark: new(at(20, 1, scanned(3))), want: at(20, 1, scanned(3))},
		"set back to its start": {known: at(20, 1, filled), mark: new(at(10, 1, anew)), want: at(10, 1, anew)},
		"set back to before it": {known: at(20, 2, scanned(5)), mark: new(at(15, 1, filled)), want: at(15, 2, anew)},
		"set back to another":   {known: at(20, 2, scanned(5)), mark: new(at(15, 1, scanned(9))), want: at(15, 2, anew)},
		"set back past a fill":  {known: at(20, 2, filled), mark: new(at(15, 1, filled)), want: at(15, 2, filled)},
		"gone":                  {known: at(20, 1, filled), lost: true},
		"gone, filling":         {known: at(20, 1, scanned(5)), lost: true},
		"opened anew":           {known: at(20, 1, filled), mark: &replicator.Standing{Fill: anew}, lost: true},
		"higher":                {known: at(20, 1, filled), mark: new(at(25, 1, filled)), want: at(20, 1, filled)},
		"farther": {known: at(20, 1, scanned(5)), mark: new(at(25, 1, scanned(9))),
			want: at(20, 1, scanned(5))},
		"filled by another":   {known: at(20, 1, scanned(5)), mark: new(at(25, 1, filled)), want: at(20, 1, scanned(5))},
		"refilled by another": {known: at(20, 1, filled), mark: new(at(18, 2, filled)), want: at(18, 1, filled)},
		"another refills it":  {known: at(20, 1, filled), mark: new(at(25, 2, scanned(9))), want: at(20, 2, scanned(9))},
		"another fills it, too": {known: at(20, 1, scanned(5)), mark: new(at(25, 2, scanned(9))),
			want: at(20, 2, scanned(9))},
		"new": {known: at(20, 1, anew), unmarked: true, want: at(20, 1, anew)},
		"new, opened before": {known: at(20, 1, anew), unmarked: true,
			mark: &replicator.Standing{Fill: anew}, want: at(20, 1, anew)},
		"a rebuild that is new": {known: at(20, 2, anew), unmarked: true,
			mark: new(at(15, 1, filled)), want: at(20, 2, anew)},
		"new, marked by another": {known: at(20, 0, filled), unmarked: true, mark: new(at(15, 1, filled)),
			want: at(15, 0, filled)},
	} {
		t.Run(name, func(t *testing.T) {
			var m *replicator.Mark
			if c.mark != nil {
				m = &replicator.Mark{View: "v", Fingerprint: "1", Standing: *c.mark}
			}
			got, err := beginning(replicator.Checkpoint{View: "v", Fingerprint: "1", Standing: c.known, Unmarked: c.unmarked}, m, false)
			if c.lost {
				if !errors.Is(err, replicator.ErrSinkLost) {
					t.Errorf("it begins at %+v (%v)", got, err)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("it begins at %+v (%v), want %+v", got, err, c.want)
			}
		})
	}
	if _, err := beginning(replicator.Checkpoint{View: "v", Fingerprint: "1", Standing: at(20, 1, nil)},
		&replicator.Mark{View: "v", Fingerprint: "2", Standing: at(20, 1, nil)}, false); !errors.Is(err,
		replicator.ErrSinkLost) {
		t.Errorf("where another definition is kept: %v", err)
	}
}

// A mark never falls, whichever replicator sets it. After any Mark, the sink's mark is not Below what was marked.
func TestMarksNeverFall(t *testing.T) {
	var all []replicator.Standing
	for _, order := range []int64{10, 20} {
		for epoch := range int64(3) {
			for _, fill := range []map[string]replicator.Progress{nil, {}, scanned(3), scanned(5),
				{"t": {Done: true, Rows: 4}, "u": {Rows: 1}}} {
				swapped := standingAt(order, epoch, fill)
				swapped.Swapped = 8
				all = append(all, standingAt(order, epoch, fill), swapped)
			}
		}
	}
	for _, a := range all {
		for _, b := range all {
			raised := a.Raise(b)
			if raised.Below(a) {
				t.Errorf("%+v raised by %+v is %+v, which is below", a, b, raised)
			}
			if raised.Position.Order < a.Position.Order {
				t.Errorf("%+v raised by %+v falls to %+v", a, b, raised)
			}
			if again := raised.Raise(b); !reflect.DeepEqual(again, raised) {
				t.Errorf("%+v raised by %+v is %+v, and then %+v", a, b, raised, again)
			}
			if b.Epoch >= a.Epoch && raised.Below(b) {
				t.Errorf("%+v raised by %+v is %+v, which is below that", a, b, raised)
			}
			if b.Position.Order < a.Position.Order && b.Epoch == a.Epoch && raised.Swapped != a.Swapped {
				t.Errorf("%+v raised by %+v, which has not come as far, is %+v", a, b, raised)
			}
			least := a.Least(b)
			if least.Swapped != max(a.Swapped, b.Swapped) {
				t.Errorf("the least of %+v and %+v is %+v: a comparison is forgotten", a, b, least)
			}
			if other := b.Least(a); !reflect.DeepEqual(least, other) {
				t.Errorf("the least of %+v and %+v is %+v, or %+v", a, b, least, other)
			}
			if a.Below(least) || b.Below(least) {
				t.Errorf("the least of %+v and %+v is %+v", a, b, least)
			}
		}
	}
}

// Marks that older versions stored in sinks stay readable.
func TestStoredStandingsAreReadAsTheyWereWritten(t *testing.T) {
	anew, repairing, compared := standingAt(0, 0, map[string]replicator.Progress{}), standingAt(7, 3,
		scanned(5)), standingAt(7, 3, nil)
	anew.Position.Token, repairing.FillFrom, repairing.Repair, compared.Swapped = "", 4, true, 6
	for stored, want := range map[string]replicator.Standing{
		`{"order":0,"token":"","phase":"filling"}`:                                                                anew,
		`{"order":7,"token":"7","phase":"filled"}`:                                                                standingAt(7, 0, nil),
		`{"order":7,"token":"7","phase":"filled","epoch":3,"swapped":6}`:                                          compared,
		`{"order":7,"token":"7","phase":"filling","fill":{"t":{"rows":5}},"fill_from":4,"repair":true,"epoch":3}`: repairing,
	} {
		var read replicator.StoredStanding
		if err := json.Unmarshal([]byte(stored), &read); err != nil || !reflect.DeepEqual(read.Standing(), want) {
			t.Errorf("%s is %+v (%v), want %+v", stored, read.Standing(), err, want)
		}
		if written, err := json.Marshal(want.Stored()); err != nil || want.Position.Order > 0 && string(written) != stored {
			t.Errorf("%+v is written as %s (%v), want %s", want, written, err, stored)
		}
	}
}

// A reset keeps the position above which Orders continue, wherever the next run begins. The next run's beginning counts
// until that run has marked something.
func TestAResetIsAFillThatHasNotBegun(t *testing.T) {
	for _, was := range []replicator.Standing{standingAt(100, 0, nil), standingAt(100, 7, nil),
		standingAt(100, 7, map[string]replicator.Progress{"cell": {Rows: 3}})} {
		mark := was.Raise(was.Anew())
		if !mark.IsAnew() || was.IsAnew() || mark.Position != was.Position || mark.Below(was) {
			t.Fatalf("%+v was reset to %+v", was, mark)
		}
		if again := mark.Raise(mark.Anew()); !again.IsAnew() || again.Epoch <= mark.Epoch {
			t.Errorf("reset twice: %+v", again)
		}
		if late := mark.Raise(standingAt(200, was.Epoch, nil)); !late.IsAnew() {
			t.Errorf("what another replicator marked of before the reset: %+v", late)
		}
		for name, c := range map[string]replicator.Checkpoint{
			"earliest": {Standing: standingAt(10, mark.Epoch+1, nil), Unmarked: true},
			"latest":   {Standing: standingAt(120, mark.Epoch+1, nil), Unmarked: true},
			"snapshot": {Standing: standingAt(120, mark.Epoch+1, map[string]replicator.Progress{"cell": {}}), Unmarked: true},
		} {
			begin, err := beginning(c, &replicator.Mark{Standing: mark}, false)
			if err != nil || !reflect.DeepEqual(begin, c.Standing) {
				t.Errorf("%s begins at %+v, %v", name, begin, err)
			}
			now := lowestOf([]*replicator.View{{From: []replicator.Feed{{Table: "cell"}}}}, []replicator.Checkpoint{c})
			next := mark.Raise(now)
			if next.IsAnew() || next.Filling() != c.Filling() || next.Position.Order != max(c.Position.Order, 100) {
				t.Errorf("%s marks %+v, which makes %+v", name, now, next)
			}
		}
	}
}
