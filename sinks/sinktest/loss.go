package sinktest

import (
	"errors"
	"slices"

	"replicator"
)

func testLost(f *fixture) {
	if f.s.SetMark == nil {
		f.t.Skip("Subject.SetMark is nil")
	}
	f.source = "lost"
	view := f.s.Views[0].Name
	standing := func(order int64, fill map[string]replicator.Progress) *replicator.Standing {
		return &replicator.Standing{Position: replicator.Position{Order: order, Token: "p"},
			Fill: fill, FillFrom: 1, Epoch: 1}
	}
	half := map[string]replicator.Progress{"cell": {After: "x", Rows: 5}}
	for name, c := range map[string]struct {
		marked *replicator.Standing
		damage *replicator.Standing
	}{
		"fell":             {standing(20, nil), standing(5, nil)},
		"is gone":          {standing(20, nil), nil},
		"is from the fill": {standing(20, nil), standing(20, half)},
		"has less progress": {standing(20, half), standing(20,
			map[string]replicator.Progress{"cell": {After: "a", Rows: 3}})},
	} {
		f.target = open(f.t, f.s, f.source, f.s.Views)
		for _, at := range []*replicator.Standing{standing(10, map[string]replicator.Progress{}), c.marked} {
			if err := f.target.Mark(f.t.Context(), *at); err != nil {
				f.t.Fatalf("Mark: %v", err)
			}
		}
		f.s.SetMark(f.t, f.source, view, c.damage)
		if err := f.target.Mark(f.t.Context(), *c.marked); !errors.Is(err, replicator.ErrSinkLost) {
			f.t.Fatalf("the mark %s, but Mark returns %v", name, err)
		}
		f.s.SetMark(f.t, f.source, view, nil)
	}
}

// testOvertaken makes another replicator register a log epoch and begin a fill. A process that does not know about them
// must fail to mark, and its Mark must change nothing.
func testOvertaken(f *fixture) {
	f.source = "overtaken"
	at := func(epoch, order, fill int64) replicator.Standing {
		s := replicator.Standing{Epoch: fill,
			Position: replicator.Position{Order: epoch<<replicator.EpochShift + order, Token: "p"}}
		if fill > 0 {
			s.Fill = map[string]replicator.Progress{"cell": {Rows: 5}}
		}
		return s
	}
	f.target = open(f.t, f.s, f.source, f.s.Views)
	mark := func(target replicator.Target, at replicator.Standing, fails bool) {
		f.t.Helper()
		before, _ := f.mark(f.s.Views[0].Name)
		err := target.Mark(f.t.Context(), at)
		overtaken, is := errors.AsType[*replicator.Overtaken](err)
		if is != fails || err != nil && !is {
			f.t.Fatalf("Mark(%+v) over the mark %+v returns %v", at, before, err)
		}
		if now, _ := f.mark(f.s.Views[0].Name); fails && (now.Position != before.Position || overtaken.By != now.Position) {
			f.t.Fatalf("Mark failed with %+v, and the mark %+v is now %+v", overtaken.By, before, now)
		}
	}
	mark(f.target, at(0, 70, 0), false)
	other := open(f.t, f.s, f.source, f.s.Views)
	mark(other, at(1, 30, 0), false)
	mark(f.target, at(0, 80, 0), true) // must fail: `other` has marked a later log epoch
	mark(f.target, at(0, 70, 0), true) // must fail, too, although it is f.target's own last mark
	mark(other, at(1, 40, 2), false)
	mark(f.target, at(2, 10, 0), true) // must fail: f.target doesn't know that `other` began a fill
}

