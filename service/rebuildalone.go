package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"replicator"
	"replicator/config"
	"replicator/pipeline"
	"replicator/server"
)

// rebuildAlone runs the pipelines in this process until the rebuild is done. It opens only the sinks of the named
// views, because other sinks may be down.
func rebuildAlone(ctx context.Context, setup Setup, names []string, how server.Rebuild, show Display) error {
	setup.Config = sinksOf(setup.Config, names)
	s, err := New(ctx, setup, nil)
	if err != nil {
		return err
	}
	if err := s.checkFrom(ctx, names, how.From); err != nil {
		return errors.Join(err, s.Close())
	}
	hangUp := s.listen()
	stop, stopNow := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- s.Run(context.WithoutCancel(ctx), stop) }()
	err = s.beginRebuild(ctx, names, how)
	if errors.Is(err, replicator.ErrRebuilding) {
		show.Say("an interrupted rebuild continues where it stopped. " +
			"If the view's tables in the sink were changed by hand since then, rebuild again")
		err = rebuildOthers(ctx, s, names, how)
	}
	if err == nil {
		err = follow(ctx, show, names, s.Status)
	}
	if err == nil {
		err = s.CatchUp(ctx, names...)
	}
	if err == nil {
		err = s.followOthers(ctx, show)
	}
	stopNow()
	ended := <-done
	hangUp()
	return errors.Join(err, ended, s.Close())
}

// followOthers waits for the rebuilds that other commands have requested from this process.
func (s *Service) followOthers(ctx context.Context, show Display) error {
	views, err := s.Status(ctx)
	var others []string
	for _, v := range views {
		if v.State == replicator.StateRebuilding {
			others = append(others, v.View)
		}
	}
	if err != nil || len(others) == 0 {
		return err
	}
	return follow(ctx, show, others, s.Status)
}

// listen serves HTTP like a running process, so that a second command for the same rebuild can show its progress.
// hangUp stops the server. If the address is in use, the rebuild runs without HTTP.
func (s *Service) listen() (hangUp func()) {
	as := s.Config.HTTP
	if as.Listen == "" {
		return func() {}
	}
	h, err := server.Listen(as.Listen, as.Token.Reveal(), s, s.metrics)
	if err != nil {
		s.Log.Warn("can't serve the rebuild's status over HTTP", "error", err)
		return func() {}
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_ = h.Close(ctx) // ignore the error, which only says that running requests were cut off
	}
}

func sinksOf(cfg *config.Config, names []string) *config.Config {
	some := *cfg
	some.Sinks = slices.DeleteFunc(slices.Clone(cfg.Sinks), func(s config.Sink) bool {
		return !slices.ContainsFunc(names, func(name string) bool { return cfg.View(name).Sink == s.Name })
	})
	return &some
}

// beginRebuild starts a rebuild as soon as the pipelines can start it. If they can't within rebuildPatience, it returns
// the error that the views report, such as a sink that is down.
func (s *Service) beginRebuild(ctx context.Context, names []string, how server.Rebuild) error {
	patient, cancel := context.WithTimeout(ctx, rebuildPatience)
	defer cancel()
	err := s.rebuild(patient, names, how, onceStarted)
	if patient.Err() == nil || ctx.Err() != nil {
		return err
	}
	return s.whatIsWrong(ctx, names, err)
}

func onceStarted(l line, ctx context.Context, names []string, mode pipeline.RebuildMode, from string) error {
	return onceServing(ctx, func() error { return l.Rebuild(ctx, names, mode, from) })
}

// whatIsWrong explains a timeout: it returns the error that one of the views reports, or err if none has one.
func (s *Service) whatIsWrong(ctx context.Context, names []string, err error) error {
	views, statusErr := s.Status(ctx)
	for _, v := range views {
		if slices.Contains(names, v.View) && v.Error != "" {
			return fmt.Errorf("view %s: %s", v.View, v.Error)
		}
	}
	return errors.Join(err, statusErr)
}
