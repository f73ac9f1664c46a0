package sinktest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"replicator"
)

// shadowing is a fixture with shadows: views that are rebuilt beside the live ones.
type shadowing struct {
	*fixture
	sink    replicator.Sink
	builds  replicator.Shadower
	views   []*replicator.View
	shadows []*replicator.View
}

// shadowing makes shadows (copies to be rebuilt) of some of the subject's views, while the live views stay open.
func (f *fixture) shadowing(views []*replicator.View) *shadowing {
	f.t.Helper()
	b := &shadowing{fixture: f, sink: f.s.New(f.t), views: views}
	f.t.Cleanup(func() {
		if err := b.sink.Close(); err != nil {
			f.t.Errorf("closing a sink: %v", err)
		}
	})
	var ok bool
	if b.builds, ok = b.sink.(replicator.Shadower); !ok {
		f.t.Skip("the sink is not a Shadower")
	}
	for _, v := range views {
		shadow := b.builds.Shadow(v)
		named := shadow.Name == v.Name+replicator.ShadowSuffix && shadow.Shadows == v.Name
		if !named || shadow.Kind != v.Kind || shadow.Fingerprint != v.Fingerprint {
			f.t.Fatalf("the shadow of view %s is %+v", v.Name, shadow)
		}
		b.shadows = append(b.shadows, shadow)
		if _, err := b.builds.Foreign(f.t.Context(), v); err != nil {
			f.t.Fatalf("Foreign: %v", err)
		}
	}
	return b
}

func (b *shadowing) open(views []*replicator.View) replicator.Target {
	b.t.Helper()
	target, err := b.sink.Open(b.t.Context(), b.source, views)
	if err != nil {
		b.t.Fatalf("Open: %v", err)
	}
	return target
}

func (b *shadowing) applies(target replicator.Target, ops []replicator.Op) {
	b.t.Helper()
	if a, err := target.Apply(b.t.Context(), ops); err != nil || len(a.Stale)+len(a.Rejected) > 0 {
		b.t.Fatalf("Apply returns %+v, %v, want nothing stale or rejected", a, err)
	}
}

// marks writes a mark without a Fill, which says that the target's views are filled.
func (b *shadowing) marks(target replicator.Target, order, epoch int64) {
	b.t.Helper()
	at := replicator.Standing{Position: replicator.Position{Order: order, Token: "p"}, Epoch: epoch}
	if err := target.Mark(b.t.Context(), at); err != nil {
		b.t.Fatalf("Mark: %v", err)
	}
}

func (b *shadowing) marked() (names []string) {
	b.t.Helper()
	found, err := b.sink.Marks(b.t.Context(), b.source)
	if err != nil {
		b.t.Fatalf("Marks: %v", err)
	}
	for _, m := range found {
		if strings.HasSuffix(m.View, replicator.ShadowSuffix) {
			names = append(names, m.View)
		}
	}
	return names
}

