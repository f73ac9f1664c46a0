package service

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"replicator"
	"replicator/checkpoint"
	"replicator/server"
)

// unreachable is cellViews with a store that does not answer.
var unreachable = strings.Replace(cellViews, `path = "state"`,
	"store = \"mysql\"\ndsn = \"nobody@tcp(127.0.0.1:1)/app\"", 1)

var locked = &checkpoint.LockedError{Store: "checkpoints", Holder: "connection 7 from 192.0.2.1:4711"}

// A standby lists its views and names the process that runs, even if the store doesn't answer.
func TestAStandbySaysWhoRuns(t *testing.T) {
	for name, text := range map[string]string{"a store": cellViews, "a store that does not answer": unreachable} {
		t.Run(name, func(t *testing.T) {
			s := &standby{cfg: configured(t, text)}
			if !s.setReason(locked) || s.setReason(locked) {
				t.Error("what it waits for is news once")
			}
			views, err := s.Status(t.Context())
			if err != nil || len(views) != 3 {
				t.Fatalf("%d views, %v", len(views), err)
			}
			for _, v := range views {
				if v.State != replicator.StateStandby || !strings.Contains(v.Error, locked.Holder) || v.Definition == "" {
					t.Errorf("view %s: %+v", v.View, v)
				}
			}
			if !s.setReason(errors.New("connection refused")) {
				t.Error("that the store does not answer is no news")
			}
		})
	}
}

func TestAStandbyRefusesWhatChangesSomething(t *testing.T) {
	s := &standby{cfg: configured(t, cellViews)}
	s.setReason(locked)
	ctx := t.Context()
	_, _, retried := s.Retry(ctx, server.Selection{All: true})
	_, dropped := s.Drop(ctx, server.Selection{All: true})
	for what, err := range map[string]error{"retry": retried, "drop": dropped, "pause": s.Pause(ctx, "emails"),
		"resume": s.Resume(ctx, "emails"), "rebuild": s.Rebuild(ctx, "emails", server.Rebuild{})} {
		if !errors.Is(err, server.ErrStandby) || !strings.Contains(err.Error(), locked.Holder) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A wait for a fence at a standby is answered after the standby has taken over.
func TestAFenceIsWaitedForThroughATakeover(t *testing.T) {
	s := &standby{cfg: configured(t, cellViews)}
	s.setReason(locked)
	soon, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := s.Wait(soon, server.Fence{At: "1:1"}, nil); !errors.Is(err, context.DeadlineExceeded) ||
		!errors.Is(err, server.ErrStandby) {
		t.Errorf("nobody takes over: %v", err)
	}
	front := NewFront()
	front.enter(s)
	answered := make(chan error)
	go func() { answered <- front.Wait(t.Context(), server.Fence{At: "1:1"}, nil) }()
	l, f := keeping("main", "", "emails")
	running := serving(t, configured(t, cellViews), l)
	front.leave()
	front.enter(running)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	front.leave()
	asked(t, "the pipeline", f, "wait 1:1")
}

// A process that starts, or has lost its store, stands by while the store doesn't answer. A run with UntilCaughtUp
// returns an error instead.
func TestAStoreThatDoesNotAnswerIsWaitedFor(t *testing.T) {
	cfg := configured(t, unreachable)
	cfg.HTTP.Listen = ""
	for name, c := range map[string]struct{ lost, untilCaughtUp bool }{"it was lost": {lost: true}, "at the start": {},
		"a run that is to end": {untilCaughtUp: true}} {
		t.Run(name, func(t *testing.T) {
			log := &logged{}
			r := Runner{Setup: Setup{Config: cfg, Log: slog.New(slog.NewTextHandler(log, nil))},
				UntilCaughtUp: c.untilCaughtUp, Metrics: server.NewMetrics(), front: NewFront(), storeAt: placeOf(cfg)}
			if c.lost {
				gone := make(chan struct{})
				close(gone)
				store, err := checkpoint.OpenFile(t.TempDir())
				if err != nil {
					t.Fatal(err)
				}
				r.store = held{Store: store, lost: gone}
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			go func() {
				_, err := r.hold(ctx, cfg)
				done <- err
			}()
			if !c.untilCaughtUp {
				eventually(t, "it stands by", func() bool { return strings.Contains(log.String(), "can't be reached") })
				cancel()
			}
			if err := <-done; (err != nil) != c.untilCaughtUp {
				t.Errorf("it ended with %v\n%s", err, log)
			}
		})
	}
}
