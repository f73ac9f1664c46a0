package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"replicator"
	"replicator/pipeline"
	"replicator/sinks/sinktest"
)

// otherView returns a view of the table "other", in which the fake source has no rows.
func otherView(name string) *replicator.View {
	v := fakeView(name)
	v.From = []replicator.Feed{{Table: "other"}}
	return v
}

// If a table is emptied and the log does not list the rows, only the views that read the table stop. That must also
// hold after a restart, when all views begin at the same position.
func TestATableThatCannotBeFollowedStopsOnlyTheViewsThatReadIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(4, 4))
		f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
		begin := func() *started {
			p := newPipeline(f, sink, store, "a", "c")
			p.Views = append(p.Views, otherView("b"))
			return start(p)
		}
		history(f, r, 20)
		p := begin()
		p.caughtUp(t, f)
		f.set(func() { f.emptied = len(f.log) })
		for range 2 {
			history(f, r, 10)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			if err := p.Wait(ctx, "30", []string{"a", "c"}); err != nil {
				t.Fatal(err)
			}
			cancel()
			time.Sleep(5 * time.Second)
			for _, st := range p.Status(nil) {
				if want := st.View == "b"; want != (st.State == replicator.StateFailed) ||
					want != strings.Contains(st.Error, "truncated") {
					t.Errorf("view %s is %s (%s)", st.View, st.State, st.Error)
				}
			}
			p.stopped(t)
			holds(t, f, sink, "a", "c")
			p = begin()
		}
		p.stopped(t)
	})
}

// With on_unlogged = "rebuild", such views are filled again, and then run with the others.
func TestATableThatCannotBeFollowedIsFilledAnewWhereTheConfigurationSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(5, 5))
		f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
		pipeline := newPipeline(f, sink, store, "a")
		pipeline.Views, pipeline.OnUnlogged = append(pipeline.Views, otherView("b")), "rebuild"
		history(f, r, 20)
		p := start(pipeline)
		p.caughtUp(t, f)
		f.set(func() { f.emptied = len(f.log) })
		history(f, r, 10)
		time.Sleep(10 * time.Second)
		p.caughtUp(t, f)
		for _, st := range p.Status(nil) {
			if st.State != replicator.StateRunning {
				t.Errorf("view %s is %s (%s)", st.View, st.State, st.Error)
			}
		}
		p.stopped(t)
		holds(t, f, sink, "a")
	})
}

// picky is a sink in which some views fail: they can't be opened, swept or written.
type picky struct {
	*sinktest.Reference

	mu     sync.Mutex
	opens  func(view string) error // the error of Open for a view
	sweeps func(view string) error // the error of Unclaimed for a view
	writes func(view string) error // the error of Apply for a view
	marks  func(view string) error // why the mark of a view can't be read
	swaps  func(view string) error // why a view can't be swapped in
	down   error                   // the error of Open for any views
	opened [][]string              // the views of each target
}

func newPicky() *picky {
	well := func(string) error { return nil }
	return &picky{Reference: sinktest.NewReference(), opens: well, sweeps: well, writes: well, marks: well, swaps: well}
}

func (s *picky) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *picky) Swap(ctx context.Context, source string, views []*replicator.View) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, v := range views {
		errs = append(errs, replicator.OfView(s.swaps(v.Name), v.Name))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return s.Reference.Swap(ctx, source, views)
}

func (s *picky) Marks(ctx context.Context, source string) ([]replicator.Mark, error) {
	marks, err := s.Reference.Marks(ctx, source)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, view := range []string{"a", "b", "c", "d"} {
		if why := s.marks(view); why != nil {
			marks = slices.DeleteFunc(marks, func(m replicator.Mark) bool { return m.View == view })
			marks = append(marks, replicator.Mark{View: view, Err: why})
		}
	}
	return marks, err
}

func viewNames(views []*replicator.View) (names []string) {
	for _, v := range views {
		names = append(names, v.Name)
	}
	return names
}

func (s *picky) Open(ctx context.Context, source string, views []*replicator.View) (replicator.Target, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return nil, s.down
	}
	var errs []error
	for _, v := range views {
		errs = append(errs, replicator.OfView(s.opens(v.Name), v.Name))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	s.opened = append(s.opened, viewNames(views))
	target, err := s.Reference.Open(ctx, source, views)
	return &pickyTarget{target, s, views}, err
}

