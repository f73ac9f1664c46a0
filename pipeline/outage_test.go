package pipeline_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"replicator"
	"replicator/pipeline"
	"replicator/sinks/sinktest"
)

// logText collects the log, and may be read while it is written.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func lagged(t *testing.T, st replicator.ViewStatus, want time.Duration) {
	t.Helper()
	if st.LagSeconds == nil {
		t.Fatalf("the lag is not known: %+v", st)
	}
	if lag := time.Duration(*st.LagSeconds * float64(time.Second)); lag < want-2*time.Second || lag > want+2*time.Second {
		t.Errorf("the lag is %s, want %s", lag, want)
	}
}

func rows(n int) (changes []fakeChange) {
	for i := range n {
		changes = append(changes, fakeChange{replicator.Insert, fakeRow{key: int64(i), version: 1, body: "x"}})
	}
	return changes
}

// After a start during an outage, it is unknown when the view last showed everything. The lag must be at least the time
// since the start.
func TestTheLagOfAStartInAnOutage(t *testing.T) {
	for name, breaks := range map[string]func(*fakeSource, *downSink){
		"the sink is down":   func(_ *fakeSource, s *downSink) { s.down.Store(true) },
		"the source is down": func(f *fakeSource, _ *downSink) { f.set(func() { f.broken, f.mute = errDown, errDown }) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, sink, store := newFakeSource(), &downSink{Sink: sinktest.NewReference()}, newMemoryStore()
				f.commit(rows(1)...)
				p := startCaughtUp(t, f, newPipeline(f, sink, store, "a"))
				p.stopped(t)
				breaks(f, sink)
				p = start(newPipeline(f, sink, store, "a"))
				for past := time.Minute; past <= 3*time.Minute; past += time.Minute {
					time.Sleep(time.Minute)
					st := p.Status(nil)[0]
					lagged(t, st, past)
					if age := past.Seconds(); st.Checkpoint < age-1 || st.Checkpoint > age+1 {
						t.Errorf("the checkpoint is %v s old, and the start %v", st.Checkpoint, age)
					}
				}
				p.stop()
				<-p.done
				next := newPipeline(f, sink, store, "a").Config // a new configuration must not reset the lag
				next.LastShown = p.Shown()
				p = start(pipeline.New(next))
				time.Sleep(time.Minute)
				lagged(t, p.Status(nil)[0], 4*time.Minute)
				p.stop()
				<-p.done
			})
		})
	}
}

// A view's lag counts from the oldest change that the view lacks, even after a restart. While the sink is down, that
// time comes from the store.
func TestTheLagOfAnOutageOutlivesProcesses(t *testing.T) {
	for _, noticed := range []bool{true, false} { // whether the process that ran when the outage began noticed it
		t.Run(fmt.Sprintf("noticed: %t", noticed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, sink, store := newFakeSource(), &downSink{Sink: sinktest.NewReference()}, newMemoryStore()
				f.commit(rows(5)...)
				crashing := func(p *started) {
					p.crash()
					<-p.done
					p.stop()
				}
				p := startCaughtUp(t, f, newPipeline(f, sink, store, "a"))
				time.Sleep(time.Hour) // without a change, so there is no lag
				sink.down.Store(noticed)
				f.commit(fakeChange{replicator.Insert, fakeRow{key: 1, version: 2, body: "y"}})
				lacks := time.Now()
				if noticed {
					time.Sleep(time.Minute)
				}
				crashing(p)
				sink.down.Store(true)
				for range 5 {
					p = start(newPipeline(f, sink, store, "a"))
					time.Sleep(20 * time.Second)
					st := p.Status(nil)[0]
					if st.LagSeconds == nil {
						t.Fatalf("the lag is not known: %+v", st)
					}
					late := time.Duration(*st.LagSeconds*float64(time.Second)) - time.Since(lacks)
					if late < -time.Second || late > time.Second && noticed || late > 11*time.Second {
						t.Errorf("the lag is %v s, and the change that the view lacks %s old", *st.LagSeconds, time.Since(lacks))
					}
					crashing(p)
				}
				sink.down.Store(false)
				p = startCaughtUp(t, f, newPipeline(f, sink, store, "a"))
				time.Sleep(time.Second)
				lagged(t, p.Status(nil)[0], 0)
				p.stopped(t)
			})
		})
	}
}