// testRegistered opens two targets before either marks anything. Both then begin the same epoch, as replicators that
// read different logs may do. The second Mark must fail and change nothing.
func testRegistered(f *fixture) {
	f.source = "registered"
	f.target = open(f.t, f.s, f.source, f.s.Views)
	other := open(f.t, f.s, f.source, f.s.Views)
	at := func(order int64, token string) replicator.Standing {
		return replicator.Standing{Position: replicator.Position{Order: order, Token: token}}
	}
	if err := other.Mark(f.t.Context(), at(30, "other")); err != nil {
		f.t.Fatalf("Mark: %v", err)
	}
	if err := f.target.Mark(f.t.Context(), at(80, "own")); err == nil || errors.Is(err, replicator.ErrSinkLost) {
		f.t.Fatalf("Mark returns %v in an epoch that another target registered since this one was opened", err)
	}
	if m, _ := f.mark(f.s.Views[0].Name); m.Position != at(30, "other").Position {
		f.t.Fatalf("the mark is %+v, want the other target's", m)
	}
	f.target = open(f.t, f.s, f.source, f.s.Views)
	if err := f.target.Mark(f.t.Context(), at(80, "own")); err != nil {
		f.t.Fatalf("Mark by a target that was opened since: %v", err)
	}
}

// testForeign has two targets mark the same views. Each must report the other's marks once, and never its own.
func testForeign(f *fixture) {
	f.source = "foreign"
	f.target = open(f.t, f.s, f.source, f.s.Views)
	if _, ok := f.target.(replicator.Shared); !ok {
		f.t.Skip("the target is not a replicator.Shared")
	}
	var names []string
	for _, v := range f.s.Views {
		names = append(names, v.Name)
	}
	mark := func(target replicator.Target, order int64, want ...string) {
		f.t.Helper()
		at := replicator.Standing{Position: replicator.Position{Order: order, Token: "p"}}
		if err := target.Mark(f.t.Context(), at); err != nil {
			f.t.Fatalf("Mark: %v", err)
		}
		got := target.(replicator.Shared).Foreign()
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			f.t.Errorf("Mark at order %d reports marks moved by another target for %q, want %q", order, got, want)
		}
	}
	mark(f.target, 10)
	mark(f.target, 20)
	mark(f.target, 20)
	other := open(f.t, f.s, f.source, f.s.Views)
	mark(other, 20)
	mark(other, 30)
	mark(f.target, 25, names...) // a lower position, so no mark moves
	mark(f.target, 40)
	mark(other, 40, names...)
	mark(other, 40)
}

func testDamaged(f *fixture) {
	if f.s.DamageMark == nil {
		f.t.Skip("Subject.DamageMark is nil")
	}
	f.source = "damaged"
	f.target = open(f.t, f.s, f.source, f.s.Views)
	at := replicator.Standing{Position: replicator.Position{Order: 10, Token: "p"}}
	if err := f.target.Mark(f.t.Context(), at); err != nil {
		f.t.Fatalf("Mark: %v", err)
	}
	bad, others := f.s.Views[0].Name, f.s.Views[1:]
	f.s.DamageMark(f.t, f.source, bad)
	for _, v := range f.s.Views {
		if m, ok := f.mark(v.Name); !ok || (m.Err != nil) != (v.Name == bad) || m.Err == nil && m.Position != at.Position {
			f.t.Fatalf("the mark of view %s is damaged, and the mark of view %s reads as %+v (%t)", bad, v.Name, m, ok)
		}
	}
	sink := f.s.New(f.t)
	defer sink.Close()
	_, opening := sink.Open(f.t.Context(), f.source, f.s.Views)
	for _, err := range []error{opening, f.target.Mark(f.t.Context(), at)} {
		if err == nil || errors.Is(err, replicator.ErrSinkLost) {
			f.t.Fatalf("the mark of view %s is damaged, and the error is %v", bad, err)
		}
		if len(others) > 0 {
			Refuses(f.t, err, f.s.Views, bad)
		}
	}
	if len(others) > 0 {
		if err := open(f.t, f.s, f.source, others).Mark(f.t.Context(), at); err != nil {
			f.t.Fatalf("Mark of the other views: %v", err)
		}
	}
	if err := sink.Forget(f.t.Context(), bad); err != nil {
		f.t.Fatalf("Forget: %v", err)
	}
	f.target = open(f.t, f.s, f.source, f.s.Views)
	if err := f.target.Mark(f.t.Context(), at); err != nil {
		f.t.Fatalf("Mark after the view was forgotten: %v", err)
	}
}