type pickyTarget struct {
	replicator.Target
	sink  *picky
	views []*replicator.View
}

func (t *pickyTarget) Apply(ctx context.Context, ops []replicator.Op) (replicator.Applied, error) {
	for _, v := range t.views {
		t.sink.mu.Lock()
		err := t.sink.writes(v.Name)
		t.sink.mu.Unlock()
		if err != nil {
			return replicator.Applied{}, replicator.OfView(err, v.Name)
		}
	}
	return t.Target.Apply(ctx, ops)
}

func (t *pickyTarget) Unclaimed(_ context.Context, view int, _ string, _ int) ([]replicator.Cell, string, error) {
	t.sink.mu.Lock()
	defer t.sink.mu.Unlock()
	return nil, "", t.sink.sweeps(t.views[view].Name)
}

func (t *pickyTarget) Strays(context.Context, int, string, int) ([]replicator.Stray, string, error) {
	return nil, "", nil
}

func (t *pickyTarget) Tidy(context.Context, int, []replicator.Stray) (int, error) { return 0, nil }

func (t *pickyTarget) Outdated(context.Context, int64, string, int) ([]replicator.Cell, string, error) {
	return nil, "", nil
}

// states waits until each view has the wanted state.
func (s *started) states(t *testing.T, want map[string]string) {
	t.Helper()
	for end := time.Now().Add(time.Hour); ; time.Sleep(100 * time.Millisecond) {
		got := map[string]string{}
		for _, st := range s.Status(nil) {
			got[st.View] = st.State
		}
		if maps.Equal(got, want) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the views are %v, want %v", got, want)
		}
	}
}

// only returns a function that returns an error for the named views.
func only(err error, views ...string) func(string) error {
	return func(view string) error {
		if slices.Contains(views, view) {
			return fmt.Errorf("%w (%s)", err, view)
		}
		return nil
	}
}

var errBadTable = replicator.Fatal(errors.New("the table can't hold it"))

// If some views fail for any reason, only they are failed or retried, and the others run. The failed views join the
// others when they are repaired.
func TestAViewThatFailsStopsItselfAlone(t *testing.T) {
	mayPass := errors.New("the table is locked")
	for _, c := range []struct {
		name   string
		breaks func(s *picky)
		state  string
	}{
		{"it can't be opened", func(s *picky) { s.opens = only(errBadTable, "b", "d") }, replicator.StateFailed},
		{"it can't be opened for a while", func(s *picky) { s.opens = only(mayPass, "b", "d") }, replicator.StateRetrying},
		{"it can't be swept", func(s *picky) { s.sweeps = only(errBadTable, "b", "d") }, replicator.StateFailed},
		{"it can't be swept for a while", func(s *picky) { s.sweeps = only(mayPass, "b", "d") }, replicator.StateRetrying},
		{"it can't be written", func(s *picky) { s.writes = only(errBadTable, "b", "d") }, replicator.StateFailed},
		{"its mark can't be read", func(s *picky) { s.marks = only(errBadTable, "b", "d") }, replicator.StateFailed},
		{"its mark can't be read for a while", func(s *picky) { s.marks = only(mayPass, "b", "d") },
			replicator.StateRetrying},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(6, 6))
				f, sink, store := newFakeSource(), newPicky(), newMemoryStore()
				c.breaks(sink)
				history(f, r, 20)
				p := start(newPipeline(f, sink, store, "a", "b", "c", "d"))
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				if err := p.Wait(ctx, "20", []string{"a", "c"}); err != nil {
					t.Fatal(err)
				}
				p.states(t, map[string]string{"a": "running", "b": c.state, "c": "running", "d": c.state})
				for _, st := range p.Status(nil) {
					if failed := st.View == "b" || st.View == "d"; failed != strings.HasSuffix(st.Error, "("+st.View+")") {
						t.Errorf("view %s is %s (%s)", st.View, st.State, st.Error)
					}
				}
				history(f, r, 10)
				sink.set(func() {
					s := newPicky()
					sink.opens, sink.sweeps, sink.writes, sink.marks = s.opens, s.sweeps, s.writes, s.marks
				})
				p.rebuilt(t)
				p.caughtUp(t, f)
				time.Sleep(10 * time.Second)
				sink.set(func() {
					if last := sink.opened[len(sink.opened)-1]; len(last) != 4 {
						t.Errorf("the views have not joined: %q", last)
					}
				})
				p.stopped(t)
				holds(t, f, sink.Reference, "a", "b", "c", "d")
			})
		})
	}
}

