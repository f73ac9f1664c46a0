package mysql

import (
	"context"
	"database/sql"
)

// A view is fresh while it is filled for the first time, into a table that was empty. Every row of the table then has a
// state, so a cell without a state has no old rows to delete. This saves two queries per key. The view is no longer
// fresh when the fill has ended, or when the server refuses a row: another program may have written a row with the same
// key.

// startsFresh decides whether a newly registered view is fresh (each row of its table has a state): its table is empty,
// and no other source or shard writes to it.
func (k *keeper) startsFresh(ctx context.Context, db *sql.DB, source string) error {
	if !k.fresh.Swap(false) || k.ledger || k.shardOn != nil || source != "" {
		return nil
	}
	empty, err := k.isEmpty(ctx, db)
	k.fresh.Store(empty)
	return err
}

// endFreshness makes all views of the target no longer fresh. It reports whether any was fresh.
func (t *Target) endFreshness() (wasFresh bool) {
	for _, k := range t.kept {
		wasFresh = k.fresh.Swap(false) || wasFresh
	}
	return wasFresh
}
