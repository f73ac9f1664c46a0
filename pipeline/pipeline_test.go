package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"replicator"
	"replicator/pipeline"
	"replicator/sinks/sinktest"
)

// bodyEvaluator contributes the body to every view. The body "bad" can't be computed.
type bodyEvaluator struct{ views []*replicator.View }

// These bodies become dead letters: the first can't be computed, the second is rejected by the reference sink.
const (
	unreadable = "bad"
	refused    = "refused"
)

func (e bodyEvaluator) Evaluate(_ replicator.Cell, row *replicator.Row) []replicator.Value {
	values := make([]replicator.Value, len(e.views))
	for i := range values {
		values[i].View = i
		switch {
		case row == nil:
		case string(row.Body) == unreadable:
			values[i].Err = errors.New("the body is bad")
		case string(row.Body) == refused:
			values[i].Entries = []replicator.Entry{{Fields: []any{sinktest.Refused{}}}}
		default:
			values[i].Entries = []replicator.Entry{{Fields: []any{string(row.Body)}}}
		}
	}
	return values
}

func fakeView(name string) *replicator.View {
	return &replicator.View{Name: name, Sink: "sink", Kind: "index", From: []replicator.Feed{{Table: "cell"}},
		Fields: []replicator.Field{{Name: "f"}}, Fingerprint: "1"}
}

func newPipeline(source replicator.Source, sink replicator.Sink, store replicator.Store,
	views ...string) *pipeline.Pipeline {
	p := pipeline.New(pipeline.Config{
		Name: "sink", Source: source, Sink: sink, Store: store, Memory: 8 << 10, Interval: 100 * time.Millisecond, SavesIdle: true,
		Compile: func(vs []*replicator.View) (replicator.Evaluator, error) { return bodyEvaluator{vs}, nil },
	})
	for _, v := range views {
		p.Views = append(p.Views, fakeView(v))
	}
	return p
}

// started is a pipeline that runs.
type started struct {
	*pipeline.Pipeline
	stop, crash context.CancelFunc
	done        chan error
}

func start(p *pipeline.Pipeline) *started {
	ctx, crash := context.WithCancel(context.Background())
	stop, stopNow := context.WithCancel(context.Background())
	s := &started{Pipeline: p, stop: stopNow, crash: crash, done: make(chan error, 1)}
	go func() { s.done <- p.Run(ctx, stop) }()
	return s
}

func (s *started) caughtUp(t *testing.T, f *fakeSource) {
	t.Helper()
	f.mu.Lock()
	fence := strconv.Itoa(len(f.log))
	f.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	if err := s.Wait(ctx, fence, nil); err != nil {
		t.Fatal(err)
	}
}

func (s *started) stopped(t *testing.T) {
	t.Helper()
	s.stop()
	if err := <-s.done; err != nil {
		t.Fatal(err)
	}
	s.crash()
}

// startCaughtUp starts a pipeline and waits until it has caught up.
func startCaughtUp(t *testing.T, f *fakeSource, p *pipeline.Pipeline) *started {
	t.Helper()
	s := start(p)
	s.caughtUp(t, f)
	return s
}

// endsWith fails the test unless the pipeline catches up and stops, and its views then equal the source's model.
func (s *started) endsWith(t *testing.T, f *fakeSource, sink *sinktest.Reference, views ...string) {
	t.Helper()
	s.caughtUp(t, f)
	s.stopped(t)
	holds(t, f, sink, views...)
}

// holds fails the test unless the views equal the source's model.
func holds(t *testing.T, f *fakeSource, sink *sinktest.Reference, views ...string) {
	t.Helper()
	for _, view := range views {
		holdsOf(t, f, sink, view)
	}
}

func holdsOf(t *testing.T, f *fakeSource, sink *sinktest.Reference, view string) {
	t.Helper()
	reference := sinktest.NewReference()
	v := fakeView(view)
	target, err := reference.Open(t.Context(), "", []*replicator.View{v})
	if err != nil {
		t.Fatal(err)
	}
	order := int64(0)
	for key, body := range f.model() {
		order++
		op := replicator.Op{Cell: fakeCell(key), Version: 1, Order: order}
		if body != unreadable && body != refused {
			op.Values = []replicator.Value{{Entries: []replicator.Entry{{Fields: []any{body}}}}}
		}
		if _, err := target.Apply(t.Context(), []replicator.Op{op}); err != nil {
			t.Fatal(err)
		}
	}
	want := reference.Read(v)
	got := sink.Read(v)
	for k, body := range want {
		if is, ok := got[k]; !ok || is != body {
			t.Errorf("view %s: %q is %q (held: %t), want %q", view, k, is, ok, body)
		}
	}
	for k, body := range got {
		if _, ok := want[k]; !ok {
			t.Errorf("view %s: %q is %q, want nothing", view, k, body)
		}
	}
}

