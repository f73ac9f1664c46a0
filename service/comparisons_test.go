package service

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"replicator"
	"replicator/server"
	"replicator/verify"
)

func TestAComparisonIsTriedAgainUntilItWasMade(t *testing.T) {
	cfg := configured(t, cellViews)
	for _, c := range []struct {
		name  string
		first error // what the first tries end with
		waits bool  // longer than until the next look
		says  string
	}{
		{"at once", nil, false, `level=INFO msg="a view was compared`},
		{"one that fails", errors.New("the sink is away"), true, "level=ERROR"},
		{"one of a view that is being filled, say", verify.ErrNotNow, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, f := keeping("main", "", "emails")
				f.swapped = map[string]int64{"emails": 9}
				var log strings.Builder
				began, tries := time.Now(), 0
				ctx, cancel := context.WithCancel(t.Context())
				s := &Service{Setup: Setup{Config: cfg}, lines: lineup{now: []line{l}}}
				one := &comparisons{
					lines: s.lines.all(), log: slog.New(slog.NewTextHandler(&log, nil)), open: map[comparison]*comparing{},
					next: map[compared]time.Time{},
					verify: func(_ context.Context, _ line, view string, _ *verify.Place) (verify.Result, error) {
						if tries++; tries == 1 {
							return verify.Result{}, c.first
						}
						return verify.Result{View: view}, nil
					},
				}
				done := make(chan struct{})
				go func() { one.run(ctx); close(done) }()
				if err := s.Wait(t.Context(), server.Fence{}, nil); err != nil {
					t.Fatal(err)
				}
				took := time.Since(began)
				cancel()
				<-done
				asked(t, "the pipeline", f, "wait ", "compared emails")
				if took > compareAgain != c.waits || !strings.Contains(log.String(), c.says) {
					t.Errorf("after %s, %d tries; the log:\n%s", took, tries, log.String())
				}
				if len(one.open) > 0 {
					t.Error("it is remembered still")
				}
			})
		})
	}
}

func TestAViewThatIsComparedSaysSoAndIsWaitedFor(t *testing.T) {
	l, f := keeping("main", "", "emails", "phones")
	f.swapped = map[string]int64{"emails": 9}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := serving(t, configured(t, cellViews), l)
	if views, err := s.Status(t.Context()); err != nil || !views[0].Verifying || views[1].Verifying {
		t.Errorf("the status is %+v (%v)", views, err)
	}
	err := s.Wait(ctx, server.Fence{}, nil)
	if err == nil || !strings.Contains(err.Error(), "view emails is still being compared") {
		t.Errorf("Wait for all views: %v", err)
	}
	if err := s.Wait(ctx, server.Fence{}, []string{"phones"}); err != nil {
		t.Errorf("Wait for the view that needs no comparison: %v", err)
	}
}

func TestAViewIsVerifiedOnlyWhileItIsKeptUp(t *testing.T) {
	for _, state := range []string{replicator.StateStarting, replicator.StateFilling, replicator.StateRebuilding,
		replicator.StatePaused, replicator.StateRetrying, replicator.StateFailed, replicator.StateRunning} {
		l, f := keeping("main", "", "phones", "emails")
		f.views[1].State = state
		err := liveRepair{line: l, view: &replicator.View{Name: "emails"}}.mayGoOn()
		running := state == replicator.StateRunning
		if running != (err == nil) || !running && !errors.Is(err, verify.ErrNotNow) {
			t.Errorf("%s: %v", state, err)
		}
	}
}

// A server that logs statements makes a comparison due again and again.
func TestAViewIsComparedNoMoreThanHalfOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, f := keeping("main", "", "emails")
		f.swapped = map[string]int64{"emails": 1}
		const takes = time.Minute
		var began []time.Time
		one := &comparisons{
			lines: []line{l}, log: slog.New(slog.DiscardHandler), open: map[comparison]*comparing{}, next: map[compared]time.Time{},
			verify: func(_ context.Context, _ line, view string, _ *verify.Place) (verify.Result, error) {
				began = append(began, time.Now())
				time.Sleep(takes)
				f.mu.Lock()
				f.swapped["emails"]++ // another statement meanwhile
				f.mu.Unlock()
				return verify.Result{View: view}, nil
			},
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*takes)
		defer cancel()
		one.run(ctx)
		if len(began) < 4 || began[1].Sub(began[0]) < 2*takes {
			t.Errorf("compared at %v", began)
		}
		if len(one.open) > 1 {
			t.Errorf("%d comparisons are remembered", len(one.open))
		}
	})
}
