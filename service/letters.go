package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"replicator"
	"replicator/config"
	"replicator/server"
)

// Missing returns an error if one of the dead letter ids was not found. The error wraps server.ErrUnknown.
func Missing(ids []string, found map[string]bool) error {
	for _, id := range ids {
		if !found[id] {
			return fmt.Errorf("dead letter %q: %w. `replicator deadletters list` shows all", id, server.ErrUnknown)
		}
	}
	return nil
}

// mayHaveLetters returns an error if the view is not configured and has no dead letters from an earlier configuration.
func (s *Service) mayHaveLetters(ctx context.Context, view string) error {
	if view == "" || s.Config.View(view) != nil {
		return nil
	}
	counts, err := s.store.Count(ctx)
	if err == nil && counts[view] == 0 {
		err = fmt.Errorf("view %q: %w in this configuration", view, server.ErrUnknown)
	}
	return err
}

func drop(ctx context.Context, store replicator.Store, which server.Selection) (int, error) {
	var ids []string
	if err := selected(ctx, store, which, func(l replicator.DeadLetter) { ids = append(ids, l.ID) }); err != nil {
		return 0, err
	}
	return store.Drop(ctx, ids)
}

// selected calls the function `do` with each dead letter of a store that the Selection selects. If the Selection has an
// unknown id, selected returns an error after it has called `do` for the other ids.
func selected(ctx context.Context, store replicator.DeadLetters, which server.Selection,
	do func(replicator.DeadLetter)) error {
	named := map[string]bool{}
	for _, id := range which.IDs {
		named[id] = true
	}
	found := map[string]bool{}
	for l, err := range store.List(ctx, which.View) {
		if err != nil {
			return err
		}
		if len(named) > 0 && !named[l.ID] || which.Group != "" && which.Group != GroupLetter(l) {
			continue
		}
		if len(named) > 0 {
			found[l.ID] = true
		}
		do(l)
	}
	return Missing(which.IDs, found)
}

// Drop removes dead letters from the store. If a process runs, that process does it.
func Drop(ctx context.Context, cfg *config.Config, which server.Selection) (int, error) {
	n, err := Client(cfg).Drop(ctx, which)
	if !errors.Is(err, server.ErrNotRunning) {
		return n, err
	}
	store, err := openStore(ctx, cfg)
	if err != nil {
		return 0, err
	}
	n, err = drop(ctx, store, which)
	return n, errors.Join(err, store.Close())
}

// Retry retries dead letters in the running process. If no process runs, Retry runs the pipelines itself until the
// letters have been retried.
func Retry(ctx context.Context, setup Setup, which server.Selection) (tried, left int, err error) {
	tried, left, err = Client(setup.Config).Retry(ctx, which)
	if !errors.Is(err, server.ErrNotRunning) {
		return tried, left, err
	}
	views, err := viewsOfLetters(ctx, setup.Config, which)
	if err != nil {
		return 0, 0, err
	}
	setup.Config = sinksOf(setup.Config, views) // omit the sinks of other views, because they may be down
	s, err := New(ctx, setup, nil)
	if err != nil {
		return 0, 0, err
	}
	stop, stopNow := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, stop) }()
	if len(views) > 0 {
		err = s.catchUpOrSay(ctx, views)
	}
	if err == nil {
		tried, left, err = s.Retry(ctx, which)
	}
	stopNow()
	return tried, left, errors.Join(err, <-done, s.Close())
}

// viewsOfLetters returns the configured views that may have dead letters which the Selection selects. It ignores the
// Selection's Group, so some of these views may have none.
func viewsOfLetters(ctx context.Context, cfg *config.Config, which server.Selection) (views []string, err error) {
	err = EachLetter(ctx, cfg, which.View, func(l replicator.DeadLetter) error {
		wanted := len(which.IDs) == 0 || slices.Contains(which.IDs, l.ID)
		if wanted && cfg.View(l.View) != nil && !slices.Contains(views, l.View) {
			views = append(views, l.View)
		}
		return nil
	})
	return views, err
}

func (s *Service) catchUpOrSay(ctx context.Context, views []string) error {
	return doOrSay(ctx, views, s.Status, func(ctx context.Context) error { return s.CatchUp(ctx, views...) })
}

// doOrSay runs do, which needs running views, and returns its result. If the views have errors for some time, doOrSay
// cancels do and returns the reason.
func doOrSay(ctx context.Context, views []string, status func(context.Context) ([]replicator.ViewStatus, error),
	do func(context.Context) error) error {
	wait, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- do(wait) }()
	var trouble time.Time
	for {
		select {
		case err := <-done:
			return err
		case <-time.After(200 * time.Millisecond):
		}
		now, err := status(ctx)
		at := progressOf(now, views)
		switch {
		case err == nil && at.problem == "":
			trouble = time.Time{}
		case trouble.IsZero():
			trouble = time.Now()
		case time.Since(trouble) > at.patience:
			cancel()
			<-done
			if err == nil {
				err = errors.New(at.problem)
			}
			return err
		}
	}
}
