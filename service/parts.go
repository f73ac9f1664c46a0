package service

import (
	"context"
	"crypto/rand"
	"errors"

	"replicator"
	"replicator/checkpoint"
	"replicator/config"
)

// Several processes that read a source in Kafka share one checkpoint store in MySQL. The store has a part for each sink
// and partition. A process locks the parts of the partitions that it reads. Other processes change the other parts at
// any time, so a request about all dead letters must read the whole store again.

// openPart opens one part of a checkpoint store in MySQL and locks it, so that no other process can open that part.
func openPart(ctx context.Context, cfg *config.Config, part string) (*checkpoint.MySQL, error) {
	return checkpoint.OpenMySQLPart(ctx, cfg.Checkpoint.DSN.Reveal(), cfg.Checkpoint.Table, part)
}

// sharedStore is a checkpoint store in MySQL that several processes write. The embedded Store counts and drops only the
// dead letters that existed when it was opened. So sharedStore has its own methods Count and Drop.
type sharedStore struct {
	replicator.Store
	cfg *config.Config
}

// openShared opens the whole store. It locks a part of its own, with a random name, because other processes have locked
// the existing parts.
func openShared(ctx context.Context, cfg *config.Config) (replicator.Store, error) {
	store, err := openPart(ctx, cfg, rand.Text())
	if err != nil {
		return nil, err
	}
	return sharedStore{store, cfg}, nil
}

func (s sharedStore) Count(ctx context.Context) (map[string]int, error) {
	return countLetters(ctx, s.cfg)
}

// Drop opens the store again to know the dead letters that other processes have saved meanwhile.
func (s sharedStore) Drop(ctx context.Context, ids []string) (int, error) {
	now, err := openPart(ctx, s.cfg, rand.Text())
	if err != nil {
		return 0, err
	}
	n, err := now.Drop(ctx, ids)
	return n, errors.Join(err, now.Close())
}