// testShadow rebuilds all views beside the live ones and swaps them in.
func testShadow(f *fixture) {
	b := f.shadowing(f.s.Views)
	f.spread(5)
	const same, changed, gone, added, bad = 0, 1, 2, 3, 4
	bodies := f.fresh(8)
	live := map[int]body{same: bodies[same], changed: bodies[changed], gone: bodies[gone], bad: bodies[bad]}
	f.apply(f.puts(5, 50, live)...)
	b.marks(f.target, 60, 1)

	given := b.open(b.shadows[:1]) // this rebuild is abandoned
	b.applies(given, ofFirstViews(1, f.puts(9, 90, map[int]body{same: bodies[5], added: bodies[added]})))
	b.marks(given, 95, 2)
	live[changed] = bodies[6]
	b.goesOn(f.puts(6, 65, map[int]body{changed: bodies[6]}))
	f.showsOf("while shadows are filled", live)
	if err := b.builds.Discard(f.t.Context(), b.views[:1]); err != nil {
		f.t.Fatalf("Discard: %v", err)
	}
	if left := b.marked(); len(left) > 0 {
		f.t.Fatalf("shadows that were discarded have the marks %v", left)
	}
	f.showsOf("after the shadows were discarded", live)

	shadow := b.open(b.shadows)
	versions, err := shadow.Versions(f.t.Context(), f.cells)
	known := func(s replicator.Span) bool { return s.Highest != replicator.NoVersion }
	if err != nil || slices.ContainsFunc(versions, known) {
		f.t.Fatalf("a new shadow knows the versions %v: %v", versions, err)
	}
	dead := maps.Clone(bodies[bad])
	dead[unreadable] = f.s.Views[0].Name
	rebuilt := map[int]body{same: bodies[same], changed: bodies[5], added: bodies[added], bad: dead}
	b.applies(shadow, f.puts(7, 70, map[int]body{same: rebuilt[same], added: rebuilt[added], bad: dead}))
	live[gone] = nil
	b.goesOn(f.looks(5, 66, map[int]body{gone: nil}))
	f.showsOf("while shadows are filled once more", live)
	b.applies(shadow, f.puts(6, 65, map[int]body{changed: bodies[6]}))
	shadow = b.open(b.shadows) // opens the shadows again, as a process does after a crash
	b.applies(shadow, f.puts(8, 80, map[int]body{changed: bodies[5]}))
	b.marks(shadow, 90, 3)
	f.showsOf("before the swap", live)
	if err := b.builds.Swap(f.t.Context(), f.source, b.views); err != nil {
		f.t.Fatalf("Swap: %v", err)
	}
	f.showsOf("after the swap", rebuilt)
	if b.useOutdated(f.target, f.puts(9, 91, map[int]body{changed: bodies[7]})) {
		rebuilt[changed] = bodies[7]
	}

	f.target = open(f.t, f.s, f.source, f.s.Views)
	f.showsOf("after the views were opened again", rebuilt)
	b.stands(90, 3)
	older := f.puts(7, 75, map[int]body{changed: bodies[6]})
	if a := f.try(older...); len(a.Stale) != len(older) {
		f.t.Fatalf("after the swap Apply returns %+v for ops that are older than the shadow's states", a)
	}
	for _, c := range f.of(bad) {
		if f.s.Views[0].Feeds(c) && !slices.Contains(f.listed(0), c) {
			f.t.Fatalf("after the swap %s is no longer a dead letter", c)
		}
	}
	rebuilt[bad], rebuilt[gone] = bodies[bad], bodies[gone]
	f.apply(f.looks(9, 100, rebuilt)...)
	f.showsOf("after the swap and a re-read", rebuilt)
	f.differ("after the swap and a re-read", f.looks(9, 110, rebuilt), nil)
	b.swapNothing(rebuilt)
}

// testShadowBeside opens views together with their shadows (rebuilt copies). Ops applied to both must show in each, and
// the swap must not change that.
func testShadowBeside(f *fixture) {
	b := f.shadowing(f.s.Views)
	f.spread(4)
	bodies := f.fresh(6)
	f.apply(f.puts(5, 50, map[int]body{0: bodies[0], 1: bodies[1]})...)
	b.marks(f.target, 60, 1)
	b.applies(b.open(b.shadows), f.puts(5, 55, map[int]body{0: bodies[0], 1: bodies[1]}))
	both := b.open(slices.Concat(b.views, b.shadows))
	apply := func(ops []replicator.Op) {
		for i := range ops {
			for _, v := range ops[i].Values {
				v.View += len(b.views)
				ops[i].Values = append(ops[i].Values, v)
			}
		}
		b.applies(both, ops)
	}
	shown := map[int]body{0: bodies[3], 1: nil, 2: bodies[2]}
	apply(f.puts(6, 65, map[int]body{0: bodies[3], 2: bodies[2]}))
	apply(f.looks(5, 66, map[int]body{1: nil}))
	b.marks(both, 70, 1)
	f.showsOf("while shadows run beside them", shown)
	if err := b.builds.Swap(f.t.Context(), f.source, b.views); err != nil {
		f.t.Fatalf("Swap: %v", err)
	}
	f.showsOf("after the swap", shown)
	f.target = open(f.t, f.s, f.source, f.s.Views)
	shown[3] = bodies[5]
	f.apply(f.puts(7, 75, map[int]body{3: bodies[5]})...)
	f.showsOf("after the views were opened again", shown)
	f.differ("after the swap", f.looks(7, 80, shown), nil)
	b.stands(70, 1)
}

