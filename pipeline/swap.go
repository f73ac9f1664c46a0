package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"replicator"
)

// swapper completes rebuilds: it replaces the live views by shadows (their second copies) that have caught up, and
// finds out the outcome of a failed swap. Only the supervisor's goroutine uses it.
type swapper struct {
	*shared
	composition *composition
	rebuilder   *rebuilder
}

// finish completes rebuilds whose fill is complete. A rebuild in place then ends. A shadow (second copy of a view) that
// has caught up is swapped in.
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

func (s *swapper) finishOne(ctx context.Context, b *rebuild) (bool, error) {
	switch {
	case b.run.progress.current().Filling():
		return false, nil
	case len(b.shadows) == 0:
		return !b.run.isApart(), nil
	case b.unsettled != nil:
		return s.settle(ctx, b)
	case slices.ContainsFunc(b.views, s.stopped.isPaused):
		return false, nil // nothing is written to a paused view
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

// joins reports whether the swap must wait until the rebuild's run has joined another run. That is a run of live views
// that neither fills nor fails, and has caught up, is too young to tell, or has a view of the rebuild beside others.
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

// swap stops the run that has the shadows (second copies) and replaces the live views by them. It reports whether it
// swapped. If the sink fails, the live views continue, and the swap is tried again later.
func (s *swapper) swap(ctx context.Context, b *rebuild) (bool, error) {
	apart, err := s.composition.takeOut(ctx, b.views.without(b.run.views)) // live views that failed or lag run separately
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
	s.cfg.Log.Error("rebuilt views could not be swapped in. The swap is tried again", "sink", s.cfg.Name,
		"views", b.views.names(), "error", reached)
	return false, errors.Join(s.retryLater(b, shadows, reached), s.composition.goOn(b.run, rest, stood),
		s.composition.launchAt(apart))
}

func (s *swapper) discard(ctx context.Context, views viewSet) {
	if err := s.cfg.Sink.(replicator.Shadower).Discard(ctx, views); err != nil {
		s.cfg.Log.Warn("the former contents of rebuilt views could not be removed, and stay until the next rebuild",
			"sink", s.cfg.Name, "views", views.names(), "error", err)
	}
}

// passed fails if a live view has a later log position than its shadow, because readers would then see older rows
// again.
func passed(shadows, live []replicator.Checkpoint) error {
	for _, c := range live {
		if shadows[0].Position.Order < c.Position.Order {
			return fmt.Errorf("the rebuilt view %s has not reached the position of the live one", c.View)
		}
	}
	return nil
}

func ofViews(views viewSet, shadows []replicator.Checkpoint) []replicator.Checkpoint {
	at := slices.Clone(shadows)
	for i, v := range views {
		at[i].View = v.Name
	}
	return at
}

// retryLater keeps a rebuild whose swap failed, so that the swap is tried again. Views that the error names get
// rebuilds of their own, so that the other views need not wait for them. The sink may have swapped those other views
// anyway: `settle` finds that out.
func (s *swapper) retryLater(b *rebuild, shadows []replicator.Checkpoint, reason error) error {
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

func (s *swapper) prepare(b *rebuild, from []replicator.Checkpoint) (err error) {
	b.run, err = s.composition.newRun(b.shadows, from)
	return err
}

// settle finds out whether a swap that failed took effect anyway, and reports whether all views are swapped. A shadow
// (second copy of a view) without a mark in the sink was swapped in. It must not run again, because it would begin as a
// new, empty view.
func (s *swapper) settle(ctx context.Context, b *rebuild) (bool, error) {
	if time.Now().Before(b.settleAt) {
		return false, nil
	}
	b.settleAt = time.Now().Add(retryPause)
	known, err := s.planner.marks(ctx)
	if err != nil {
		s.cfg.Log.Error("the sink can't say yet whether it has swapped in rebuilt views. It is asked again",
			"sink", s.cfg.Name, "views", b.views.names(), "error", err)
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
		s.cfg.Log.Error("rebuilt views were swapped in, but saving this in the store failed. It is tried again",
			"sink", s.cfg.Name, "views", viewSet(done).names(), "error", err)
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

// settled ends the rebuild of views whose swap returned an error, although the sink had swapped the views. It launches
// only views that no run has. The other views kept their runs after the error. Those repeat changes that the new
// contents already include, which does no harm.
func (s *swapper) settled(ctx context.Context, views viewSet, shadows []replicator.Checkpoint) error {
	at := slices.DeleteFunc(ofViews(views, shadows), func(c replicator.Checkpoint) bool { return s.runOf(c.View) != nil })
	if err := s.takeOver(ctx, views); err != nil {
		return err
	}
	err := s.composition.launchAt(slices.DeleteFunc(at, s.stopped.move))
	s.discard(ctx, views)
	return err
}

// takeOver makes the dead letters of the swapped-in shadows (second copies) the views' own. It saves no checkpoints:
// the next session takes the positions from the sink.
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
