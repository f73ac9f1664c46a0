package pipeline

import (
	"context"
	"slices"
	"time"

	"replicator"
	"replicator/internal/remedy"
)

// supervisor starts a pipeline's views, begins and completes rebuilds, and decides which views share a log reader. Only
// the goroutine of Pipeline.Run uses it and its parts (composition, rebuilder, swapper, due).
type supervisor struct {
	*shared
	composition *composition
	rebuilder   *rebuilder
	swapper     *swapper
	due         *due

	unread   []*replicator.View // views that don't run until their positions in the sink can be read; at first all
	unreadAt time.Time
}

func newSupervisor(s *shared) *supervisor {
	c := &composition{shared: s}
	b := &rebuilder{shared: s, composition: c}
	return &supervisor{
		shared: s, composition: c, rebuilder: b, swapper: &swapper{shared: s, composition: c, rebuilder: b},
		due: &due{shared: s, rebuilder: b}, unread: slices.Clone(s.cfg.Views),
	}
}

// run runs until stop is done (then it drains and returns nil) or ctx is done (it returns at once).
func (s *supervisor) run(ctx, stop context.Context, asks <-chan ask) error {
	s.shown.start()
	defer s.news.tellAll()
	first, err := s.start(ctx, stop, asks)
	if err != nil || first == nil {
		return err
	}
	s.composition.lifetime = ctx
	if err = s.carryOut(first); err == nil {
		err = s.due.begin(ctx)
	}
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for err == nil {
		select {
		case <-tick.C:
			s.news.tell()
			err = s.tend(ctx)
		case ask := <-asks:
			ask.answer <- ask.do(ctx, s)
		case <-stop.Done():
			s.composition.stop()
			return nil
		case <-ctx.Done():
			s.composition.running.Wait()
			return context.Cause(ctx)
		}
	}
	s.composition.stop()
	return err
}

// start plans where each view continues, and retries until the sink and the source answer. It returns nil once stop is
// done. Between two attempts it answers requests, so they don't wait for the end of an outage.
func (s *supervisor) start(ctx, stop context.Context, asks <-chan ask) (*plan, error) {
	var retries retries
	var began time.Time // when the first attempt failed
	recalled := false
	for {
		if !recalled { // before planner.plan, which fails while the sink is down: the status shows the lag even then
			recalled = s.shown.recall(ctx, s.cfg) == nil // if the store fails, planner.plan returns the same error
		}
		first, err := s.planner.plan(ctx, s.cfg.Views)
		if err == nil {
			s.cfg.logRecovery(began, s.cfg.Views)
			s.stopped.setStarting(nil)
			return first, nil
		}
		if began.IsZero() {
			began = time.Now()
		}
		delay := retries.pause(err, ended{})
		err = remedy.Named(s.cfg.ofShard(err), viewSet(s.cfg.Views).words())
		s.stopped.setStarting(err)
		s.cfg.Log.Error("pipeline can't start yet", "sink", s.cfg.Name, "views", viewSet(s.cfg.Views).names(),
			"retry_in", delay.Round(time.Millisecond), "error", err)
		s.answer(ctx, stop, asks, delay)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case stop.Err() != nil:
			return nil, nil
		}
	}
}

func (s *supervisor) answer(ctx, stop context.Context, asks <-chan ask, during time.Duration) {
	over := time.After(during)
	for {
		select {
		case ask := <-asks:
			ask.answer <- ask.do(ctx, s)
		case <-over:
			return
		case <-stop.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

func (s *supervisor) carryOut(next *plan) error {
	for _, v := range next.views {
		s.stopped.setFailed(v.Name, next.failed[v.Name])
		goesOn := func(c replicator.Checkpoint) bool { return c.View == v.Name }
		if !slices.ContainsFunc(next.at, goesOn) && !slices.Contains(next.unread, v) {
			// The view has failed, or will be rebuilt. End its pause, because it has no position to resume from.
			s.stopped.resume(v.Name)
		}
	}
	if s.unread = next.unread; len(s.unread) > 0 {
		s.unreadAt = time.Now().Add(retryPause)
	}
	s.due.add(next.changed...)
	return s.composition.launchGrouped(slices.DeleteFunc(next.at, s.stopped.move))
}

// tend does whatever is due: it starts views whose positions in the sink can be read now, begins and swaps in rebuilds,
// and splits and joins runs.
func (s *supervisor) tend(ctx context.Context) error {
	if err := s.retryUnread(ctx); err != nil {
		return err
	}
	s.due.findRedefined(ctx)
	for _, do := range []func(context.Context) error{
		s.due.begin, s.swapper.finish, s.composition.part, s.composition.join,
	} {
		if err := do(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *supervisor) retryUnread(ctx context.Context) error {
	s.unread = slices.DeleteFunc(s.unread, func(v *replicator.View) bool {
		return s.rebuildOf(v.Name) != nil || s.runOf(v.Name) != nil
	})
	if len(s.unread) == 0 || time.Now().Before(s.unreadAt) {
		return nil
	}
	next, err := s.planner.plan(ctx, s.unread)
	if err != nil {
		s.unreadAt = time.Now().Add(retryPause)
		s.cfg.Log.Error("the saved positions of views can't be read yet", "sink", s.cfg.Name,
			"views", viewSet(s.unread).names(), "retry_in", retryPause, "error", err)
		return nil
	}
	return s.carryOut(next)
}

// retryPause is the time until a failed call to a sink or the store is tried again, if no session made the call.
const retryPause = 10 * time.Second