// ofFirstViews removes all values from the ops except those of the first n views. It drops ops without values.
func ofFirstViews(n int, ops []replicator.Op) (left []replicator.Op) {
	for _, op := range ops {
		op.Values = slices.DeleteFunc(op.Values, func(v replicator.Value) bool { return v.View >= n })
		if len(op.Values) > 0 {
			left = append(left, op)
		}
	}
	return left
}

// goesOn applies ops to the live views while their shadows (rebuilt copies) are filled. If the sink returns a temporary
// error, goesOn opens the views again and repeats the ops.
func (b *shadowing) goesOn(ops []replicator.Op) {
	b.t.Helper()
	_, err := b.target.Apply(b.t.Context(), ops)
	switch {
	case errors.Is(err, replicator.ErrSinkLost) || replicator.IsFatal(err):
		b.t.Fatalf("while shadows are filled the live views fail: %v", err)
	case err != nil:
		b.target = open(b.t, b.s, b.source, b.s.Views)
		b.apply(ops...)
	}
}

// stands checks that the views now have the shadows' marks, and that no shadow has a mark.
func (b *shadowing) stands(order, epoch int64) {
	b.t.Helper()
	for _, v := range b.views {
		m, ok := b.mark(v.Name)
		if !ok || m.Position.Order != order || m.Epoch != epoch || m.Filling() || m.Fingerprint != v.Fingerprint {
			b.t.Fatalf("after the swap view %s has the mark %+v", v.Name, m)
		}
	}
	if left := b.marked(); len(left) > 0 {
		b.t.Fatalf("after the swap shadows have the marks %v", left)
	}
}

// useOutdated calls the methods of a target that was opened before the swap, and reports whether Apply succeeded. The
// sink may accept a call, or may require a new Open, but must not report a loss.
func (b *shadowing) useOutdated(target replicator.Target, ops []replicator.Op) bool {
	b.t.Helper()
	ctx, errs := b.t.Context(), map[string]error{}
	_, errs["Apply"] = target.Apply(ctx, ops)
	_, errs["Versions"] = target.Versions(ctx, b.cells)
	_, errs["Compare"] = target.Compare(ctx, ops)
	_, _, errs["Outdated"] = target.Outdated(ctx, 50, "", 10)
	_, _, errs["Held"] = target.Held(ctx, 0, "", 10)
	_, _, errs["Dead"] = target.Dead(ctx, 0, "", 10)
	errs["Mark"] = target.Mark(ctx, replicator.Standing{Position: replicator.Position{Order: 85, Token: "p"}, Epoch: 1})
	if tidier, ok := target.(replicator.Tidier); ok {
		_, _, errs["Unclaimed"] = tidier.Unclaimed(ctx, 0, "", 10)
		_, _, errs["Strays"] = tidier.Strays(ctx, 0, "", 10)
	}
	if refresher, ok := target.(replicator.Refresher); ok {
		errs["Refresh"] = refresher.Refresh(ctx)
	}
	for call, err := range errs {
		if errors.Is(err, replicator.ErrSinkLost) || replicator.IsFatal(err) {
			b.t.Errorf("%s by a target from before the swap: %v", call, err)
		}
	}
	return errs["Apply"] == nil
}

// swapNothing tries to swap in shadows that don't exist. The error must refuse each view separately, and nothing may
// change.
func (b *shadowing) swapNothing(shown map[int]body) {
	b.t.Helper()
	err := b.builds.Swap(b.t.Context(), b.source, b.views)
	if Refuses(b.t, err, b.views, names(b.views)...); !replicator.IsFatal(err) {
		b.t.Fatalf("a swap without shadows returns %v, want a Fatal error", err)
	}
	if err := b.builds.Discard(b.t.Context(), b.views); err != nil {
		b.t.Fatalf("Discard without shadows: %v", err)
	}
	b.showsOf("after a swap without shadows", shown)
}

