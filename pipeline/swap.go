package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"replicator"
)

// swapper ends rebuilds: it puts shadows that have caught up in the place of the live views, and finds out what became
// of a swap that failed. The supervisor's goroutine alone uses it.
type swapper struct {
	*shared
	composition *composition
}

// finish ends the rebuilds whose fill is complete: those in place are done, shadows that have caught up are
// swapped in.
func (s *swapper) finish(ctx context.Context) error {
	for _, b := range s.rebuilds.all() {
		done, err := s.finishOne(ctx, b)
		if err != nil {
			return err
		}
		if !done {
			continue
		}
		s.rebuilds.replace(b)
		s.cfg.Log.Info("rebuilt", "sink", s.cfg.Name, "views", b.views.names())
	}
	return nil
}

// finishOne takes a rebuild to its end, if it is so far, and reports whether it is.
func (s *swapper) finishOne(ctx context.Context, b *rebuild) (bool, error) {
	switch {
	case b.run.progress.current().Filling():
		return false, nil
	case len(b.shadows) == 0:
		return true, nil
	case b.unsettled != nil:
		return s.settle(ctx, b)
	case slices.ContainsFunc(b.views, s.stopped.isPaused):
		return false, nil // nothing is written to it, and a swap is more than that
	}
	session := b.run.current()
	if session == nil || time.Now().Before(b.retryAt) {
		return false, nil
	}
	if lag, known := session.lag(); !known || lag > joinable {
		return false, nil
	}
	return s.swap(ctx, b)
}

// swap stops the live views, lets the shadows pass the place where those stopped, so that no reader sees a step back,
// and puts the shadows in their place. It reports whether it did; where the sink fails the live views go on, and it
// tries again later.
func (s *swapper) swap(ctx context.Context, b *rebuild) (bool, error) {
	live, err := s.composition.takeOut(ctx, b.views)
	if err != nil {
		return false, err
	}
	reached := s.pass(ctx, b.run, live)
	if err := s.composition.end(ctx, b.run); err != nil {
		return false, err
	}
	checkpoints := b.run.progress.checkpoints()
	if reached == nil {
		reached = s.cfg.Sink.(replicator.Shadower).Swap(ctx, s.cfg.Source.Name(), b.views)
	}
	if reached == nil {
		reached = s.swapped(ctx, b.views, checkpoints)
	}
	if reached == nil {
		return true, nil
	}
	s.cfg.Log.Error("rebuilt views can't be swapped in yet", "sink", s.cfg.Name, "views", b.views.names(),
		"error", reached)
	return false, errors.Join(s.setBack(b, checkpoints, reached), s.composition.launchAt(live))
}

// setBack lets a rebuild go on whose swap failed. Views that it failed for by themselves part from it, so that the
// others needn't wait for them: their shadows are what they were. Of the others it has to be found out.
func (s *swapper) setBack(b *rebuild, shadows []replicator.Checkpoint, reason error) error {
	groups, others := replicator.Troubled(b.views, reason)
	rest := reason
	if groups != nil {
		rest = nil
	} else if replicator.IsOfViews(reason) {
		groups, others = [][]*replicator.View{b.views}, nil
	}
	var parts []*rebuild
	for _, views := range groups {
		part := b.of(views)
		part.failed(reason)
		if err := s.prepare(part, checkpointsOf(part.shadows, shadows)); err != nil {
			return err
		}
		parts = append(parts, part)
	}
	if len(others) > 0 {
		left := b.of(others)
		left.failed(rest)
		left.run, left.unsettled = b.run, checkpointsOf(left.shadows, shadows)
		parts = append(parts, left)
	}
	s.rebuilds.replace(b, parts...)
	for _, part := range parts {
		if part.unsettled == nil {
			s.composition.launch(part.run)
		}
	}
	return nil
}

// prepare makes a run of the shadows of a rebuild, from their checkpoints.
func (s *swapper) prepare(b *rebuild, from []replicator.Checkpoint) (err error) {
	b.run, err = s.composition.newRun(b.shadows, from)
	return err
}

// settle finds out what became of a swap that failed: the sink may have made it all the same, or whoever opened it
// since may have completed it. A shadow without a mark is in its view's place. To run it again would begin another one,
// empty and taken for filled. It reports whether all are in their places; those that are not go on.
func (s *swapper) settle(ctx context.Context, b *rebuild) (bool, error) {
	if time.Now().Before(b.settleAt) {
		return false, nil
	}
	b.settleAt = time.Now().Add(retryPause)
	known, err := s.planner.marks(ctx)
	if err != nil {
		s.cfg.Log.Error("what became of a swap is not known yet", "sink", s.cfg.Name, "views", b.views.names(),
			"error", err)
		return false, nil
	}
	var waiting, done []*replicator.View
	var left, moved []replicator.Checkpoint
	for i, c := range b.unsettled {
		if _, m := known.of(c.View); m != nil {
			waiting, left = append(waiting, b.views[i]), append(left, c)
		} else {
			done, moved = append(done, b.views[i]), append(moved, c)
		}
	}
	if err := s.swapped(ctx, done, moved); err != nil {
		s.cfg.Log.Error("rebuilt views were swapped in, and that can't be saved yet", "sink", s.cfg.Name,
			"views", viewSet(done).names(), "error", err)
		return false, nil
	}
	if len(left) == 0 {
		return true, nil
	}
	again := b.of(waiting)
	again.failed(b.err)
	if err := s.prepare(again, left); err != nil {
		return false, err
	}
	s.rebuilds.replace(b, again)
	s.composition.launch(again.run)
	return false, nil
}

// swapped ends the rebuild of views that have been swapped in, at the checkpoints of their shadows. Those that run
// already, from where they stood before the swap, go on there: what they repeat is stale.
func (s *swapper) swapped(ctx context.Context, views []*replicator.View, shadows []replicator.Checkpoint) error {
	var at []replicator.Checkpoint
	for i, v := range views {
		if s.runOf(v.Name) == nil {
			c := shadows[i]
			c.View = v.Name
			at = append(at, c)
		}
	}
	if len(at) > 0 { // else the runs save
		if err := s.cfg.Store.Save(ctx, at); err != nil {
			return fmt.Errorf("saving the checkpoints of rebuilt views: %w", err)
		}
	}
	for _, v := range views {
		if err := inherit(ctx, s.cfg.Store, v); err != nil {
			return err
		}
	}
	for _, v := range views {
		s.stopped.setFailed(v.Name, nil)
	}
	var running []replicator.Checkpoint
	for _, c := range at {
		if !s.stopped.move(c) {
			running = append(running, c)
		}
	}
	return s.composition.launchAt(running)
}

// passTime is how long shadows may take to pass the place where the live views were stopped.
const passTime = 30 * time.Second

// pass waits until a run has applied everything up to where the live views stopped.
func (s *swapper) pass(ctx context.Context, r *run, live []replicator.Checkpoint) error {
	ctx, cancel := context.WithTimeout(ctx, passTime)
	defer cancel()
	for _, c := range live {
		for r.progress.current().Position.Order < c.Position.Order {
			if session := r.current(); session != nil {
				if err := session.saver.advance(ctx, saveNothing); err != nil {
					return err
				}
			}
			select {
			case <-time.After(2 * time.Millisecond):
			case <-ctx.Done():
				return fmt.Errorf("the rebuilt views did not reach the live ones within %s", passTime)
			}
		}
	}
	return nil
}