// During an outage, the status keeps the position and shows a rate of 0. The end of the outage is logged with its
// duration.
func TestAnOutageLeavesThePositionAndNoRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sink := newFakeSource(), &downSink{Sink: sinktest.NewReference()}
		made := newPipeline(f, sink, newMemoryStore(), "a")
		var text logText
		made.Log = slog.New(slog.NewTextHandler(&text, nil))
		p := start(made)
		p.caughtUp(t, f)
		time.Sleep(time.Second)
		f.commit(rows(50)...)
		p.caughtUp(t, f)
		time.Sleep(300 * time.Millisecond)
		before := p.Status(nil)[0]
		if before.Rate == 0 || before.Applied.IsZero() {
			t.Fatalf("before the outage: %+v", before)
		}
		sink.down.Store(true)
		f.commit(fakeChange{replicator.Insert, fakeRow{key: 7, version: 2, body: "y"}})
		time.Sleep(time.Minute)
		st := p.Status(nil)[0]
		if st.Rate != 0 || st.Applied != before.Applied || st.State != replicator.StateRetrying {
			t.Errorf("in the outage: %+v; before: %+v", st, before)
		}
		sink.down.Store(false)
		p.caughtUp(t, f)
		time.Sleep(time.Minute)
		p.stopped(t)
		if n := strings.Count(text.String(), "pipeline recovered"); n != 1 || !strings.Contains(text.String(), "after=1m") {
			t.Errorf("told %d times that it is over:\n%s", n, text.String())
		}
	})
}

// An error that stops several views must be logged in one line with all their names, also at a start. While something
// is down, each attempt logs it. If the views don't run at all, it is logged once.
func TestOneCauseIsOneLineOfTheLog(t *testing.T) {
	type scene struct {
		source *fakeSource
		down   *downSink
		sink   *sinktest.Reference
	}
	for name, c := range map[string]struct {
		breaks           func(scene)
		running, atStart string
	}{
		"the sink is down": {func(s scene) { s.down.down.Store(true) }, "pipeline interrupted", "pipeline can't start yet"},
		"the source is down": {func(s scene) { s.source.set(func() { s.source.broken, s.source.mute = errDown, errDown }) },
			"pipeline interrupted", "pipeline interrupted"},
		"the sink was emptied": {func(s scene) { s.sink.Empty() }, "pipeline interrupted", "views do not run"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := scene{source: newFakeSource(), sink: sinktest.NewReference()}
				s.down = &downSink{Sink: s.sink}
				store := newMemoryStore()
				began := func() (*started, *logText) {
					var log logText
					p := newPipeline(s.source, s.down, store, "a", "b", "c", "d", "e")
					p.Log = slog.New(slog.NewTextHandler(&log, nil))
					return start(p), &log
				}
				s.source.commit(rows(1)...)
				p, log := began()
				p.caughtUp(t, s.source)
				c.breaks(s)
				s.source.commit(fakeChange{replicator.Insert, fakeRow{key: 7, version: 2, body: "y"}})
				for _, message := range []string{c.running, c.atStart} {
					time.Sleep(5 * time.Second)
					if causes := replicator.CausesOf(p.Status(nil)); len(causes) != 1 || len(causes[0].Views) != 5 {
						t.Errorf("the status has the causes %+v", causes)
					}
					p.stop()
					<-p.done
					told := 0
					for line := range strings.Lines(log.String()) {
						if !strings.Contains(line, "level=ERROR") {
							continue
						}
						if told++; !strings.Contains(line, message) || !strings.Contains(line, `views="[a b c d e]"`) {
							t.Errorf("the log lacks %q, or the views, in\n%s", message, line)
						}
					}
					if told == 0 || told > 1 && message == "views do not run" {
						t.Errorf("it is told %d times:\n%s", told, log)
					}
					if strings.Contains(name, "emptied") && !strings.Contains(log.String(), "`replicator rebuild a b c d e`") {
						t.Errorf("the remedy is not that of all views:\n%s", log)
					}
					p, log = began()
				}
				p.stop()
				<-p.done
			})
		})
	}
}

