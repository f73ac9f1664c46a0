package verify_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"replicator"
	"replicator/verify"
)

// rounds are Rounds whose turns note when they came and end as told.
type rounds struct {
	verify.Rounds
	log strings.Builder

	mu     sync.Mutex
	began  time.Time
	turns  []string // VIEW@SECONDS
	failed []string
	ends   map[string]func(ctx context.Context) (verify.Result, error)
}

func newRounds(every time.Duration, views ...string) *rounds {
	r := &rounds{began: time.Now(), ends: map[string]func(context.Context) (verify.Result, error){}}
	r.Every, r.Observer, r.Log = every, r, slog.New(slog.NewTextHandler(&r.log, nil))
	for _, v := range views {
		r.Views = append(r.Views, verify.Turn{View: v, Verify: func(ctx context.Context,
			_ *verify.Place) (verify.Result, error) {
			r.mu.Lock()
			r.turns = append(r.turns, fmt.Sprintf("%s@%.0f", v, time.Since(r.began).Seconds()))
			end := r.ends[v]
			r.mu.Unlock()
			if end == nil {
				return verify.Result{View: v, Checked: 7}, nil
			}
			return end(ctx)
		}})
	}
	return r
}

func (r *rounds) VerifyFailed(view string) { r.failed = append(r.failed, view) }

// runFor runs for a while and returns the turns, from the first of view a on.
func (r *rounds) runFor(t *testing.T, d time.Duration) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	r.Run(ctx)
	i := slices.IndexFunc(r.turns, func(turn string) bool { return strings.HasPrefix(turn, "a@") })
	if i < 0 {
		t.Fatalf("view a had no turn: %v", r.turns)
	}
	return r.turns[i:]
}

func TestEachViewHasOneTurnInAPeriodAndTheyAreSpreadOverIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRounds(30*time.Second, "a", "b", "c")
		r.runFor(t, 91*time.Second)
		if len(r.turns) != 9 || !strings.HasSuffix(r.turns[0], "@10") || !strings.HasSuffix(r.turns[8], "@90") ||
			r.turns[0][0] != r.turns[3][0] {
			t.Errorf("turns: %v", r.turns)
		}
		if last := r.Last("b", ""); last == nil || last.Checked != 7 || last.Wrong() || r.Last("b", "other") != nil {
			t.Errorf("b: %+v", last)
		}
	})
}

func TestTurnsThatTakeLongerThanTheirPartFollowOneAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRounds(20*time.Second, "a", "b")
		slow := func(ctx context.Context) (verify.Result, error) {
			time.Sleep(25 * time.Second) // of the bubble's clock
			return verify.Result{}, nil
		}
		r.ends["a"], r.ends["b"] = slow, slow
		r.runFor(t, 86*time.Second)
		if got := len(r.turns); got != 4 || !strings.HasSuffix(r.turns[1], "@35") || !strings.HasSuffix(r.turns[3], "@85") {
			t.Errorf("turns: %v", r.turns)
		}
	})
}

func TestAFailureIsCountedAndTheOthersGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRounds(2*time.Second, "a", "b")
		r.ends["b"] = func(context.Context) (verify.Result, error) { return verify.Result{}, errors.New("the sink is full") }
		r.runFor(t, 4500*time.Millisecond)
		if got := len(r.failed); got != 2 || len(r.turns) != 4 {
			t.Errorf("%d failures in %v", got, r.turns)
		}
		if last := r.Last("b", ""); last == nil || last.Error != "the sink is full" || !last.Time.IsZero() ||
			last.Summary() != "failed" {
			t.Errorf("b: %+v", last)
		}
		if last := r.Last("a", ""); last == nil || last.Error != "" {
			t.Errorf("a: %+v", last)
		}
	})
}

func TestAViewThatMayNotBeVerifiedLosesItsTurnAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRounds(time.Second, "a")
		r.ends["a"] = func(context.Context) (verify.Result, error) {
			return verify.Result{}, fmt.Errorf("view a: %w: it is paused", verify.ErrNotNow)
		}
		r.runFor(t, 2500*time.Millisecond)
		if last := r.Last("a", ""); last != nil || len(r.failed) > 0 || !strings.Contains(r.log.String(), "it is paused") {
			t.Errorf("%+v, failed %v\n%s", last, r.failed, r.log.String())
		}
	})
}

func TestDifferencesAreOneLineOfTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRounds(time.Second, "a")
		r.ends["a"] = func(context.Context) (verify.Result, error) {
			return verify.Result{Checked: 9, Missing: 1, Stale: 2, Extra: 3, Repaired: 5,
				Differences: []verify.Difference{{Key: "the key of a cell", Kind: replicator.Missing}}}, nil
		}
		r.runFor(t, 1500*time.Millisecond)
		text := r.log.String()
		if strings.Count(text, "\n") != 1 || !strings.Contains(text,
			"view=a checked=9 missing=1 stale=2 extra=3 dead=0 repaired=5") || strings.Contains(text, "the key") {
			t.Errorf("the log:\n%s", text)
		}
		if last := r.Last("a", ""); last.Differ() != 1 || !last.Wrong() {
			t.Errorf("%+v", last)
		}
	})
}

func TestATurnThatIsCutShortByTheEndIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRounds(time.Second, "a")
		r.ends["a"] = func(ctx context.Context) (verify.Result, error) {
			<-ctx.Done()
			return verify.Result{}, ctx.Err()
		}
		r.runFor(t, 5*time.Second)
		if len(r.turns) != 1 || len(r.failed) > 0 || r.log.Len() > 0 {
			t.Errorf("turns %v, failed %v\n%s", r.turns, r.failed, r.log.String())
		}
	})
}

func TestAViewThatIsAskedForHasItsTurnAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRounds(0, "a", "b")
		going := make(chan struct{})
		r.ends["b"] = func(context.Context) (verify.Result, error) {
			<-going
			return verify.Result{Checked: 5}, nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { r.Run(ctx) })
		time.Sleep(time.Hour) // of the bubble's clock: nothing is due by itself
		if err := r.Ask("b"); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if err := r.Ask("b"); !errors.Is(err, verify.ErrUnderWay) || !r.Due("b", "") || r.Due("a", "") {
			t.Errorf("asked again meanwhile: %v", err)
		}
		close(going)
		synctest.Wait()
		if last := r.Last("b", ""); last == nil || last.Checked != 5 || r.Due("b", "") ||
			strings.Join(r.turns, " ") != "b@3600" {
			t.Errorf("%+v, turns %v", last, r.turns)
		}
		cancel()
		running.Wait()
	})
}
