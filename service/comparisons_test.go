package service

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"slices"
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
		first error // the error of the first comparison
		waits bool  // whether the retry comes only after compareAgain
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
				s := &Service{Setup: Setup{Config: cfg}, lines: lineup{running: []line{l}}}
				one := newComparisons(s.lines.all(), slog.New(slog.NewTextHandler(&log, nil)),
					func(_ context.Context, _ line, view string, _ *verify.Place) (verify.Result, error) {
						if tries++; tries == 1 {
							return verify.Result{}, c.first
						}
						return verify.Result{View: view}, nil
					})
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
	if views, err := s.Status(t.Context()); err != nil || !views[0].Verifying || views[1].Verifying ||
		!strings.Contains(views[0].Comparing(), "being compared") || views[1].Comparing() != "" {
		t.Errorf("the status is %+v (%v)", views, err)
	}
	l.source.(*fakeSource).format = "MIXED"
	if views, err := s.Status(t.Context()); err != nil || views[0].Format != "MIXED" || views[1].Format != "" ||
		!strings.Contains(views[0].Comparing(), "binlog_format is MIXED. SET GLOBAL binlog_format = ROW") {
		t.Errorf("where the source logs statements, the status is %+v (%v)", views, err)
	}
	if stats := s.SourceStats(t.Context()); stats[0].Format != "MIXED" {
		t.Errorf("metrics are told of %+v", stats)
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

// A server that logs statements makes comparisons of all views due again and again. The program compares one view at a
// time, each in its turn. After a round it pauses for at least as long as the round took, whether the comparisons
// succeeded or not.
func TestASourceIsComparedNoMoreThanHalfOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, f := keeping("main", "", "emails", "phones", "users")
		f.swapped = map[string]int64{"emails": 1, "phones": 1, "users": 1}
		const takes = time.Minute
		type try struct {
			view       string
			from, till time.Time
		}
		var tries []try
		one := newComparisons([]line{l}, slog.New(slog.DiscardHandler),
			func(_ context.Context, _ line, view string, _ *verify.Place) (verify.Result, error) {
				from := time.Now()
				time.Sleep(takes)
				f.mu.Lock()
				for name := range f.swapped {
					f.swapped[name]++ // another statement during the comparison
				}
				f.mu.Unlock()
				tries = append(tries, try{view, from, time.Now()})
				if len(tries)%3 == 1 {
					return verify.Result{}, errors.New("the source is away")
				}
				return verify.Result{View: view}, nil
			})
		ctx, cancel := context.WithTimeout(t.Context(), 20*takes)
		defer cancel()
		one.run(ctx)
		if len(tries) < 9 {
			t.Fatalf("compared %d times in %s", len(tries), 20*takes)
		}
		for i, now := range tries[1:] {
			before := tries[i]
			paused, want := now.from.Sub(before.till), time.Duration(0)
			if now.view <= before.view { // a new round begins
				want = 3 * takes
			}
			if paused < want {
				t.Errorf("%s is compared %s after %s, want %s", now.view, paused, before.view, want)
			}
			if i >= 2 && now.view != tries[i-2].view {
				t.Errorf("it was the turn of %s, not of %s", tries[i-2].view, now.view)
			}
		}
	})
}

// Changes during a comparison make the view due once more. The next comparison starts from the beginning, however many
// changes there were.
func TestAComparisonThatIsOvertakenBeginsAgainOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, f := keeping("main", "", "emails")
		f.swapped = map[string]int64{"emails": 1}
		var fresh []bool // for each comparison: whether it started from the beginning
		one := newComparisons([]line{l}, slog.New(slog.DiscardHandler),
			func(_ context.Context, _ line, view string, at *verify.Place) (verify.Result, error) {
				fresh = append(fresh, reflect.ValueOf(*at).IsZero())
				f.mu.Lock()
				defer f.mu.Unlock()
				if len(fresh) == 1 {
					f.swapped[view] += 3
				}
				return verify.Result{View: view}, nil
			})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		one.run(ctx)
		if !slices.Equal(fresh, []bool{true, true}) || len(f.swapped) > 0 {
			t.Errorf("the comparisons were %v; left are %v", fresh, f.swapped)
		}
	})
}