// Before failed views are separated, the healthy views show only the name of a failed view, not its error.
func TestAViewThatIsWellDoesNotShowTheErrorOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sink, store := newFakeSource(), newPicky(), newMemoryStore()
		sink.opens = only(errBadTable, "b", "d")
		p := start(newPipeline(f, sink, store, "a", "b", "c", "d"))
		synctest.Wait()
		for _, st := range p.Status(nil) {
			well := st.View == "a" || st.View == "c"
			if st.State != replicator.StateRetrying || well == strings.Contains(st.Error, errBadTable.Error()) ||
				well != strings.Contains(st.Error, "view b and 1 more") {
				t.Errorf("view %s is %s (%s)", st.View, st.State, st.Error)
			}
		}
		p.stopped(t)
	})
}

// If a view's mark can't be read, it is unknown what the sink has of the view. So the view must not be filled again,
// and the other views must continue.
func TestAMarkThatCannotBeReadStopsItsViewAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(12, 12))
		f, sink, store := newFakeSource(), newPicky(), newMemoryStore()
		history(f, r, 20)
		p := startCaughtUp(t, f, newPipeline(f, sink, store, "a", "b", "c"))
		before, _ := sink.Reference.Marks(t.Context(), "")
		sink.set(func() { sink.marks = only(errBadTable, "b") })
		if err := p.Renew(t.Context(), "a"); err != nil && !strings.Contains(err.Error(), "(b)") {
			t.Fatal(err)
		}
		failed := map[string]string{"a": "running", "b": "failed", "c": "running"}
		p.states(t, failed)
		p.stopped(t)
		p = start(newPipeline(f, sink, newMemoryStore(), "a", "b", "c")) // also if only the sink knows the view
		p.states(t, failed)
		if foreseen, err := newPipeline(f, sink, store, "a", "b", "c").Foresee(t.Context(), nil); err != nil ||
			len(foreseen) != 1 || foreseen["b"] == nil {
			t.Errorf("foreseen is %v, %v", foreseen, err)
		}
		history(f, r, 10)
		sink.set(func() { sink.marks = newPicky().marks })
		p.rebuilt(t)
		p.caughtUp(t, f)
		p.stopped(t)
		after, _ := sink.Reference.Marks(t.Context(), "")
		for _, v := range []string{"a", "b", "c"} {
			holds(t, f, sink.Reference, v)
			if was, is := markOf(before, v), markOf(after, v); was.Epoch != is.Epoch {
				t.Errorf("view %s was filled anew: its mark was %+v and is %+v", v, was, is)
			}
		}
	})
}

func markOf(marks []replicator.Mark, view string) replicator.Mark {
	return marks[slices.IndexFunc(marks, func(m replicator.Mark) bool { return m.View == view })]
}

// discards is a sink that refuses to remove the remains of a view's earlier rebuild.
type discards struct {
	*sinktest.Reference
	refused string
}

func (s discards) Discard(ctx context.Context, views []*replicator.View) error {
	if slices.Contains(viewNames(views), s.refused) {
		return errBadTable
	}
	return s.Reference.Discard(ctx, views)
}

// If a changed view can't be rebuilt, other changed views are still rebuilt.
func TestAChangedViewThatCannotBeRebuiltHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(9, 9))
		f, sink, store := newFakeSource(), discards{sinktest.NewReference(), "b"}, newMemoryStore()
		history(f, r, 20)
		p := startCaughtUp(t, f, newPipeline(f, sink, store, "a", "b", "c"))
		p.stopped(t)
		next := newPipeline(f, sink, store, "a", "b", "c")
		for _, v := range next.Views[:2] {
			v.Fingerprint, v.OnChange = "2", "rebuild"
		}
		p = start(next)
		p.states(t, map[string]string{"a": "running", "b": "failed", "c": "running"})
		p.stopped(t)
		holds(t, f, sink.Reference, "a")
	})
}

