package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"replicator"
)

// The marks and states of a view are in tables of their own, and stay where the view's own table is dropped and made
// again, or emptied: what they say was applied is then nowhere, and no cell that does not change would ever be written
// again. A table does not tell that it is another one (an ALTER that rebuilds it gives it a new id and a new time of
// creation, too). But it tells that it is empty, which is looked at whenever a view is opened.

// emptiedSample is how many cells' states are looked at where a table stands empty.
const emptiedSample = 1000

// refuseEmptied forgets a view whose table was filled and stands empty, though cells show rows in it, and says so: it
// begins as a view does that a sink lost. created says that the table was missing, and was made just now.
func (t *Target) refuseEmptied(ctx context.Context, k *keeper, created bool) error {
	if k.marked.Position.IsZero() {
		return nil
	}
	emptied, err := created, error(nil)
	if !created {
		emptied, err = t.emptied(ctx, k)
	}
	if err != nil {
		return classify(err, "looking whether its table was emptied")
	}
	if !emptied {
		return nil
	}
	if err := t.sink.Forget(ctx, k.view.Name); err != nil {
		return err
	}
	return replicator.OfView(fmt.Errorf("its table %s was dropped or emptied: %w", k.table,
		replicator.ErrSinkLost), k.view.Name)
}

// emptied reports whether a view's table is empty, though by what is remembered of its cells it can't be. It is asked
// twice, for another replicator may write its first row meanwhile. Of a view that shows one cell in thousands the sample
// may have none; groups of a counter are compared with their table, as sums may all be 0.
func (t *Target) emptied(ctx context.Context, k *keeper) (bool, error) {
	if empty, err := k.isEmpty(ctx, t.sink.db); err != nil || !empty {
		return false, err
	}
	missed := false
	if k.ledger {
		wrong, _, err := t.wrongSums(ctx, k, everyGroup())
		if err != nil {
			return false, err
		}
		missed = len(wrong) > 0
	} else {
		cells, _, err := t.cells(ctx, "", emptiedSample, func(state cellState) bool { return state.find(k.id).known().Shown })
		if err != nil {
			return false, err
		}
		missed = len(cells) > 0
	}
	if !missed {
		return false, nil
	}
	return k.isEmpty(ctx, t.sink.db)
}

// isEmpty reports whether a view's table has no row.
func (k *keeper) isEmpty(ctx context.Context, db *sql.DB) (bool, error) {
	var one int
	err := db.QueryRowContext(ctx, "SELECT 1 FROM "+k.table+" LIMIT 1").Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return true, nil
	}
	return false, err
}