// A sink that opens but lets all writes time out must show its error all the time. Each attempt lasts until the
// timeout, so its own error would show only briefly between two attempts.
func TestASinkThatOpensAndLetsEveryWriteWaitShowsItsTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sink := newFakeSource(), &slowlyDownSink{Sink: sinktest.NewReference()}
		p := start(newPipeline(f, sink, newMemoryStore(), "a"))
		p.caughtUp(t, f)
		time.Sleep(2 * time.Second)
		if st := p.Status(nil)[0]; st.State != replicator.StateRunning || st.Error != "" {
			t.Fatalf("before: %+v", st)
		}
		sink.down.Store(true)
		f.commit(rows(1)...)
		time.Sleep(sinkTime + time.Second)
		for range 100 {
			time.Sleep(time.Second)
			if st := p.Status(nil)[0]; st.State != replicator.StateRetrying || !strings.Contains(st.Error, errDown.Error()) {
				t.Fatalf("meanwhile: %+v", st)
			}
		}
		sink.down.Store(false)
		p.caughtUp(t, f)
		time.Sleep(2 * time.Second)
		if st := p.Status(nil)[0]; st.State != replicator.StateRunning || st.Error != "" {
			t.Errorf("afterwards: %+v", st)
		}
		p.stopped(t)
	})
}

// sinkTime is how long a write to a slowlyDownSink takes to fail while the sink is down.
const sinkTime = 30 * time.Second

// slowlyDownSink is a sink whose writes time out while it is down. Its other calls succeed.
type slowlyDownSink struct {
	replicator.Sink
	down atomic.Bool
}

func (s *slowlyDownSink) Open(ctx context.Context, source string, views []*replicator.View) (replicator.Target, error) {
	t, err := s.Sink.Open(ctx, source, views)
	return slowlyDownTarget{t, s}, err
}

type slowlyDownTarget struct {
	replicator.Target
	sink *slowlyDownSink
}

func (t slowlyDownTarget) Apply(ctx context.Context, ops []replicator.Op) (replicator.Applied, error) {
	if !t.sink.down.Load() {
		return t.Target.Apply(ctx, ops)
	}
	select {
	case <-time.After(sinkTime):
		return replicator.Applied{}, errDown
	case <-ctx.Done():
		return replicator.Applied{}, ctx.Err()
	}
}

// A connection to the source that breaks again and again must only cause delays. Each session begins where the previous
// one stopped applying, although no session lasts until the next checkpoint.
func TestALinkToTheSourceThatBreaksAgainAndAgainDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sink := newFakeSource(), sinktest.NewReference()
		p := start(newPipeline(f, sink, newMemoryStore(), "a"))
		p.caughtUp(t, f)
		f.set(func() { f.breaks = 3 })
		for i := range 30 {
			f.commit(fakeChange{replicator.Insert, fakeRow{key: int64(i), version: 1, body: "x"}})
		}
		p.caughtUp(t, f)
		holds(t, f, sink, "a")
		p.stopped(t)
	})
}

// An outage must show even if nothing is written, because an idle session checks that the sink answers.
func TestAnOutageShowsWhileNothingIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sink, store := newFakeSource(), &downSink{Sink: sinktest.NewReference()}, newMemoryStore()
		f.commit(rows(3)...)
		p := startCaughtUp(t, f, newPipeline(f, sink, store, "a"))
		time.Sleep(time.Hour)
		sink.down.Store(true)
		time.Sleep(time.Minute)
		st := p.Status(nil)[0]
		if st.State != replicator.StateRetrying || st.LagSeconds == nil || *st.LagSeconds < 50 {
			t.Errorf("%+v", st)
		}
		sink.down.Store(false)
		p.caughtUp(t, f)
		p.stopped(t)
	})
}

// The checkpoint age must not grow while the source is idle, because a restart would repeat nothing. It must grow while
// there is progress that can't be saved.
func TestTheCheckpointOfAnIdleSourceGrowsNoOlder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sink := newFakeSource(), &downSink{Sink: sinktest.NewReference()}
		f.commit(rows(3)...)
		p := start(newPipeline(f, sink, newMemoryStore(), "a"))
		p.caughtUp(t, f)
		time.Sleep(time.Hour)
		if age := p.Status(nil)[0].Checkpoint; age > 1 {
			t.Errorf("after an hour without a change the checkpoint is %v s old", age)
		}
		sink.down.Store(true)
		f.commit(fakeChange{replicator.Insert, fakeRow{key: 7, version: 2, body: "y"}})
		time.Sleep(time.Hour)
		if age := p.Status(nil)[0].Checkpoint; age < 3500 || age > 3700 {
			t.Errorf("after an hour without the sink the checkpoint is %v s old", age)
		}
		sink.down.Store(false)
		p.caughtUp(t, f)
		p.stopped(t)
	})
}