// history commits random transactions: new versions in any order, deletes of the newest and of other versions, and rows
// that are inserted again.
func history(f *fakeSource, r *rand.Rand, transactions int) {
	for range transactions {
		var tx []fakeChange
		touched := map[fakeRow]bool{}
		for range 1 + r.IntN(4) {
			f.mu.Lock()
			key := int64(r.IntN(8))
			row := fakeRow{key: key, version: int64(r.IntN(30)), body: "b" + strconv.Itoa(r.IntN(1000))}
			if r.IntN(15) == 0 {
				row.body = "bad"
			}
			kind := replicator.Insert
			for have := range f.rows {
				if have.key == key && have.version == row.version { // the version exists already: delete it instead
					row, kind = have, replicator.Delete
				}
			}
			if best, ok := f.newest(key); ok && r.IntN(4) == 0 {
				row, kind = best, replicator.Delete
			}
			f.mu.Unlock()
			id := fakeRow{key: row.key, version: row.version}
			if !touched[id] {
				touched[id] = true
				tx = append(tx, fakeChange{kind, row})
			}
		}
		f.commit(tx...)
	}
}

func TestViewsEqualTheNewestRowsThroughCrashesAndAddedViews(t *testing.T) {
	for seed := range seeds(60) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 1))
				f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
				slow := &slowSink{Sink: sink, rand: rand.New(rand.NewPCG(seed, 3))}
				f.single = seed%2 == 1
				f.breaks = r.IntN(20)
				history(f, r, r.IntN(60))
				views := []string{"a", "b"}
				for range 6 {
					p := start(newPipeline(f, slow, store, views...))
					done := make(chan struct{})
					writer := rand.New(rand.NewPCG(r.Uint64(), 2))
					go func() { history(f, writer, 20); close(done) }()
					time.Sleep(time.Duration(r.IntN(400)) * time.Millisecond)
					<-done
					if r.IntN(3) == 0 {
						p.stopped(t)
					} else {
						p.crash()
						<-p.done
						p.stop()
					}
					if r.IntN(3) == 0 {
						views = append(views, fmt.Sprint("v", len(views)))
					}
				}
				slow.settle()
				f.set(func() { f.breaks = 0 })
				p := startCaughtUp(t, f, newPipeline(f, slow, store, views...))
				p.stopped(t)
				for _, v := range views {
					holds(t, f, sink, v)
				}
			})
		})
	}
}

func TestAViewAddedLaterIsFilledAndJoins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 1))
		f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
		history(f, r, 30)
		p := startCaughtUp(t, f, newPipeline(f, sink, store, "a"))
		p.stopped(t)
		history(f, r, 30)
		p = startCaughtUp(t, f, newPipeline(f, sink, store, "a", "b"))
		time.Sleep(5 * time.Second)
		history(f, r, 5)
		p.caughtUp(t, f)
		time.Sleep(time.Second)
		status := p.Status(nil)
		p.stopped(t)
		for _, st := range status {
			if st.State != replicator.StateRunning || st.Applied != status[0].Applied {
				t.Errorf("%+v does not run with the others", st)
			}
		}
		holds(t, f, sink, "a", "b")
	})
}

func TestWhatCannotBeComputedIsADeadLetterUntilSomethingNewerApplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
		p := start(newPipeline(f, sink, store, "a"))
		f.commit(fakeChange{replicator.Insert, fakeRow{key: 1, version: 1, body: "good"}})
		p.caughtUp(t, f)
		f.commit(fakeChange{replicator.Insert, fakeRow{key: 1, version: 2, body: "bad"}})
		p.caughtUp(t, f)
		letters := store.lettersOf("")
		if len(letters) != 1 || letters[0].Version != 2 || string(letters[0].Raw) != "bad" ||
			letters[0].Reason != "the body is bad" {
			t.Errorf("dead letters: %+v", letters)
		}
		if held := sink.Read(fakeView("a")); len(held) != 0 {
			t.Errorf("the view still holds %v", held)
		}
		f.commit(fakeChange{replicator.Insert, fakeRow{key: 1, version: 3, body: "mended"}})
		p.caughtUp(t, f)
		if letters := store.lettersOf(""); len(letters) != 0 {
			t.Errorf("dead letters after a newer version: %+v", letters)
		}
		p.stopped(t)
		holds(t, f, sink, "a")
	})
}

