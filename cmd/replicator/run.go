package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"replicator"
	"replicator/config"
	"replicator/pipeline"
	"replicator/server"
)

func runCommand(o *options) *cobra.Command {
	untilCaughtUp := false
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run all pipelines until SIGINT or SIGTERM",
		Long: `Runs all pipelines. Views without a checkpoint are filled first, while the tail goes on. A view that can't run fails alone, as
status shows, and the others go on; with --until-caught-up the exit status is then 1, once the others have caught up.
The first SIGINT or SIGTERM drains what is in flight and saves. A second one stops at once: nothing is lost, and the next run
repeats a little. SIGHUP reloads the configuration: new views are filled, removed ones stop, and a file that can't be used
changes nothing. A view whose definition changed is rebuilt or refused, alone, as at a start (replicator plan says
beforehand). Requests to the program wait a moment longer meanwhile.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), o, untilCaughtUp) },
	}
	cmd.Flags().BoolVar(&untilCaughtUp, "until-caught-up", false, "exit 0 once every view includes all that was committed when the command started")
	return cmd
}

// run runs the pipelines until stop is done. A SIGHUP makes it go on with the file as it is then.
func run(stop context.Context, o *options, untilCaughtUp bool) error {
	cfg, err := o.load()
	if err != nil {
		return err
	}
	log, err := o.logger()
	if err != nil {
		return err
	}
	// Held from here to the end: a SIGHUP that comes while the program changes from one configuration to the next must not
	// kill it.
	reread := make(chan os.Signal, 1)
	signal.Notify(reread, syscall.SIGHUP)
	defer signal.Stop(reread)
	r := &runner{options: o, log: log, reread: reread, metrics: server.NewMetrics(), front: newFront()}
	r.metrics.Sources(r.front.sourceStats)
	r.metrics.Build(version, revision())
	r.metrics.Loaded()
	defer r.hangUp()
	var old *config.Config
	for {
		next, err := r.run(stop, cfg, untilCaughtUp)
		var unusable notStartedError
		switch {
		case errors.As(err, &unusable) && old != nil:
			log.Error("the reloaded configuration can't be used: the old one goes on", "error", err)
			r.metrics.NotLoaded()
			cfg, old = old, nil
		case err != nil || next == nil:
			return err
		default:
			cfg, old = next, cfg
		}
	}
}

// runner runs the program, with one configuration after another. What stays the same from one to the next is here.
type runner struct {
	options *options
	log     *slog.Logger
	reread  <-chan os.Signal
	metrics *server.Metrics
	front   *front
	http    config.HTTP
	server  *server.Server // nil: off
}

// notStartedError: nothing was started with a configuration.
type notStartedError struct{ error }

func (e notStartedError) Unwrap() error { return e.error }

// start makes what runs with a configuration, and lets it be asked.
func (r *runner) start(ctx context.Context, cfg *config.Config) (*app, error) {
	a, err := newApp(ctx, cfg, r.log, r.metrics)
	if err != nil {
		return nil, notStartedError{err}
	}
	if err := r.listen(cfg.HTTP); err != nil {
		return nil, notStartedError{errors.Join(err, a.close())}
	}
	r.metrics.Views(cfg.Views...)
	r.front.enter(a)
	return a, nil
}

// run runs the pipelines of one configuration until stop is done (nil), or until a signal brings another one.
func (r *runner) run(stop context.Context, cfg *config.Config, untilCaughtUp bool) (*config.Config, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	a, err := r.start(ctx, cfg)
	if err != nil {
		return nil, err
	}
	stop, stopNow := context.WithCancel(stop)
	defer stopNow()
	r.log.Info("running", "views", len(cfg.Views), "sinks", len(a.sinks), "http", cfg.HTTP.Listen)
	var caughtUp error
	var next *config.Config
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if next = a.reread(stop, r.options, r.reread); next != nil {
			stopNow()
		}
	})
	if a.rounds != nil {
		waiting.Go(func() { a.rounds.Run(stop) })
	}
	waiting.Go(func() { (&comparisons{app: a, open: map[comparison]*comparing{}}).run(stop) })
	if untilCaughtUp {
		waiting.Go(func() {
			if caughtUp = a.catchUp(stop); caughtUp == nil {
				caughtUp = a.compared(stop)
			}
			stopNow()
		})
	}
	err = a.run(ctx, stop)
	stopNow()
	waiting.Wait()
	if next != nil {
		caughtUp = nil // it was interrupted by the new configuration, whose run catches up
	} else {
		r.hangUp()
	}
	r.front.leave()
	if err = errors.Join(err, caughtUp, a.close()); err == nil && next == nil {
		r.log.Info("stopped: all that was in flight is applied and saved")
	}
	return next, err
}

// listen serves HTTP as configured. A server that is as it should be goes on: who asks it notices nothing.
func (r *runner) listen(as config.HTTP) (err error) {
	if r.server != nil && r.http == as {
		return nil
	}
	r.hangUp()
	if as.Listen != "" {
		r.server, err = server.Listen(as.Listen, as.Token.Reveal(), r.front, r.metrics)
	}
	r.http = as
	return err
}

// hangUp ends the HTTP server, if there is one.
func (r *runner) hangUp() {
	if r.server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = r.server.Close(ctx) // what is still under way is cut off
	r.server = nil
}

// reread waits for a signal, and returns the configuration that the file then holds, if it could run; else it says what
// is wrong with it, and waits on: the old one goes on. It returns nil once ctx is done.
func (a *app) reread(ctx context.Context, o *options, signals <-chan os.Signal) *config.Config {
	for {
		select {
		case <-signals:
		case <-ctx.Done():
			return nil
		}
		next, err := o.load()
		if err == nil {
			err = fingerprint(next)
		}
		if err == nil {
			a.metrics.Loaded()
			a.log.Info("configuration reloaded", "file", next.File)
			return next
		}
		a.metrics.NotLoaded()
		a.log.Error("the reloaded configuration can't be used: the old one goes on", "error", err)
	}
}

// run runs every pipeline until stop is done and each has drained.
func (a *app) run(ctx, stop context.Context) error {
	errs := make([]error, len(a.pipelines))
	var wg sync.WaitGroup
	for i, p := range a.pipelines {
		wg.Go(func() { errs[i] = p.Run(ctx, stop) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// catchUp returns nil once the named views (all, if none is named) include all that was committed when it was called. A
// view that has failed is an error, once the others include it.
func (a *app) catchUp(ctx context.Context, views ...string) error {
	type fence struct {
		pipeline *pipeline.Pipeline
		at       string
		views    []string
	}
	var fences []fence
	for _, p := range a.pipelines {
		f := fence{pipeline: p}
		for _, v := range p.Views {
			if len(views) == 0 || slices.Contains(views, v.Name) {
				f.views = append(f.views, v.Name)
			}
		}
		if len(f.views) == 0 {
			continue
		}
		var err error
		if f.at, err = latest(ctx, p.Source); err != nil && ctx.Err() == nil {
			return fmt.Errorf("source%s: asking for its position: %w; `replicator check` says what is missing", inShard(p.Source), err)
		}
		fences = append(fences, f)
	}
	var failed []string
	for _, f := range fences {
		for _, v := range f.views {
			if err := f.pipeline.Wait(ctx, f.at, []string{v}); err != nil {
				failed = append(failed, fmt.Sprintf("sink %s%s: %v", f.pipeline.Name, inShard(f.pipeline.Source), err))
			}
		}
	}
	switch {
	case ctx.Err() != nil:
		return errors.New("stopped before every view had caught up")
	case len(failed) > 0: // what concerns all views of a sink is said once
		return errors.New(strings.Join(slices.Compact(failed), "\n"))
	}
	return nil
}

// latest is the fence of all that is committed at a source now. It tries until the source answers.
func latest(ctx context.Context, s replicator.Source) (string, error) {
	for {
		at, err := s.Latest(ctx, nil)
		if err == nil {
			fence, _ := place(at)
			return fence, nil
		}
		if replicator.IsFatal(err) {
			return "", err
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}
