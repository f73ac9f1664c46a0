package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"replicator"
	"replicator/config"
)

func runCommand(o *options) *cobra.Command {
	untilCaughtUp := false
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run all pipelines until SIGINT or SIGTERM",
		Long: `Runs all pipelines. Views without a checkpoint are filled first, while the tail goes on.
The first SIGINT or SIGTERM drains what is in flight and saves; a second one stops at once: nothing is lost by that,
the next run repeats a little. SIGHUP reads the configuration again: new views are filled, removed ones stop; a file that
can't be used changes nothing.`,
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
	// Held from here to the end: a SIGHUP that comes while the program changes from one configuration to the next must not kill it.
	reread := make(chan os.Signal, 1)
	signal.Notify(reread, syscall.SIGHUP)
	defer signal.Stop(reread)
	for {
		next, err := runOnce(stop, o, cfg, log, untilCaughtUp, reread)
		if err != nil || next == nil {
			return err
		}
		cfg = next
	}
}

// runOnce runs the pipelines of one configuration until stop is done (nil), or until a signal brings another one.
func runOnce(stop context.Context, o *options, cfg *config.Config, log *slog.Logger, untilCaughtUp bool, reread <-chan os.Signal) (*config.Config, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	a, err := newApp(ctx, cfg, log)
	if err != nil {
		return nil, err
	}
	serving, err := a.serveHTTP()
	if err != nil {
		return nil, errors.Join(err, a.close())
	}
	stop, stopNow := context.WithCancel(stop)
	defer stopNow()
	log.Info("running", "views", len(cfg.Views), "sinks", len(a.sinks), "http", cfg.HTTP.Listen)
	var caughtUp error
	var next *config.Config
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if next = a.reread(stop, o, reread); next != nil {
			stopNow()
		}
	})
	if a.rounds != nil {
		waiting.Go(func() { a.rounds.Run(stop) })
	}
	if untilCaughtUp {
		waiting.Go(func() {
			caughtUp = a.catchUp(stop)
			stopNow()
		})
	}
	err = a.run(ctx, stop)
	stopNow()
	waiting.Wait()
	serving.stop()
	if next != nil {
		caughtUp = nil // it was interrupted by the new configuration, whose run catches up
	}
	if err = errors.Join(err, caughtUp, a.close()); err == nil && next == nil {
		log.Info("stopped: all that was in flight is applied and saved")
	}
	return next, err
}

// reread waits for a signal, and returns the configuration that the file then holds, if it could run; else it says what is
// wrong with it, and waits on: the old one goes on. It returns nil once ctx is done.
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
			err = (&app{cfg: next, store: a.store}).refuseChanged(ctx, nil)
		}
		if err == nil {
			a.log.Info("the configuration was read again: going on with it", "file", next.File)
			return next
		}
		a.log.Error("the configuration that SIGHUP asked for can't be used: the old one goes on", "error", err)
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

// catchUp returns nil once every view includes all that was committed when it was called.
func (a *app) catchUp(ctx context.Context) error {
	fences := make([]string, len(a.pipelines))
	var err error
	for i, p := range a.pipelines {
		if fences[i], err = latest(ctx, p.Source); err != nil {
			break
		}
	}
	for i, p := range a.pipelines {
		if err == nil {
			if err = p.Wait(ctx, fences[i], nil); err != nil {
				err = fmt.Errorf("sink %s: %w", p.Name, err)
			}
		}
	}
	if err != nil && ctx.Err() != nil {
		return errors.New("stopped before every view had caught up")
	}
	return err
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
