package pipeline_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"replicator"
	"replicator/pipeline"
	"replicator/sinks/sinktest"
)

// scene is a pipeline of the views a and b, with its source, sink and store.
type scene struct {
	t       *testing.T
	source  *fakeSource
	sink    *sinktest.Reference
	store   *memoryStore
	onLost  string
	running *started
	rows    int64
	backup  func() // sets the sink back to where it was before the last rows were written
}

func (s *scene) pipeline(store replicator.Store) *pipeline.Pipeline {
	p := newPipeline(s.source, s.sink, store, "a")
	p.Views, p.OnLost = append(p.Views, otherView("b")), s.onLost
	return p
}

func (s *scene) start() { s.running = start(s.pipeline(s.store)) }

func (s *scene) write(n int) {
	for range n {
		s.rows++
		s.source.commit(fakeChange{replicator.Insert, fakeRow{key: s.rows, version: 1,
			body: "row " + strconv.FormatInt(s.rows, 10)}})
	}
}

func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// A way is how a session of view a is made to begin. before runs before something happens to the sink, after runs after
// that.
type way struct{ before, after func(s *scene) }

func nothing(*scene) {}

func waysToBegin() map[string]way {
	pause := func(view string) func(*scene) {
		return func(s *scene) { s.must(s.running.Pause(s.t.Context(), view)) }
	}
	resume := func(view string) func(*scene) {
		return func(s *scene) { s.must(s.running.Resume(s.t.Context(), view)) }
	}
	rebuild := func(view string, mode pipeline.RebuildMode) func(*scene) {
		return func(s *scene) { s.must(s.running.Rebuild(s.t.Context(), []string{view}, mode, "")) }
	}
	return map[string]way{
		"start": {func(s *scene) { s.running.stopped(s.t) }, (*scene).start},
		"start after a crash": {func(s *scene) {
			s.running.crash()
			<-s.running.done
			s.running.stop()
		}, (*scene).start},
		"start without the store": {func(s *scene) { s.running.stopped(s.t) }, func(s *scene) {
			s.store = newMemoryStore()
			s.start()
		}},
		"retry": {nothing, func(s *scene) {
			s.source.mu.Lock()
			defer s.source.mu.Unlock()
			s.source.mute = errors.New("the link broke")
		}},
		"renewal":          {nothing, func(s *scene) { _ = s.running.Renew(s.t.Context(), "a") }}, // may fail
		"pause and resume": {pause("a"), resume("a")},
		"join":             {func(s *scene) { pause("b")(s); resume("b")(s) }, nothing},
		"take-out":         {nothing, pause("b")},
		"part": {nothing, func(s *scene) {
			s.source.mu.Lock()
			s.source.emptied = len(s.source.log)
			s.source.mu.Unlock()
			s.source.commit()
		}},
		"swap of another": {nothing, rebuild("b", pipeline.BySwap)},
		"swap":            {nothing, rebuild("a", pipeline.BySwap)},
		"rebuild":         {nothing, rebuild("a", pipeline.InPlace)},
	}
}

// fates are what may happen to the sink.
var fates = map[string]func(s *scene){
	"kept":     nothing,
	"set back": func(s *scene) { s.backup() },
	"emptied":  func(s *scene) { s.sink.Empty() },
	"changed by another replicator": func(s *scene) {
		p := start(s.pipeline(newMemoryStore()))
		p.caughtUp(s.t, s.source)
		s.write(3)
		p.caughtUp(s.t, s.source)
		p.stopped(s.t)
	},
}

// Each session of each run begins at the lower of the last known mark and the sink's mark, whatever made the session
// begin.
func TestHoweverASessionCameAboutItBeginsWhereTheSinkStands(t *testing.T) {
	for name, way := range waysToBegin() {
		for fate, befall := range fates {
			for _, onLost := range []string{"stop", "rebuild"} {
				for _, writing := range []bool{true, false} {
					t.Run(fmt.Sprintf("%s, the sink is %s, %s, writing %t", name, fate, onLost, writing), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							s := &scene{t: t, source: newFakeSource(), sink: sinktest.NewReference(),
								store: newMemoryStore(), onLost: onLost}
							s.write(20)
							s.start()
							s.running.caughtUp(t, s.source)
							time.Sleep(time.Second)
							s.backup = s.sink.Snapshot()
							s.write(10)
							s.running.caughtUp(t, s.source)
							time.Sleep(time.Second)
							way.before(s)
							befall(s)
							way.after(s)
							if writing {
								s.write(5)
							}
							time.Sleep(5 * time.Minute)
							state := s.running.Status(nil)[0]
							remade := name == "swap" || name == "rebuild" || name == "start without the store"
							if fate == "emptied" && onLost == "stop" && !remade {
								if state.State != replicator.StateFailed || !strings.Contains(state.Error, replicator.ErrSinkLost.Error()) {
									t.Errorf("it is %s (%s)", state.State, state.Error)
								}
							} else if state.State != replicator.StateRunning {
								t.Errorf("it is %s (%s)", state.State, state.Error)
							} else {
								holds(t, s.source, s.sink, "a")
							}
							s.running.stopped(t)
						})
					})
				}
			}
		}
	}
}
