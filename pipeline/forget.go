package pipeline

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"replicator"
	"replicator/internal/pause"
)

// forgetting is how far what is gone may be forgotten. It outlives sessions; their forgetters' goroutines use it, one at
// a time.
type forgetting struct {
	passed []marking // oldest first, at most forgetSteps and one more
	walked int64     // the horizon of the last walk that came to its end

	gone atomic.Int64 // the highest log position at which a cell was gone that was applied
}

// note notes where the cells of ops went that are gone.
func (f *forgetting) note(ops []replicator.Op) {
	last := int64(0)
	for i := range ops {
		if ops[i].Version == replicator.NoVersion {
			last = max(last, ops[i].AsOf)
		}
	}
	for was := f.gone.Load(); was < last && !f.gone.CompareAndSwap(was, last); was = f.gone.Load() {
	}
}

// marking is a log position that was marked at a time.
type marking struct {
	order int64
	at    time.Time
}

// forgetSteps is into how many parts the time that deleted cells are remembered is divided.
const forgetSteps = 4

// horizon notes what is marked now, and returns the newest position that was marked so long ago; 0: there is none.
func (f *forgetting) horizon(order int64, now time.Time, remembered time.Duration) int64 {
	f.passed = append(f.passed, marking{order, now})
	for len(f.passed) > 1 && now.Sub(f.passed[1].at) >= remembered {
		f.passed = f.passed[1:]
	}
	if now.Sub(f.passed[0].at) < remembered {
		return 0
	}
	return f.passed[0].order
}

// forgetter has the target forget what is gone, in the background: see docs/adr/0023.
type forgetter struct {
	*group
	target replicator.Target
	saver  *saver
}

// forgetPage is how many cells are looked at at a time.
const forgetPage = 1000

// run forgets until ctx is done. It does nothing where the target remembers everything, and where a cell that is
// forgotten could not be read again.
func (f *forgetter) run(ctx context.Context) error {
	target, ok := f.target.(replicator.Forgetter)
	if !ok || f.cfg.Deleted <= 0 || f.cfg.changelog() != nil {
		return nil
	}
	tick := time.NewTicker(max(f.cfg.Deleted/forgetSteps, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		marked := f.saver.lastMarked()
		horizon := f.forgetting.horizon(marked.Position.Order, time.Now(), f.cfg.Deleted)
		if f.forgetting.walked == 0 { // what went before this process began is not known
			f.forgetting.note([]replicator.Op{{Version: replicator.NoVersion, AsOf: marked.Position.Order}})
		}
		if marked.Filling() || horizon <= f.forgetting.walked || f.forgetting.gone.Load() < f.forgetting.walked {
			continue
		}
		if err := f.walk(ctx, target, horizon); err != nil {
			return err
		}
	}
}

// walk goes through all cells, and works a fifth of the time.
func (f *forgetter) walk(ctx context.Context, target replicator.Forgetter, horizon int64) error {
	found, began := replicator.GoneCells{}, time.Now()
	for after := ""; ; {
		asked := time.Now()
		some, next, err := target.ForgetGone(ctx, horizon, after, forgetPage)
		if err != nil {
			return fmt.Errorf("sink %s: forgetting cells that are gone: %w", f.cfg.Name, err)
		}
		found.Add(some)
		if after = next; after == "" {
			break
		}
		if err := pause.For(ctx, 4*time.Since(asked)); err != nil {
			return err
		}
	}
	f.forgetting.walked = horizon
	f.shown.countGone(f.views, int64(found.Remembered))
	if found.Forgotten > 0 {
		f.cfg.Log.Debug("forgot cells that are gone", "sink", f.cfg.Name, "views", f.views.names(), "cells", found.Forgotten,
			"remembered", found.Remembered,
			"took", time.Since(began).Round(time.Millisecond))
	}
	return nil
}
