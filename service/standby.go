package service

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"replicator"
	"replicator/checkpoint"
	"replicator/config"
	"replicator/internal/pause"
	"replicator/server"
)

// hold locks the checkpoint store. For a store in MySQL, it waits as a standby while another process has the lock. At
// the start, it also waits for a MySQL server that is down. It returns a configuration only if a signal loads a new one
// meanwhile.
func (r *Runner) hold(stop context.Context, cfg *config.Config) (*config.Config, error) {
	if r.store.Store != nil && r.storeAt == placeOf(cfg) && !r.store.isLost() {
		return nil, nil // a reload keeps the store, so that no other process takes over
	}
	starting := r.store.Store == nil
	lost := r.store.isLost() // another process has taken the store
	err := r.release()
	if err == nil || lost {
		err = r.open(stop, cfg)
	}
	switch {
	case err == nil || stop.Err() != nil:
		return nil, nil
	case (lost || errors.Is(err, checkpoint.ErrLocked) || starting && unreached(err)) &&
		cfg.Checkpoint.Store == "mysql" && !r.UntilCaughtUp:
		return r.standBy(stop, cfg, err)
	}
	return nil, notStartedError{err}
}

func placeOf(cfg *config.Config) config.Checkpoint {
	place := cfg.Checkpoint
	place.Interval = 0
	return place
}

func (r *Runner) open(ctx context.Context, cfg *config.Config) (err error) {
	if r.store, err = hold(ctx, cfg); err != nil {
		return err
	}
	r.storeAt = placeOf(cfg)
	return nil
}

func (r *Runner) release() error {
	if r.store.Store == nil {
		return nil
	}
	err := r.store.Close()
	r.store = held{}
	return err
}

// standBy waits until the store is locked, or until a signal loads a new configuration, which it returns. `locking` is
// the error that prevents the lock now.
func (r *Runner) standBy(stop context.Context, cfg *config.Config, locking error) (next *config.Config, err error) {
	if err := r.listen(cfg.HTTP); err != nil {
		return nil, notStartedError{err}
	}
	r.Metrics.Views()
	r.Metrics.StandsBy()
	defer r.Metrics.Runs()
	s := &standby{cfg: cfg}
	r.front.enter(s)
	defer r.front.leave()
	waiting, end := context.WithCancel(stop)
	defer end()
	var reading sync.WaitGroup
	reading.Go(func() {
		if next = r.reread(waiting); next != nil {
			end()
		}
	})
	for err = locking; err != nil && waiting.Err() == nil; err = r.open(waiting, cfg) {
		if s.setReason(err) {
			r.Log.Info("standing by: " + s.reason())
		}
		if !errors.Is(err, checkpoint.ErrLocked) { // with ErrLocked, the store's server has already waited for the lock
			_ = pause.For(waiting, retakeEvery) // if the context `waiting` is done, the `for` loop ends
		}
	}
	end()
	reading.Wait()
	if err == nil && next == nil {
		r.Log.Info("taking over: the checkpoint store is free")
	}
	return next, nil
}

// retakeEvery is the interval at which a standby retries a store that doesn't answer.
const retakeEvery = 500 * time.Millisecond

// standby answers requests while this process waits to take over. It implements server.Controller.
type standby struct {
	cfg *config.Config

	mu  sync.Mutex
	why string
}

// setReason records why the process waits. It reports whether the reason is new.
func (s *standby) setReason(err error) (news bool) {
	why := "the checkpoint store can't be reached: " + err.Error()
	var locked *checkpoint.LockedError
	if errors.As(err, &locked) {
		why = fmt.Sprintf("another replicator runs and holds %s (%s)", locked.Store, locked.Holder)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	news = why != s.why
	s.why = why
	return news
}

func (s *standby) reason() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why
}

// Status shows the positions that the running process has saved. It lists views without a saved position, too.
func (s *standby) Status(ctx context.Context) ([]replicator.ViewStatus, error) {
	views, err := SavedStatus(ctx, s.cfg)
	if err != nil {
		views = idle(s.cfg)
	}
	for i := range views {
		v := &views[i]
		v.State, v.Error = replicator.StateStandby, s.reason()
		v.Definition = s.cfg.View(v.View).Fingerprint
	}
	return views, nil
}

func (s *standby) refused() error { return standingBy(s.reason()) }

func standingBy(reason string) error {
	return fmt.Errorf("%w: %s. Repeat this command or request at the process that runs", server.ErrStandby, reason)
}

// Wait waits until ctx is done. When this process takes over, Front cancels ctx, and repeats the request with the
// running service.
func (s *standby) Wait(ctx context.Context, _ server.Fence, _ []string) error {
	<-ctx.Done()
	return fmt.Errorf("%w; %w: %s", context.Cause(ctx), server.ErrStandby, s.reason())
}

func (s *standby) Retry(context.Context, server.Selection) (tried, left int, err error) {
	return 0, 0, s.refused()
}

func (s *standby) Drop(context.Context, server.Selection) (int, error) { return 0, s.refused() }

func (s *standby) Rebuild(context.Context, string, server.Rebuild) error { return s.refused() }

func (s *standby) Pause(context.Context, string) error { return s.refused() }

func (s *standby) Resume(context.Context, string) error { return s.refused() }

func (s *standby) Look(context.Context, string, string, []replicator.Cell) error { return s.refused() }

func (s *standby) LetterGroups(context.Context, string) ([]server.LetterGroup, error) {
	return nil, s.refused()
}

func (s *standby) Letter(context.Context, string) (replicator.DeadLetter, error) {
	return replicator.DeadLetter{}, s.refused()
}

// SourceStats returns nothing: a standby reads no source.
func (s *standby) SourceStats(context.Context) []server.SourceStats { return nil }
