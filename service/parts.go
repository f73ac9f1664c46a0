package service

import (
	"context"
	"crypto/rand"
	"errors"

	"replicator"
	"replicator/checkpoint"
	"replicator/config"
)

// A source in Kafka has several processes use one store: each has the parts of its partitions to itself, and what is
// asked of the whole is read anew each time.

// openPart opens of a store in MySQL what is one part's, which no other process has open then.
func openPart(ctx context.Context, cfg *config.Config, part string) (*checkpoint.MySQL, error) {
	return checkpoint.OpenMySQLPart(ctx, cfg.Checkpoint.DSN.Reveal(), cfg.Checkpoint.Table, part)
}

// shared is the whole of such a store.
type shared struct {
	replicator.Store
	cfg *config.Config
}

// openShared opens the whole: its part is nobody else's.
func openShared(ctx context.Context, cfg *config.Config) (replicator.Store, error) {
	store, err := openPart(ctx, cfg, rand.Text())
	if err != nil {
		return nil, err
	}
	return shared{store, cfg}, nil
}

// Count implements replicator.DeadLetters.
func (s shared) Count(ctx context.Context) (map[string]int, error) { return countLetters(ctx, s.cfg) }

// Drop implements replicator.DeadLetters: of letters that were buried since the store was opened it must be asked anew.
func (s shared) Drop(ctx context.Context, ids []string) (int, error) {
	now, err := openPart(ctx, s.cfg, rand.Text())
	if err != nil {
		return 0, err
	}
	n, err := now.Drop(ctx, ids)
	return n, errors.Join(err, now.Close())
}
