package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"replicator"
	"replicator/pipeline"
	"replicator/sinks/sinktest"
)

func newScene(t *testing.T) *scene {
	return &scene{t: t, source: newFakeSource(), sink: sinktest.NewReference(), store: newMemoryStore(), onLost: "stop"}
}

// lives stops the pipeline. It fails the test unless view a was running and has the source's contents.
func (s *scene) lives() {
	s.t.Helper()
	for _, st := range s.running.Status(nil) {
		if st.View == "a" && st.State != replicator.StateRunning {
			s.t.Errorf("it is %s (%s)", st.State, st.Error)
		}
	}
	s.running.stopped(s.t)
	holds(s.t, s.source, s.sink, "a")
}

// A fence moves a run's position without a mark. The next session must read the changes between the mark and that
// position again.
func TestAPositionThatWasOnlyReachedInMemoryIsNoPlaceToBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.write(5)
		p := s.pipeline(s.store)
		p.Interval = time.Hour
		s.running = start(p)
		s.running.caughtUp(t, s.source)
		failover := s.sink.Snapshot() // the replica that takes over has only what was marked
		s.write(1)
		s.running.caughtUp(t, s.source)
		failover()
		if err := s.running.Renew(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		s.running.caughtUp(t, s.source)
		s.lives()
	})
}

// The loss of data in a sink must be noticed even if the source is idle, so that nothing is marked, and no session is
// restarted.
func TestASessionWithNothingToDoNoticesThatItsSinkFellBack(t *testing.T) {
	for name, c := range map[string]struct {
		befall func(s *scene)
		onLost string
		state  string
	}{
		"set back":               {func(s *scene) { s.backup() }, "stop", replicator.StateRunning},
		"emptied, to be stopped": {func(s *scene) { s.sink.Empty() }, "stop", replicator.StateFailed},
		"emptied, to be rebuilt": {func(s *scene) { s.sink.Empty() }, "rebuild", replicator.StateRunning},
	} {
		for _, savesIdle := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", saves idle: ", savesIdle), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newScene(t)
					s.onLost = c.onLost
					s.write(20)
					p := s.pipeline(s.store)
					p.SavesIdle = savesIdle
					s.running = start(p)
					s.running.caughtUp(t, s.source)
					time.Sleep(time.Second)
					s.backup = s.sink.Snapshot()
					s.write(10)
					s.running.caughtUp(t, s.source)
					time.Sleep(10 * time.Minute)
					c.befall(s)
					time.Sleep(90 * time.Second)
					if st := s.running.Status(nil)[0]; st.State != c.state {
						t.Errorf("it is %s (%s), want %s", st.State, st.Error, c.state)
					}
					if s.running.stopped(t); c.state == replicator.StateRunning {
						holds(t, s.source, s.sink, "a")
					}
				})
			})
		}
	}
}

// While a fill reads an idle source, all marks have the same position. So only the progress in the mark shows what the
// sink lost.
func TestAFillGoesBackToWhatTheSinkHoldsOfIt(t *testing.T) {
	const seconds = time.Second
	for name, c := range map[string]struct {
		before func(s *scene) // what happens before the sink's trouble; the program may end
		befall func(s *scene)
		after  func(s *scene)
		onLost string
		failed bool
	}{
		"set back":                          {nothing, func(s *scene) { s.backup() }, nothing, "stop", false},
		"set back, and renewed at once":     {nothing, func(s *scene) { s.backup() }, (*scene).renew, "stop", false},
		"set back while the program is off": {(*scene).crash, func(s *scene) { s.backup() }, (*scene).slowly, "stop", false},
		"set back while it is paused":       {(*scene).pause, func(s *scene) { s.backup() }, (*scene).resume, "stop", false},
		"emptied, to be rebuilt":            {nothing, func(s *scene) { s.sink.Empty() }, nothing, "rebuild", false},
		"emptied, to be stopped":            {nothing, func(s *scene) { s.sink.Empty() }, nothing, "stop", true},
		"emptied while the program is off": {(*scene).crash, func(s *scene) { s.sink.Empty() },
			(*scene).slowly, "rebuild", false},
		"emptied while it is paused": {(*scene).pause, func(s *scene) { s.sink.Empty() },
			(*scene).resume, "stop", true},
	} {
		for _, writing := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", writing: ", writing), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newScene(t)
					s.onLost = c.onLost
					s.write(60)
					s.slowly()
					time.Sleep(2 * seconds)
					s.backup = s.sink.Snapshot()
					time.Sleep(2 * seconds)
					if writing {
						s.write(3)
					}
					c.before(s)
					c.befall(s)
					c.after(s)
					time.Sleep(5 * time.Minute)
					if st := s.running.Status(nil)[0]; c.failed {
						if st.State != replicator.StateFailed || !strings.Contains(st.Error, replicator.ErrSinkLost.Error()) {
							t.Errorf("it is %s (%s)", st.State, st.Error)
						}
						s.running.stopped(t)
						return
					}
					s.lives()
				})
			})
		}
	}
}