func names(views []*replicator.View) (names []string) {
	for _, v := range views {
		names = append(names, v.Name)
	}
	return names
}

// testCutSwap interrupts a swap, a little later each time, until it succeeds. The views must change together, and an
// interrupted swap must be completed later.
func testCutSwap(f *fixture) {
	b := f.shadowing(f.s.Views[:min(2, len(f.s.Views))])
	f.spread(2)
	bodies := f.fresh(3)
	before, after := map[int]body{0: bodies[0], 1: bodies[1]}, map[int]body{0: bodies[2], 1: nil}
	f.apply(f.puts(5, 50, before)...)
	b.marks(f.target, 60, 4)
	shadow := b.open(b.shadows)
	b.applies(shadow, ofFirstViews(len(b.views), f.puts(7, 70, map[int]body{0: bodies[2]})))
	b.marks(shadow, 90, 5)
	cuts := 0
	for looks := int64(0); ; looks += 1 + looks/3 {
		ctx, cancel := newSpent(f.t.Context(), looks)
		err := b.builds.Swap(ctx, f.source, b.views)
		cancel()
		if err == nil {
			break
		}
		cuts++
		if swapped := b.both(before, after); len(b.marked()) == 0 { // the swap succeeded, only its answer was lost
			f.t.Logf("the swap succeeded and returned %v; readers saw it: %t", err, swapped)
			break
		}
		if cuts > 200 {
			f.t.Fatalf("the swap has not succeeded after %d interruptions: %v", cuts, err)
		}
	}
	f.t.Logf("the swap was interrupted %d times", cuts)
	f.target = open(f.t, f.s, f.source, f.s.Views)
	b.marks(open(f.t, f.s, f.source, b.views), 91, 5)
	if !b.both(before, after) {
		f.t.Fatal("after the swap was completed, readers still see the old contents")
	}
	b.stands(91, 5)
}

// both reports whether all views show the contents after the swap. It fails the test if they show neither those nor the
// contents before the swap, or if the views disagree.
func (b *shadowing) both(before, after map[int]body) bool {
	b.t.Helper()
	var seen []bool
	for range 2 { // the first read may have seen one view before the swap and the other after it
		seen = nil
		for _, v := range b.views {
			got := b.s.Read(b.t, v)
			now, old := b.contents(v, after), b.contents(v, before)
			if !maps.Equal(got, now) && !maps.Equal(got, old) {
				b.t.Fatalf("after a swap that was cut short view %s holds\n%s", v.Name, list(got))
			}
			seen = append(seen, maps.Equal(got, now))
		}
	}
	if slices.Contains(seen, true) && slices.Contains(seen, false) {
		b.t.Fatalf("a swap that was cut short is seen in some views only: %v", seen)
	}
	return seen[0]
}

// contents returns the content that view v should have if each entity has its body in bodies.
func (f *fixture) contents(v *replicator.View, bodies map[int]body) map[string]string {
	var from []contribution
	for entity, b := range bodies {
		for _, c := range f.of(entity) {
			if v.Feeds(c) {
				from = append(from, contribution{c, f.s.entries(v, c, b)})
			}
		}
	}
	return contents(v, from)
}

// spent is a context that ends after a number of checks (calls of Done or Err). So it can interrupt a call between any
// two of the call's steps, and interrupts a repeated call at the same place.
type spent struct {
	context.Context
	left *atomic.Int64
	end  context.CancelFunc
}

func newSpent(parent context.Context, looks int64) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancel(parent)
	left := new(atomic.Int64)
	left.Store(looks)
	return spent{ctx, left, end}, end
}

func (s spent) look() {
	if s.left.Add(-1) < 0 {
		s.end()
	}
}

func (s spent) Done() <-chan struct{} { s.look(); return s.Context.Done() }

func (s spent) Err() error { s.look(); return s.Context.Err() }