func TestARenewedViewGoesOnWithATargetOpenedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, store := newFakeSource(), newMemoryStore()
		sink := &countingSink{Sink: sinktest.NewReference()}
		p := start(newPipeline(f, sink, store, "a"))
		f.commit(fakeChange{replicator.Insert, fakeRow{key: 1, version: 1, body: "x"}})
		p.caughtUp(t, f)
		opened := sink.opened.Load()
		if err := p.Renew(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if got := sink.opened.Load(); got != opened+1 {
			t.Errorf("the target was opened %d times more, want once", got-opened)
		}
		f.commit(fakeChange{replicator.Insert, fakeRow{key: 1, version: 2, body: "y"}})
		p.caughtUp(t, f)
		p.stopped(t)
		if err := p.Renew(t.Context(), "a"); !errors.Is(err, replicator.ErrNotServing) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// A session that several views share is renewed once. The session of a view that runs separately is renewed, too, or
// Renew returns why that is impossible.
func TestEachSessionOfRenewedViewsIsRenewedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, store, sink := newFakeSource(), newMemoryStore(), newPicky()
		p := startCaughtUp(t, f, newPipeline(f, sink, store, "a", "b", "c"))
		opened := func() int { sink.mu.Lock(); defer sink.mu.Unlock(); return len(sink.opened) }
		before := opened()
		if err := p.Renew(t.Context(), "a", "b"); err != nil {
			t.Fatal(err)
		}
		if got := opened() - before; got != 1 {
			t.Errorf("one session was renewed %d times", got)
		}
		sink.set(func() { sink.opens = only(errBadTable, "b") })
		_ = p.Renew(t.Context(), "b") // b is separated from the others
		p.states(t, map[string]string{"a": "running", "b": "failed", "c": "running"})
		before = opened()
		if err := p.Renew(t.Context(), "a", "c", "b"); err == nil || !strings.Contains(err.Error(), "b") {
			t.Errorf("of a view that can't be opened: %v", err)
		}
		if opened() == before {
			t.Error("the others were not renewed")
		}
		p.stopped(t)
	})
}

// countingSink counts how often it is opened.
type countingSink struct {
	replicator.Sink
	opened atomic.Int64
}

func (s *countingSink) Open(ctx context.Context, source string, views []*replicator.View) (replicator.Target, error) {
	s.opened.Add(1)
	return s.Sink.Open(ctx, source, views)
}

func TestAnEmptiedSinkStopsTheViewOrFillsItAnew(t *testing.T) {
	for onLost, want := range map[string]string{"stop": replicator.StateFailed, "rebuild": replicator.StateRunning} {
		t.Run(onLost, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(2, 2))
				f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
				history(f, r, 30)
				p := startCaughtUp(t, f, newPipeline(f, sink, store, "a"))
				p.stopped(t)
				sink = sinktest.NewReference()
				pipeline := newPipeline(f, sink, store, "a")
				pipeline.OnLost = onLost
				p = start(pipeline)
				time.Sleep(5 * time.Second)
				if got := p.Status(nil)[0]; got.State != want {
					t.Errorf("state %s (%s), want %s", got.State, got.Error, want)
				}
				p.stopped(t)
				if onLost == "rebuild" {
					holds(t, f, sink, "a")
				}
			})
		})
	}
}

// The option start only says where new views begin. A view that was lost is filled again with all cells, whatever start
// says.
func TestALostViewIsFilledAnewWhereverNewOnesStart(t *testing.T) {
	for _, startAt := range []string{"latest", "earliest"} {
		for _, lost := range []string{"sink", "log"} {
			t.Run(startAt+", "+lost, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := rand.New(rand.NewPCG(6, 6))
					f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
					history(f, r, 30)
					p := startCaughtUp(t, f, newPipeline(f, sink, store, "a"))
					p.stopped(t)
					for i := range int64(30) { // no deletes, because this sink can't be swept
						f.commit(fakeChange{replicator.Insert, fakeRow{key: i % 8, version: 100 + i, body: strconv.FormatInt(i, 10)}})
					}
					if lost == "sink" {
						sink = sinktest.NewReference()
					}
					f.purged = 50
					pipeline := newPipeline(f, sink, store, "a")
					pipeline.OnLost, pipeline.StartAt = "rebuild", startAt
					p = start(pipeline)
					time.Sleep(5 * time.Second)
					p.endsWith(t, f, sink, "a")
				})
			})
		}
	}
}

func TestAPurgedLogStopsTheViewAndNamesTheWayOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 3))
		f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
		history(f, r, 30)
		p := startCaughtUp(t, f, newPipeline(f, sink, store, "a"))
		p.stopped(t)
		history(f, r, 30)
		f.purged = 50
		p = start(newPipeline(f, sink, store, "a"))
		time.Sleep(5 * time.Second)
		st := p.Status(nil)[0]
		if st.State != replicator.StateFailed || st.Error == "" {
			t.Errorf("status %+v", st)
		}
		p.stopped(t)
	})
}
