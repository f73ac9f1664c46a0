package mysql

import (
	"context"
	"database/sql"
)

// A view is fresh while the target that registered it fills it for the first time, into a table that was empty. Every
// row of a fresh view's table was written together with a state. So a cell without a state has no old rows to delete,
// and no entry can be an orphan. This saves two queries per key. If another program writes into the table meanwhile, a
// unique key refuses a row, which ends the freshness.

// startsFresh checks whether a view that was just registered is fresh. A view is not fresh if several shards of the
// source feed it, or if it is spread over shards: other targets add and remove its rows.
func (k *keeper) startsFresh(ctx context.Context, db *sql.DB, source string) error {
	if !k.fresh.Swap(false) || k.ledger || k.shardOn != nil || source != "" {
		return nil
	}
	empty, err := k.isEmpty(ctx, db)
	k.fresh.Store(empty)
	return err
}

// grown stops treating views as fresh (tables in which every row has a state). It reports whether any view was fresh.
func (t *Target) grown() (were bool) {
	for _, k := range t.kept {
		were = k.fresh.Swap(false) || were
	}
	return were
}
