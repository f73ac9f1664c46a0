package verify

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"replicator"
	"replicator/internal/pause"
)

// Rounds verifies views while a program runs: each once in Every, one after the other, spread evenly over it. Where the
// views take longer than that, one follows the other without a pause.
//
// A view that fails is left for the next round, which goes on where it stopped. All that is known of a round is kept in
// memory: a restart begins anew, with any of the views, so that even a program that is restarted often comes to all of
// them.
type Rounds struct {
	Every    time.Duration
	Views    []Turn
	Observer RoundsObserver
	Log      *slog.Logger

	mu sync.Mutex // guards Turn.last
}

// Turn is one view and one source of it.
type Turn struct {
	View, Source string

	// Verify verifies the view, from a place on. An error that wraps ErrNotNow is no failure: the view's turn is over.
	Verify func(ctx context.Context, resume *Place) (Result, error)

	place Place // of the goroutine that runs
	last  *replicator.Verification
}

// ErrNotNow: the view is not in a state to be verified, such as one that is being filled.
var ErrNotNow = errors.New("not verified now")

// RoundsObserver is told of rounds, for metrics.
type RoundsObserver interface {
	VerifyFailed(view string)
}

// Run goes on until ctx is done.
func (r *Rounds) Run(ctx context.Context) {
	if len(r.Views) == 0 {
		return
	}
	slot := r.Every / time.Duration(len(r.Views))
	due := time.Now()
	for i := rand.IntN(len(r.Views)); ; i = (i + 1) % len(r.Views) {
		if due = due.Add(slot); due.Before(time.Now()) {
			due = time.Now()
		}
		if pause.For(ctx, time.Until(due)) != nil {
			return
		}
		r.turn(ctx, &r.Views[i])
	}
}

// Last is what is known of a view of a source; nil before its first turn has ended.
func (r *Rounds) Last(view, source string) *replicator.Verification {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.Views {
		if t := &r.Views[i]; t.View == view && t.Source == source {
			return t.last
		}
	}
	return nil
}

// turn verifies one view.
func (r *Rounds) turn(ctx context.Context, t *Turn) {
	if !t.place.found.begun() { // it begins
		t.place.salt = rand.Uint64()
	}
	began := time.Now()
	result, err := t.Verify(ctx, &t.place)
	log := r.Log.With("view", t.View)
	if t.Source != "" {
		log = log.With("source", t.Source)
	}
	switch {
	case ctx.Err() != nil:
		return
	case errors.Is(err, ErrNotNow):
		log.Info("a view was not verified in its turn", "reason", err)
		return
	case err != nil:
		r.Observer.VerifyFailed(t.View)
		log.Error("verifying a view failed: its next turn goes on from there", "error", err)
	default:
		level, message := slog.LevelInfo, "verified"
		switch {
		case result.Missing+result.Stale+result.Extra > 0:
			level, message = slog.LevelWarn, "verified: the view differs from the source (`replicator verify` names the cells)"
		case result.Dead > 0:
			level, message = slog.LevelWarn, "verified: the view is right but for dead letters (`replicator deadletters list`)"
		}
		log.Log(ctx, level, message, "checked", result.Checked, "missing", result.Missing, "stale",
			result.Stale, "extra", result.Extra,
			"dead", result.Dead, "repaired", result.Repaired, "took", time.Since(began).Round(time.Millisecond))
	}
	r.note(t, result, err)
}

// note remembers how a turn ended. One that failed says so beside what the one before found.
func (r *Rounds) note(t *Turn, result Result, err error) {
	last := replicator.Verification{Time: time.Now(), Checked: result.Checked,
		Missing: result.Missing, Stale: result.Stale,
		Extra: result.Extra, Dead: result.Dead, Repaired: result.Repaired}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		last = replicator.Verification{}
		if t.last != nil {
			last = *t.last
		}
		last.Error = err.Error()
	}
	t.last = &last
}
