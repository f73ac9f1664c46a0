package mysql

import (
	"context"
	"database/sql"
)

// A view is fresh while it is filled for the first time, into a table that was empty. Every row of the table then has a
// state, so a cell without a state has no old rows to delete. This saves two queries per key. If another program writes
// into the table, a unique key refuses a row, which ends the freshness.

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

// grown ends the assumption that every row of a table has a state (fresh.go). It reports whether it held for any view.
func (t *Target) grown() (were bool) {
	for _, k := range t.kept {
		were = k.fresh.Swap(false) || were
	}
	return were
}