// The lag of a view that is being filled counts from the beginning of the fill, because the view lacks older rows.
func TestAViewThatIsBeingFilledLags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sink, store := newFakeSource(), &downSink{Sink: sinktest.NewReference()}, newMemoryStore()
		f.commit(rows(1000)...)
		slow := newPipeline(f, sink, store, "a")
		slow.Rate = 1
		p := start(slow)
		time.Sleep(time.Minute)
		st := p.Status(nil)[0]
		if st.State != replicator.StateFilling {
			t.Fatalf("%+v", st)
		}
		lagged(t, st, time.Minute)
		sink.down.Store(true)
		time.Sleep(time.Minute)
		lagged(t, p.Status(nil)[0], 2*time.Minute)
		p.stop()
		<-p.done
		sink.down.Store(false)
		time.Sleep(time.Minute)
		slow = newPipeline(f, sink, store, "a")
		slow.Rate = 1
		p = start(slow)
		time.Sleep(time.Minute)
		lagged(t, p.Status(nil)[0], 4*time.Minute) // a restart must not reduce the lag
		p.stopped(t)
		p = startCaughtUp(t, f, newPipeline(f, sink, store, "a"))
		time.Sleep(time.Second)
		lagged(t, p.Status(nil)[0], 0)
		p.stopped(t)
	})
}

// The lag of a paused view grows, and its position stays.
func TestAPausedViewLags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeSource()
		p := start(newPipeline(f, sinktest.NewReference(), newMemoryStore(), "a", "b"))
		f.commit(rows(3)...)
		p.caughtUp(t, f)
		at := p.Status(nil)[0].Applied
		p.pause(t, "a")
		f.commit(fakeChange{replicator.Insert, fakeRow{key: 7, version: 2, body: "y"}})
		time.Sleep(time.Minute)
		both := p.Status(nil)
		lagged(t, both[0], time.Minute)
		lagged(t, both[1], 0)
		if both[0].Applied != at || both[0].State != replicator.StatePaused {
			t.Errorf("%+v, want the place %v", both[0], at)
		}
		p.stopped(t)
	})
}

// The first dead letter of a kind is logged at once. Further letters are logged once a minute, as a number.
func TestDeadLettersAreNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeSource()
		made := newPipeline(f, sinktest.NewReference(), newMemoryStore(), "a")
		var text logText
		made.Log = slog.New(slog.NewTextHandler(&text, nil))
		p := start(made)
		version := int64(0)
		dies := func(n int) {
			for range n {
				version++
				f.commit(fakeChange{replicator.Insert, fakeRow{key: version, version: version, body: "bad"}})
			}
			p.caughtUp(t, f)
		}
		told := func(first, counts int) {
			t.Helper()
			if a, b := strings.Count(text.String(), "a change became a dead letter"), strings.Count(text.String(),
				"more changes became"); a != first || b != counts {
				t.Errorf("%d first ones and %d counts, want %d and %d:\n%s", a, b, first, counts, text.String())
			}
		}
		dies(1)
		told(1, 0)
		dies(6)
		told(1, 0)
		time.Sleep(61 * time.Second)
		told(1, 1)
		if !strings.Contains(text.String(), "count=6") || !strings.Contains(text.String(), "view=a") {
			t.Error(text.String())
		}
		time.Sleep(2 * time.Minute) // without dead letters
		told(1, 1)
		dies(1)
		told(2, 1)
		dies(2)
		p.stopped(t)
		told(2, 2)
	})
}

func TestALetterThatStaysAfterARetryIsNoNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, store := newFakeSource(), newMemoryStore()
		made := newPipeline(f, sinktest.NewReference(), store, "a")
		var text logText
		made.Log = slog.New(slog.NewTextHandler(&text, nil))
		p := start(made)
		f.commit(fakeChange{replicator.Insert, fakeRow{key: 1, version: 1, body: "bad"}})
		p.caughtUp(t, f)
		time.Sleep(3 * time.Minute) // until the next letter of the kind would be logged at once
		if err := p.Look(t.Context(), "a", []replicator.Cell{fakeCell(1)}); err != nil {
			t.Fatal(err)
		}
		p.stopped(t)
		if n := strings.Count(text.String(), "dead letter"); n != 1 || len(store.lettersOf("a")) != 1 {
			t.Errorf("the log tells %d times of one letter:\n%s", n, text.String())
		}
	})
}