// slowly starts the pipeline with a fill of ten rows per second.
func (s *scene) slowly() {
	p := s.pipeline(s.store)
	p.Rate = 10
	s.running = start(p)
}

func (s *scene) crash() {
	s.running.crash()
	<-s.running.done
	s.running.stop()
}

func (s *scene) renew()  { _ = s.running.Renew(s.t.Context(), "a") } // Renew may find that the view has failed
func (s *scene) pause()  { s.must(s.running.Pause(s.t.Context(), "a")) }
func (s *scene) resume() { s.must(s.running.Resume(s.t.Context(), "a")) }

// If the state directory is lost during a fill, the fill continues from the sink's mark.
func TestAFillGoesOnFromTheMarkWhereTheStoreIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.write(60)
		s.slowly()
		time.Sleep(3 * time.Second)
		s.crash()
		s.store = newMemoryStore()
		s.slowly()
		time.Sleep(100 * time.Millisecond)
		if st := s.running.Status(nil)[0]; st.State != replicator.StateFilling || st.FilledRows < 20 {
			t.Errorf("it is %s at %d rows", st.State, st.FilledRows)
		}
		time.Sleep(time.Minute)
		s.lives()
	})
}

// During a rebuild in place, the sink is set back. The rebuild must write the lost rows again, even if the store is
// lost, too.
func TestARebuildInPlaceGoesBackToWhatTheSinkHoldsOfIt(t *testing.T) {
	for _, storeLost := range []bool{false, true} {
		t.Run(fmt.Sprint("store lost: ", storeLost), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t)
				s.write(60)
				s.slowly()
				time.Sleep(time.Minute)
				for key := range int64(60) {
					s.sink.Corrupt("", "a", fakeCell(key+1), []replicator.Entry{{Fields: []any{"spoilt"}}})
				}
				s.must(s.running.Rebuild(t.Context(), []string{"a"}, pipeline.InPlace, ""))
				time.Sleep(time.Second)
				s.backup = s.sink.Snapshot()
				time.Sleep(2 * time.Second)
				s.crash()
				s.backup()
				if storeLost {
					s.store = newMemoryStore()
				}
				s.slowly()
				time.Sleep(time.Minute)
				s.lives()
			})
		})
	}
}

// Another replicator swaps in a rebuilt view, with its marks. This must not look like a loss of data, whatever position
// the marks have.
func TestARebuildThatAnotherReplicatorSwapsInIsNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.write(20)
		s.start()
		s.running.caughtUp(t, s.source)
		other := s.pipeline(newMemoryStore())
		other.Rate = 2
		second := start(other)
		second.caughtUp(t, s.source)
		s.must(second.Rebuild(t.Context(), []string{"a"}, pipeline.BySwap, ""))
		for range 120 {
			time.Sleep(time.Second)
			s.write(1)
			for _, st := range s.running.Status(nil) {
				if st.State == replicator.StateFailed {
					t.Fatalf("view %s has failed: %s", st.View, st.Error)
				}
			}
		}
		s.running.caughtUp(t, s.source)
		second.stopped(t)
		s.lives()
	})
}

// parted is a sink of several parts, each of which may lose data alone.
type parted struct{ *sinktest.Reference }

type partedTarget struct{ replicator.Target }

func (s parted) Open(ctx context.Context, source string, views []*replicator.View) (replicator.Target, error) {
	t, err := s.Reference.Open(ctx, source, views)
	return partedTarget{t}, err
}

func (t partedTarget) Mark(ctx context.Context, at replicator.Standing) error {
	err := t.Target.Mark(ctx, at)
	if errors.Is(err, replicator.ErrSinkLost) {
		err = fmt.Errorf("%w: %w", replicator.ErrPartFellBack, err)
	}
	return err
}

// If a part of a sink loses data, the views are filled again. Reading the log again would not repair cells that the
// other parts remember as applied.
func TestWhereAPartOfASinkFellBackTheViewsAreFilledAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.write(20)
		p := s.pipeline(s.store)
		p.Sink = parted{s.sink}
		s.running = start(p)
		s.running.caughtUp(t, s.source)
		time.Sleep(time.Second)
		s.backup = s.sink.Snapshot()
		s.write(10)
		s.running.caughtUp(t, s.source)
		time.Sleep(10 * time.Minute)
		s.backup()
		s.sink.Remove(fakeView("a"), fakeCell(1), []replicator.Entry{{Fields: []any{"row 1"}}})
		time.Sleep(90 * time.Second)
		s.running.caughtUp(t, s.source)
		s.lives()
	})
}
