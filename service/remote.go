package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"replicator"
	"replicator/checkpoint"
	"replicator/config"
	"replicator/internal/human"
	"replicator/internal/pause"
	"replicator/server"
)

// Client returns a client for the running process.
func Client(cfg *config.Config) server.Client {
	return server.Client{Address: cfg.HTTP.Listen, Token: cfg.HTTP.Token.Reveal()}
}

// SavedStatus returns the views' status from the store. It is for use while no process runs.
func SavedStatus(ctx context.Context, cfg *config.Config) ([]replicator.ViewStatus, error) {
	saved, err := Checkpoints(ctx, cfg)
	if err != nil {
		return nil, err
	}
	counts, err := countLetters(ctx, cfg)
	if err != nil {
		return nil, err
	}
	views := idle(cfg)
	for i := range views {
		v := &views[i]
		v.DeadLetters = counts[v.View]
		for _, c := range saved {
			if c.View == v.View && c.Source == v.Source {
				v.Applied = c.Position
				v.Position, _ = Place(c.Position)
			}
		}
	}
	return views, nil
}

// Stopped returns an error that says that no process runs, and when a process last saved its checkpoints. The error
// wraps the parameter `why`, the error of a request to the process.
func Stopped(ctx context.Context, cfg *config.Config, why error) error {
	last, err := lastSave(ctx, cfg)
	switch {
	case err != nil:
		return errors.Join(why, err)
	case last.IsZero():
		return fmt.Errorf("%w, and has saved nothing yet. `replicator run` starts it", why)
	}
	return fmt.Errorf("%w: nothing was saved since %s (%s ago). `replicator run` starts it", why,
		last.UTC().Format("2006-01-02 15:04:05 UTC"), human.Duration(time.Since(last)))
}

// lastSave returns when a process last saved its checkpoints; zero if never. A store in MySQL doesn't record that time,
// so lastSave returns the time up to which the views were complete.
func lastSave(ctx context.Context, cfg *config.Config) (last time.Time, err error) {
	if cfg.Checkpoint.Store != "mysql" {
		return checkpoint.SavedAt(cfg.Checkpoint.Path)
	}
	saved, err := Checkpoints(ctx, cfg)
	for _, c := range saved {
		if c.Shown.After(last) {
			last = c.Shown
		}
	}
	return last, err
}

// idle returns the status of views while no process keeps them up to date.
func idle(cfg *config.Config) (views []replicator.ViewStatus) {
	for _, v := range cfg.Views {
		for _, shard := range cfg.Source.Shards {
			views = append(views, replicator.ViewStatus{View: v.Name, Sink: v.Sink, Source: shard.Name, Kind: v.Kind,
				State: "stopped"})
		}
	}
	return views
}

// Wait waits until the running process has reached a log position, the fence. If the process has not loaded the file's
// definition of one of the views yet, Wait waits for the reload, too.
func Wait(ctx context.Context, cfg *config.Config, fence server.Fence, views []string,
	timeout time.Duration) error {
	c := Client(cfg)
	for deadline := time.Now().Add(timeout); ; {
		err := runsAsWritten(ctx, c, cfg, views)
		if err == nil {
			err = c.Wait(ctx, fence, views, max(time.Until(deadline), time.Millisecond))
		}
		if !errors.Is(err, server.ErrUnknown) || time.Now().After(deadline) {
			return err
		}
		if err := pause.For(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// runsAsWritten returns an error if the running process has a different definition of a view than the file has. The
// error wraps server.ErrUnknown.
func runsAsWritten(ctx context.Context, c server.Client, cfg *config.Config, views []string) error {
	if len(views) == 0 || cfg.Partial { // a partly loaded configuration may lack parts of the views' definitions
		return nil
	}
	running, err := c.Status(ctx)
	if err != nil {
		return err
	}
	for _, v := range running {
		if slices.Contains(views, v.View) && !replicator.SameDefinition(v.Definition, cfg.View(v.View).Fingerprint) {
			return fmt.Errorf("%[2]w: the running process has a different definition of view %[1]q than the "+
				"configuration file", v.View, server.ErrUnknown)
		}
	}
	return nil
}
