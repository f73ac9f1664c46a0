package verify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"replicator"
)

// Rounds verifies views while a program runs: each once in Every, one after the other, spread evenly over it. Where the
// views take longer than that, one follows the other without a pause. One that somebody asks for has its turn at once,
// or after the one that is under way.
//
// A view that fails is left for the next round, which goes on where it stopped. All that is known of a round is kept in
// memory: a restart begins anew, with any of the views, so that even a program that is restarted often comes to all of
// them.
type Rounds struct {
	Every    time.Duration // 0: only those that are asked for
	Views    []Turn
	Observer RoundsObserver
	Log      *slog.Logger

	mu    sync.Mutex // guards what follows, and Turn.last and Turn.due
	asked []*Turn
	wake  chan struct{} // has a value once one was asked for
}

// Turn is one view and one source of it.
type Turn struct {
	View, Source string

	// Verify verifies the view, from a place on. An error that wraps ErrNotNow is no failure: the view's turn is over.
	Verify func(ctx context.Context, resume *Place) (Result, error)

	place Place // of the goroutine that runs
	last  *replicator.Verification
	due   bool // it was asked for, or is under way
}

var (
	// ErrNotNow: the view is not in a state to be verified, such as one that is being filled.
	ErrNotNow = errors.New("not verified now")
	// ErrUnderWay: the view is being verified.
	ErrUnderWay = errors.New("it is being verified already")
)

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
		if r.serve(ctx, due) != nil {
			return
		}
		r.turn(ctx, &r.Views[i])
	}
}

// serve verifies what is asked for, until the next regular turn is due or ctx is done.
func (r *Rounds) serve(ctx context.Context, due time.Time) error {
	var regular <-chan time.Time
	if r.Every > 0 {
		regular = time.After(time.Until(due))
	}
	for {
		select {
		case <-regular:
			return ctx.Err()
		case <-ctx.Done():
			return ctx.Err()
		case <-r.woken():
		}
		for t := r.nextAsked(); t != nil && ctx.Err() == nil; t = r.nextAsked() {
			r.turn(ctx, t)
		}
	}
}

func (r *Rounds) woken() chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wake == nil {
		r.wake = make(chan struct{}, 1)
	}
	return r.wake
}

func (r *Rounds) nextAsked() *Turn {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.asked) == 0 {
		return nil
	}
	t := r.asked[0]
	r.asked = r.asked[1:]
	return t
}

// Ask has a view verified, for every source; Last tells what was found.
func (r *Rounds) Ask(view string) error {
	wake := r.woken()
	r.mu.Lock()
	defer r.mu.Unlock()
	var turns []*Turn
	for i := range r.Views {
		t := &r.Views[i]
		if t.View != view {
			continue
		}
		if t.due {
			return fmt.Errorf("view %s: %w", view, ErrUnderWay)
		}
		turns = append(turns, t)
	}
	for _, t := range turns {
		t.due = true
	}
	r.asked = append(r.asked, turns...)
	select {
	case wake <- struct{}{}:
	default:
	}
	return nil
}

// Due reports whether a view is being verified with a source, or is the next to be.
func (r *Rounds) Due(view, source string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.Views {
		if t := &r.Views[i]; t.View == view && t.Source == source {
			return t.due
		}
	}
	return false
}

func (r *Rounds) setDue(t *Turn, due bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.due = due
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
	r.setDue(t, true)
	defer r.setDue(t, false)
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
