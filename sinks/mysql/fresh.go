package mysql

import (
	"context"
	"database/sql"
)

// A view is fresh while it is filled for the first time, by the target that registered it, into a table that was empty
// then. Whatever the table holds was written with a state. So a cell without one has no old rows to delete, and nothing
// is unclaimed in the end: a fill would else ask the server about every key twice more. Who writes into the table by
// hand meanwhile is noticed by a unique key at the latest.

// startsFresh looks whether a view that was registered just now is fresh.
//
// Not so one that several shards of the source feed, or that is itself spread over shards: there rows come from others,
// and go.
func (k *keeper) startsFresh(ctx context.Context, db *sql.DB, source string) error {
	if !k.fresh.Swap(false) || k.ledger || k.shardOn != nil || source != "" {
		return nil
	}
	empty, err := k.isEmpty(ctx, db)
	k.fresh.Store(empty)
	return err
}

// grown makes views fresh no longer and reports whether one was.
func (t *Target) grown() (were bool) {
	for _, k := range t.kept {
		were = k.fresh.Swap(false) || were
	}
	return were
}
