package service

import (
	"context"
	"errors"

	"replicator"
	"replicator/checkpoint"
	"replicator/config"
	"replicator/server"
)

func openStore(ctx context.Context, cfg *config.Config) (replicator.Store, error) {
	held, err := hold(ctx, cfg)
	return held.Store, err
}

// held is a checkpoint store that this process has locked for writing.
type held struct {
	replicator.Store
	lost <-chan struct{} // closed once another process has taken the store; nil: that can't happen
}

func (h held) isLost() bool {
	select {
	case <-h.lost:
		return true
	default:
		return false
	}
}

// hold opens the checkpoint store for writing and locks it.
func hold(ctx context.Context, cfg *config.Config) (held, error) {
	c := cfg.Checkpoint
	if c.Store != "mysql" {
		store, err := checkpoint.OpenFile(c.Path)
		if err != nil {
			return held{}, err
		}
		return held{Store: store}, nil
	}
	if cfg.Source.Kafka != nil {
		store, err := openShared(ctx, cfg)
		return held{Store: store}, err
	}
	store, err := checkpoint.OpenMySQL(ctx, c.DSN.Reveal(), c.Table)
	if err != nil {
		return held{}, err
	}
	return held{Store: store, lost: store.Lost()}, nil
}

// borrowed is a store whose Close does nothing, because the code that opened the store closes it.
type borrowed struct{ replicator.Store }

func (borrowed) Close() error { return nil }

// readStore opens the checkpoint store for reading, whether or not a process runs.
func readStore(ctx context.Context, cfg *config.Config) (checkpoint.Reader, error) {
	c := cfg.Checkpoint
	if c.Store == "mysql" {
		return checkpoint.ReadMySQL(ctx, c.DSN.Reveal(), c.Table)
	}
	return checkpoint.ReadFile(c.Path)
}

// storable returns an error if a run could not save checkpoints in the store. Some reasons show only in a run.
func storable(ctx context.Context, cfg *config.Config) error {
	if c := cfg.Checkpoint; c.Store == "mysql" {
		return checkpoint.UsableMySQL(ctx, c.DSN.Reveal(), c.Table)
	}
	return checkpoint.Usable(cfg.Checkpoint.Path)
}

// Checkpoints returns the saved checkpoints. Before the first run, it returns none.
func Checkpoints(ctx context.Context, cfg *config.Config) ([]replicator.Checkpoint, error) {
	return read(ctx, cfg, func(r checkpoint.Reader) ([]replicator.Checkpoint, error) { return r.Checkpoints(ctx) })
}

// EachLetter calls do with each dead letter of a view ("" for all views), whether or not a process runs. Before the
// first run, there are none.
func EachLetter(ctx context.Context, cfg *config.Config, view string, do func(replicator.DeadLetter) error) error {
	_, err := read(ctx, cfg, func(r checkpoint.Reader) (none struct{}, err error) {
		for l, err := range r.List(ctx, view) {
			if err == nil {
				err = do(l)
			}
			if err != nil {
				return none, err
			}
		}
		return none, nil
	})
	return err
}

func lettersByCell(ctx context.Context, cfg *config.Config, view string) (map[replicator.Cell][]server.Letter, error) {
	letters := map[replicator.Cell][]server.Letter{}
	return letters, EachLetter(ctx, cfg, view, func(l replicator.DeadLetter) error {
		letters[l.Cell] = append(letters[l.Cell], server.ShowLetter(l))
		return nil
	})
}

// Groups returns the dead letters of a view ("" for all views), grouped by their reason. A process may run at the same
// time.
func Groups(ctx context.Context, cfg *config.Config, view string) ([]server.LetterGroup, error) {
	stopped := errors.New("the caller stopped the iteration")
	return GroupLetters(func(yield func(replicator.DeadLetter, error) bool) {
		err := EachLetter(ctx, cfg, view, func(l replicator.DeadLetter) error {
			if !yield(l, nil) {
				return stopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, stopped) {
			yield(replicator.DeadLetter{}, err)
		}
	})
}

func countLetters(ctx context.Context, cfg *config.Config) (map[string]int, error) {
	return read(ctx, cfg, func(r checkpoint.Reader) (map[string]int, error) { return r.Count(ctx) })
}

// read opens the store for reading and returns the result of `get`. Before the first run, there is no store, and read
// returns a zero result.
func read[T any](ctx context.Context, cfg *config.Config, get func(checkpoint.Reader) (T, error)) (all T, err error) {
	r, err := readStore(ctx, cfg)
	if errors.Is(err, checkpoint.ErrNoState) {
		return all, nil
	}
	if err != nil {
		return all, err
	}
	all, err = get(r)
	return all, errors.Join(err, r.Close())
}
