package service

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"replicator/checkpoint"
	"replicator/config"
	"replicator/internal/remedy"
	"replicator/server"
)

// Runner runs one configuration after another. The HTTP server stays up as long as its settings don't change.
type Runner struct {
	Setup   // Setup.Config is the first configuration
	Metrics *server.Metrics

	// Reread signals that Load must load the configuration again. An invalid configuration changes nothing.
	Reread <-chan os.Signal
	Load   func() (*config.Config, error)

	// UntilCaughtUp ends the run once every view includes everything that was committed when the run began.
	UntilCaughtUp bool

	front   *Front
	store   held // the locked store; store.Store is nil while another process has it locked
	storeAt config.Checkpoint
	http    config.HTTP
	server  *server.Server // nil: HTTP is off
}

// Run runs the pipelines until the context `stop` is done. Then it drains the pipelines: they apply the changes that
// they have already read.
func (r *Runner) Run(stop context.Context) (err error) {
	r.front = NewFront()
	r.front.remedies = remedy.File(r.Config.Path)
	r.Metrics.Sources(r.front.SourceStats)
	r.Metrics.Loaded()
	defer r.hangUp()
	defer func() { err = errors.Join(err, r.release()) }()
	cfg, old := r.Config, (*config.Config)(nil)
	for {
		next, err := r.run(stop, cfg)
		var unusable notStartedError
		switch {
		case errors.As(err, &unusable) && old != nil:
			r.Log.Error("the reloaded configuration can't be used. The old one stays in use", "error", err)
			r.Metrics.NotLoaded()
			cfg, old = old, nil
		case err != nil || next == nil:
			return err
		case next == cfg: // another process took the store
			old = nil
		default:
			cfg, old = next, cfg
		}
	}
}

// notStartedError says why a configuration can't be used. No pipeline was started with it.
type notStartedError struct{ error }

func (e notStartedError) Unwrap() error { return e.error }

func (r *Runner) start(cfg *config.Config) (*Service, error) {
	setup := r.Setup
	setup.Config = cfg
	s, err := newOn(borrowed{r.store}, setup, r.Metrics)
	if err != nil {
		return nil, notStartedError{err}
	}
	if err := r.listen(cfg.HTTP); err != nil {
		return nil, notStartedError{errors.Join(err, s.Close())}
	}
	r.Metrics.Views(cfg.Views...)
	r.front.enter(s)
	return s, nil
}

// run runs the pipelines of one configuration until stop is done or a signal brings a new configuration. It returns the
// next configuration to run, or nil if stop is done. If another process took the store, it returns cfg again.
func (r *Runner) run(stop context.Context, cfg *config.Config) (*config.Config, error) {
	if err := Define(cfg); err != nil {
		return nil, notStartedError{err}
	}
	if next, err := r.hold(stop, cfg); next != nil || err != nil {
		return next, err
	}
	if r.store.Store == nil {
		r.Log.Info("stopped before views were started")
		return nil, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s, err := r.start(cfg)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(stop, r.stopping())()
	stop, stopNow := context.WithCancel(stop)
	defer stopNow()
	r.Log.Info("running", "views", len(cfg.Views), "sinks", len(s.sinks), "http", cfg.HTTP.Listen)
	if err := r.sayBeginnings(stop, cfg); err != nil {
		r.Log.Warn("can't read the positions where the views continue", "error", err)
	}
	var caughtUp error
	var next *config.Config
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if next = r.reread(stop); next != nil {
			stopNow()
		}
	})
	lost := false
	waiting.Go(func() {
		select {
		case <-r.store.lost:
			lost = true
			cancel() // end at once: the process that took the store applies the changes in flight
		case <-stop.Done():
		}
	})
	waiting.Go(func() { s.comparisons().run(stop) })
	if r.UntilCaughtUp {
		waiting.Go(func() {
			caughtUp = s.CatchUp(stop)
			stopNow()
		})
	}
	err = s.Run(ctx, stop)
	stopNow()
	waiting.Wait()
	if lost {
		r.Log.Warn("another process has taken the checkpoint store and runs the views. This process has stopped them")
		if next == nil && !r.UntilCaughtUp {
			next, err = cfg, nil
		} else if next == nil {
			err = errors.Join(err, checkpoint.ErrLocked)
		}
	}
	if next != nil {
		caughtUp = nil // the new configuration interrupted CatchUp; the next run calls it again
	} else {
		r.hangUp()
	}
	r.front.leave()
	if r.before = s.handOn(); lost { // another process runs the views now, so this process's state of them is outdated
		r.before = nil
	}
	if r.UntilCaughtUp && next == nil && !lost {
		err = errors.Join(err, r.sayLetters(context.Background(), cfg))
	}
	left := s.undrained()
	switch err = errors.Join(err, caughtUp, s.Close()); {
	case err != nil || next != nil:
	case len(left) > 0:
		r.Log.Warn("stopped before all changes in flight were applied. The next start applies them", "views", left)
	default:
		r.Log.Info("stopped: all changes in flight are applied and saved")
	}
	return next, err
}

// stopping returns a function that logs that the program is stopping, and makes /readyz fail.
func (r *Runner) stopping() func() {
	serving := r.server // a copy, because r.server may belong to another run later
	return func() {
		r.Log.Info("stopping: changes in flight are applied and saved first. A second signal ends the program at once")
		if serving != nil {
			serving.Stopping()
		}
	}
}

// listen starts an HTTP server if the settings have changed. The old server stops only once the new one listens, unless
// both use the same port.
func (r *Runner) listen(as config.HTTP) error {
	if r.server != nil && r.http == as {
		return nil
	}
	_, before, _ := net.SplitHostPort(r.http.Listen)
	if _, port, _ := net.SplitHostPort(as.Listen); port == before {
		r.hangUp() // two servers can't listen on one port, even if only one of the addresses has a host
	}
	var next *server.Server
	if as.Listen != "" {
		var err error
		if next, err = server.Listen(as.Listen, as.Token.Reveal(), r.front, r.Metrics); err != nil {
			return err
		}
	}
	r.hangUp()
	r.server, r.http = next, as
	return nil
}

func (r *Runner) hangUp() {
	if r.server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = r.server.Close(ctx) // ignore the error, which only says that running requests were cut off
	r.server = nil
}

// reread waits for a signal and returns the reloaded configuration, or nil once ctx is done. If the file is invalid,
// the old configuration stays in use, and reread waits for the next signal.
func (r *Runner) reread(ctx context.Context) *config.Config {
	for {
		select {
		case <-r.Reread:
		case <-ctx.Done():
			return nil
		}
		next, err := r.Load()
		if err == nil {
			err = Define(next)
		}
		if err == nil {
			r.Metrics.Loaded()
			r.Log.Info("configuration reloaded", "file", next.File)
			return next
		}
		r.Metrics.NotLoaded()
		r.Log.Error("the reloaded configuration can't be used. The old one stays in use", "error", err)
	}
}
