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
	rebuilder   *rebuilder
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
		return !b.run.isApart(), nil
	case b.unsettled != nil:
		return s.settle(ctx, b)
	case slices.ContainsFunc(b.views, s.stopped.isPaused):
		return false, nil // nothing is written to it, and a swap is more than that
	}
	lag, known := time.Duration(0), false
	if session := b.run.current(); session != nil && session.passed() {
		lag, known = session.lag()
	}
	if !known || lag > joinable || time.Now().Before(b.retryAt) || s.joins(b) {
		return false, nil
	}
	if !b.again && b.run.notes.due(b.shadows) {
		return false, s.rebuilder.fillAgain(ctx, b)
	}
	return s.swap(ctx, b)
}

// joins reports whether the shadows of a rebuild have yet to join views that they are to agree with. Not waited for are
// views that readers can't expect to agree: they are being filled, or in trouble, or they lag and nothing else runs with
// them.
func (s *swapper) joins(b *rebuild) bool {
	return slices.ContainsFunc(s.runs.all(), func(r *run) bool {
		live := r.views.live()
		if r == b.run || len(live) == 0 || r.progress.current().Filling() || r.inTroubleFor(retryPause) {
			return false
		}
		others := live.without(b.views)
		return r.ready() || r.isYoung() || len(others) < len(live) && len(others) > 0
	})
}

// isYoung reports whether a run's session is too short to tell whether it has caught up.
func (r *run) isYoung() bool {
	s := r.current()
	return s == nil || time.Since(s.began) < retryPause
}

// swap stops the run that has the shadows, which normally has the live views and all others beside them, and puts the
// shadows in the place of the live views. All of them are at one place then, and go on from there together. It reports
// whether it did; where the sink fails the live views go on, and it tries again later.
func (s *swapper) swap(ctx context.Context, b *rebuild) (bool, error) {
	apart, err := s.composition.takeOut(ctx, b.views.without(b.run.views)) // they are in trouble, or lag
	if err != nil {
		return false, err
	}
	if err := s.composition.end(ctx, b.run); err != nil {
		return false, err
	}
	stood := b.run.progress.checkpoints()
	shadows := checkpointsOf(b.shadows, stood)
	rest := b.run.views.without(b.shadows)
	reached := passed(shadows, apart)
	if reached == nil {
		reached = s.cfg.Sink.(replicator.Shadower).Swap(ctx, s.cfg.Source.Name(), b.views)
	}
	if reached == nil {
		reached = s.takeOver(ctx, b.views)
	}
	if reached == nil {
		from := append(checkpointsOf(rest.without(b.views), stood), ofViews(b.views, shadows)...)
		err := s.composition.goOn(b.run, s.cfg.inOrder(append(rest.without(b.views), b.views...)), from)
		s.discard(ctx, b.views)
		return true, err
	}
	s.cfg.Log.Error("rebuilt views can't be swapped in yet", "sink", s.cfg.Name, "views", b.views.names(),
		"error", reached)
	return false, errors.Join(s.setBack(b, shadows, reached), s.composition.goOn(b.run, rest, stood),
		s.composition.launchAt(apart))
}

// discard removes what views held before they were swapped.
func (s *swapper) discard(ctx context.Context, views viewSet) {
	if err := s.cfg.Sink.(replicator.Shadower).Discard(ctx, views); err != nil {
		s.cfg.Log.Warn("what rebuilt views held before can't be removed", "sink", s.cfg.Name,
			"views", views.names(), "error", err)
	}
}

// passed fails where a view stood later in the log than its shadow: readers would see a step back.
func passed(shadows, live []replicator.Checkpoint) error {
	for _, c := range live {
		if shadows[0].Position.Order < c.Position.Order {
			return fmt.Errorf("the rebuilt view %s has not passed the place of the live one", c.View)
		}
	}
	return nil
}

// ofViews are the checkpoints of views whose shadows stood at others.
func ofViews(views viewSet, shadows []replicator.Checkpoint) []replicator.Checkpoint {
	at := slices.Clone(shadows)
	for i, v := range views {
		at[i].View = v.Name
	}
	return at
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
	if err := s.settled(ctx, done, moved); err != nil {
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

// settled ends the rebuild of views that turned out to have been swapped in. Those that run already, from where they
// stood before the swap, go on there: what they repeat is stale.
func (s *swapper) settled(ctx context.Context, views viewSet, shadows []replicator.Checkpoint) error {
	at := slices.DeleteFunc(ofViews(views, shadows), func(c replicator.Checkpoint) bool { return s.runOf(c.View) != nil })
	if err := s.takeOver(ctx, views); err != nil {
		return err
	}
	err := s.composition.launchAt(slices.DeleteFunc(at, s.stopped.move))
	s.discard(ctx, views)
	return err
}

// takeOver makes the dead letters of shadows those of their views. Where the views go on is saved by the session that
// goes on with them; until then the sink's marks tell.
func (s *swapper) takeOver(ctx context.Context, views viewSet) error {
	for _, v := range views {
		if err := inherit(ctx, s.cfg.Store, v); err != nil {
			return err
		}
	}
	for _, v := range views {
		s.stopped.setFailed(v.Name, nil)
	}
	return nil
}
