package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"replicator"
	"replicator/checkpoint"
	"replicator/config"
	"replicator/server"
)

// openStore opens the checkpoint store for writing: it is then locked.
func openStore(ctx context.Context, cfg *config.Config) (replicator.Store, error) {
	c := cfg.Checkpoint
	if c.Store == "mysql" {
		return checkpoint.OpenMySQL(ctx, c.DSN.Reveal(), c.Table)
	}
	return checkpoint.OpenFile(c.Path)
}

// readStore opens it for reading, whether or not a process runs.
func readStore(ctx context.Context, cfg *config.Config) (checkpoint.Reader, error) {
	c := cfg.Checkpoint
	if c.Store == "mysql" {
		return checkpoint.ReadMySQL(ctx, c.DSN.Reveal(), c.Table)
	}
	return checkpoint.ReadFile(c.Path)
}

// readCheckpoints are the saved checkpoints; none if nothing ever ran.
func readCheckpoints(ctx context.Context, cfg *config.Config) ([]replicator.Checkpoint, error) {
	return read(ctx, cfg, func(r checkpoint.Reader) ([]replicator.Checkpoint, error) { return r.Checkpoints(ctx) })
}

// readLetters are the dead letters; none if nothing ever ran.
func readLetters(ctx context.Context, cfg *config.Config) ([]replicator.DeadLetter, error) {
	return read(ctx, cfg, func(r checkpoint.Reader) ([]replicator.DeadLetter, error) { return r.List(ctx, "") })
}

func read[T any](ctx context.Context, cfg *config.Config, what func(checkpoint.Reader) ([]T, error)) ([]T, error) {
	r, err := readStore(ctx, cfg)
	if errors.Is(err, checkpoint.ErrNoState) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all, err := what(r)
	return all, errors.Join(err, r.Close())
}

// choose are the dead letters that a selection names. An id that there is none of is an error.
func choose(letters []replicator.DeadLetter, which server.Selection) ([]replicator.DeadLetter, error) {
	for _, id := range which.IDs {
		if !slices.ContainsFunc(letters, func(l replicator.DeadLetter) bool { return l.ID == id }) {
			return nil, fmt.Errorf("there is no dead letter %q; `replicator deadletters list` shows them", id)
		}
	}
	return slices.DeleteFunc(letters, func(l replicator.DeadLetter) bool {
		return len(which.IDs) > 0 && !slices.Contains(which.IDs, l.ID) || which.View != "" && l.View != which.View
	}), nil
}
