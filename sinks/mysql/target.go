package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"sync"

	"replicator"
)

// Target is some views of one source, open. It is safe for concurrent use.
type Target struct {
	sink   *Sink
	source string
	views  []*replicator.View
	kept   []*keeper // the views, in their order
	shared bool      // some view is fed by several cells of one key
	server *server
	epoch  int64 // of the sink, when the target was opened: see shadow.go

	retired map[uint32]bool // ids of views that are no more

	mu     sync.Mutex
	marked []int64 // by view: the highest mark that this target saw or made
}

var _ replicator.Target = (*Target)(nil)

// salt makes a view's digests its own.
type salt = []byte

// Views implements replicator.Target.
func (t *Target) Views() []*replicator.View { return t.views }

// Close implements replicator.Target. A target holds no connection of its own.
func (t *Target) Close() error { return nil }

// Versions implements replicator.Target.
func (t *Target) Versions(ctx context.Context, cells []replicator.Cell) ([]int64, error) {
	versions, err := t.versions(ctx, cells, func(replicator.Cell, *keeper) bool { return true })
	return known(versions), err
}

// noView is higher than any version: that of a cell that feeds no view.
const noView int64 = math.MaxInt64

// known makes NoVersion of the versions of cells that feed no view.
func known(versions []int64) []int64 {
	for i, v := range versions {
		if v == noView {
			versions[i] = replicator.NoVersion
		}
	}
	return versions
}

// versions returns the version that each cell stands at, the lowest over the views that it feeds and that count.
func (t *Target) versions(ctx context.Context, cells []replicator.Cell, counts func(replicator.Cell, *keeper) bool) ([]int64, error) {
	entities := make([]string, len(cells))
	for i, c := range cells {
		entities[i] = entityID(t.source, c.Key)
	}
	states, err := readStates(ctx, t.sink.db, entities, nil)
	if err != nil {
		return nil, classify(err, "reading versions from table "+stateTable)
	}
	versions := make([]int64, len(cells))
	for i, c := range cells {
		versions[i] = noView
		state := states[entities[i]][cellID(c)]
		for _, k := range t.kept {
			if !k.view.Feeds(c) || !counts(c, k) {
				continue
			}
			version := replicator.NoVersion
			if v := state.find(k.id); v != nil {
				version = v.state.Version
			}
			versions[i] = min(versions[i], version)
		}
	}
	return versions, nil
}

// Mark implements replicator.Target.
func (t *Target) Mark(ctx context.Context, p replicator.Position, phase replicator.Phase) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.kept) == 0 {
		return nil
	}
	tx, err := t.sink.db.BeginTx(ctx, nil)
	if err != nil {
		return classify(err, "table "+viewsTable)
	}
	found, err := t.mark(ctx, tx, p, phase)
	if err != nil {
		return t.lost(ctx, rollback(tx, classify(err, "table "+viewsTable)))
	}
	if err := tx.Commit(); err != nil {
		return classify(err, "table "+viewsTable)
	}
	for i, order := range found {
		t.marked[i] = max(order, p.Order)
	}
	if phase == replicator.Filled {
		t.grown()
	}
	return nil
}

// lost is err, or what really happened where marks are missed because another replicator swapped in rebuilt views: these have marks of
// their own, and nothing is lost.
func (t *Target) lost(ctx context.Context, err error) error {
	if !errors.Is(err, replicator.ErrSinkLost) {
		return err
	}
	epoch, asked := t.sink.readEpoch(ctx)
	switch {
	case asked != nil:
		return asked
	case epoch != t.epoch:
		return errSwapped
	}
	return err
}

// mark writes the marks and returns those that were there, by view.
func (t *Target) mark(ctx context.Context, tx *sql.Tx, p replicator.Position, phase replicator.Phase) ([]int64, error) {
	args := make([]any, len(t.kept))
	at := map[uint32]int{}
	for i, k := range t.kept {
		args[i] = int64(k.id)
		at[k.id] = i
	}
	rows, err := tx.QueryContext(ctx, "SELECT id, mark_order FROM "+viewsTable+" WHERE name IS NOT NULL AND id IN ("+marks(len(args))+") ORDER BY id FOR UPDATE", args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	orders := make([]int64, len(t.kept))
	for rows.Next() {
		var id uint32
		var order int64
		if err := rows.Scan(&id, &order); err != nil {
			return nil, err
		}
		i := at[id]
		delete(at, id)
		orders[i] = order
		if order < t.marked[i] {
			return nil, fmt.Errorf("the mark of view %s fell: %w", t.views[i].Name, replicator.ErrSinkLost)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	for _, i := range at {
		return nil, fmt.Errorf("the mark of view %s is gone: %w", t.views[i].Name, replicator.ErrSinkLost)
	}
	// The token before the order: assignments are made from left to right, and the second must not see the first's result.
	_, err = tx.ExecContext(ctx, "UPDATE "+viewsTable+" SET mark_token = IF(mark_order <= ?, ?, mark_token), mark_order = GREATEST(mark_order, ?), "+
		"phase = IF(phase = ?, phase, ?) WHERE id IN ("+marks(len(args))+")",
		append([]any{p.Order, p.Token, p.Order, string(replicator.Filled), string(phase)}, args...)...)
	return orders, err
}
