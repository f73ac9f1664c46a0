package pipeline

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"replicator"
	"replicator/internal/pause"
)

// forgetting tracks up to which log position the sink may forget deleted cells. It outlives sessions. Only the
// forgetter's goroutine uses it, except for the method `note`, which lanes call.
type forgetting struct {
	passed []marking // log positions that were saved in the sink, with the times; oldest first
	walked int64     // log position up to which the last complete walk forgot deleted cells

	gone atomic.Int64 // the highest log position of an applied deletion
}

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

type marking struct {
	order int64
	at    time.Time
}

// forgetSteps is how often deleted cells are forgotten within the time for which they must be remembered.
const forgetSteps = 4

// horizon records that the log position `order` is saved in the sink now. It returns the newest position that was saved
// there at least as long ago as `remembered` says; 0 if there is none.
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

// forgetter makes the target forget deleted cells, in the background: see docs/adr/0023.
type forgetter struct {
	*group
	target replicator.Target
	saver  *saver
}

const forgetPage = 5000

// run forgets until ctx is done. It does nothing if the target can't forget cells, or if the source is a Changelog,
// from which a forgotten cell could not be read again.
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
		horizon := f.horizon()
		if f.forgetting.walked == 0 { // deletions before this process began are unknown, so assume that there was one
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

func (f *forgetter) horizon() int64 {
	return f.forgetting.horizon(f.saver.lastMarked().Position.Order, time.Now(), f.cfg.Deleted)
}

// walk examines all cells, page by page, and forgets those that were deleted before the horizon (a log position). After
// each page it pauses for four times as long as the page took. Once it has lasted longer than Config.Deleted, it no
// longer pauses.
func (f *forgetter) walk(ctx context.Context, target replicator.Forgetter, horizon int64) error {
	found, began := replicator.GoneCells{}, time.Now()
	if err := target.RaiseHorizon(ctx, horizon); err != nil {
		return f.explain(err)
	}
	raised := began
	for after := ""; ; {
		asked := time.Now()
		some, next, err := target.ForgetGone(ctx, after, forgetPage)
		if err != nil {
			return f.explain(err)
		}
		found.Add(some)
		if after = next; after == "" {
			break
		}
		if time.Since(began) <= f.cfg.Deleted {
			if err := pause.For(ctx, 4*time.Since(asked)); err != nil {
				return err
			}
			continue
		}
		if time.Since(raised) > f.cfg.Deleted {
			if err := target.RaiseHorizon(ctx, f.horizon()); err != nil {
				return f.explain(err)
			}
			raised = time.Now()
		}
	}
	f.forgetting.walked = horizon
	f.shown.countGone(f.views, int64(found.Remembered))
	if found.Forgotten > 0 {
		f.cfg.Log.Debug("removed the sink's states of cells that were deleted long ago", "sink", f.cfg.Name,
			"views", f.views.names(), "cells", found.Forgotten, "remembered", found.Remembered,
			"took", time.Since(began).Round(time.Millisecond))
	}
	return nil
}

func (f *forgetter) explain(err error) error {
	return fmt.Errorf("sink %s: removing the states of cells that were deleted long ago: %w", f.cfg.Name, err)
}