// A refused connection is not the error of a single view. So the views stay together, and are opened together when the
// sink answers.
func TestATemporaryErrorOfTheWholeSinkPartsNoViews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(7, 7))
		f, sink, store := newFakeSource(), newPicky(), newMemoryStore()
		history(f, r, 10)
		sink.down = errors.New("connection refused")
		p := start(newPipeline(f, sink, store, "a", "b"))
		time.Sleep(time.Minute)
		p.states(t, map[string]string{"a": "retrying", "b": "retrying"})
		sink.set(func() { sink.down = nil })
		p.caughtUp(t, f)
		p.stopped(t)
		if len(sink.opened) != 1 {
			t.Errorf("opened: %q", sink.opened)
		}
	})
}

// A view that can't be written must not delay the other views of its rebuild, by swap or in place.
func TestAViewThatFailsHoldsUpNoOtherOfItsRebuild(t *testing.T) {
	for _, mode := range []pipeline.RebuildMode{pipeline.BySwap, pipeline.InPlace} {
		t.Run(fmt.Sprint("mode ", mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(8, 8))
				f, sink, store := newFakeSource(), newPicky(), newMemoryStore()
				history(f, r, 20)
				p := startCaughtUp(t, f, newPipeline(f, sink, store, "a", "b", "c"))
				for key := range f.model() {
					sink.Corrupt("", "a", fakeCell(key), []replicator.Entry{{Fields: []any{"spoilt"}}})
				}
				broken := "b"
				if mode == pipeline.BySwap {
					broken += replicator.ShadowSuffix
				}
				sink.set(func() { sink.opens = only(errBadTable, broken) })
				p.rebuild(t, mode, "a", "b")
				time.Sleep(20 * time.Second)
				p.states(t, map[string]string{"a": "running", "b": "failed", "c": "running"})
				holds(t, f, sink.Reference, "a")
				sink.set(func() { sink.opens = newPicky().opens })
				history(f, r, 10)
				p.rebuilt(t)
				p.endsWith(t, f, sink.Reference, "a", "b", "c")
			})
		})
	}
}

// A view that can't be swapped in must not delay the other views of its rebuild. Only that view is failed or retried,
// and its live contents are still kept up to date.
func TestAViewThatCannotBeSwappedInHoldsUpNoOtherOfItsRebuild(t *testing.T) {
	for state, err := range map[string]error{replicator.StateFailed: errBadTable,
		replicator.StateRetrying: errors.New("the table is locked")} {
		for _, again := range []bool{false, true} { // whether the rebuild is requested again once it is possible
			t.Run(fmt.Sprintf("%s, again %t", state, again), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := rand.New(rand.NewPCG(13, 13))
					f, sink, store := newFakeSource(), newPicky(), newMemoryStore()
					history(f, r, 20)
					p := startCaughtUp(t, f, newPipeline(f, sink, store, "a", "b", "c", "d"))
					for _, v := range []string{"a", "c"} {
						corrupt(r, sink.Reference, v)
					}
					sink.set(func() { sink.swaps = only(err, "b") })
					p.rebuild(t, pipeline.BySwap, "a", "b", "c")
					p.states(t, map[string]string{"a": "running", "b": state, "c": "running", "d": "running"})
					history(f, r, 10)
					p.caughtUp(t, f)
					time.Sleep(65 * time.Second) // long enough for two attempts
					p.states(t, map[string]string{"a": "running", "b": state, "c": "running", "d": "running"})
					for _, st := range p.Status(nil) {
						holds(t, f, sink.Reference, st.View)
						if (st.View == "b") != strings.HasSuffix(st.Error, "(b)") {
							t.Errorf("view %s is %s (%s)", st.View, st.State, st.Error)
						}
					}
					corrupt(r, sink.Reference, "b")
					sink.set(func() { sink.swaps = newPicky().swaps })
					if again {
						asked := p.Rebuild(t.Context(), []string{"b"}, pipeline.BySwap, "")
						if fatal := state == replicator.StateFailed; fatal != (asked == nil) || !fatal &&
							!errors.Is(asked, replicator.ErrRebuilding) {
							t.Errorf("asked for once more: %v", asked)
						}
					}
					p.rebuilt(t)
					p.endsWith(t, f, sink.Reference, "a", "b", "c", "d")
					if left, _ := store.Checkpoints(t.Context()); len(left) != 4 {
						t.Errorf("checkpoints left: %+v", left)
					}
				})
			})
		}
	}
}
