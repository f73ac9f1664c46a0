package mysql

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"replicator"
	"replicator/sinks/judge"
)

// A view's horizon is the log position below which the states of deleted cells may have been forgotten. A batch reads
// the states first, and then the horizons. If a state is missing because it was forgotten, its horizon was committed
// earlier, so the batch sees it. Forgetting locks no partitions: it deletes a state only if the state is unchanged
// since it was read.

var _ replicator.Forgetter = (*Target)(nil)

// forgetAtOnce is how many rows one statement deletes. Batches may wait for the statement.
const forgetAtOnce = 200

// gonePrefix begins a stored state (see stateFormat) whose first version is NoVersion: the cell has no row.
const gonePrefix = "\x01\x00"

// RaiseHorizon implements replicator.Forgetter. A horizon is the log position below which deleted cells may be
// forgotten.
func (t *Target) RaiseHorizon(ctx context.Context, horizon int64) error {
	return t.explainForgetting(ctx, t.raiseHorizons(ctx, horizon))
}

// ForgetGone implements replicator.Forgetter. It deletes the states of cells that have no row, if no view needs these
// states.
func (t *Target) ForgetGone(
	ctx context.Context, after string, limit int,
) (found replicator.GoneCells, next string, err error) {
	found, next, err = t.forgetPage(ctx, after, limit)
	return found, next, t.explainForgetting(ctx, err)
}

func (t *Target) explainForgetting(ctx context.Context, err error) error {
	return t.sink.withGrant(ctx, classify(err, "table "+stateTable), err, t.sink.database)
}

// raiseHorizons raises the horizons of the target's filled views, but never above how far a view has come.
func (t *Target) raiseHorizons(ctx context.Context, horizon int64) error {
	args := []any{horizon, replicator.PhaseFilled}
	for _, k := range t.kept {
		args = append(args, int64(k.id))
	}
	_, err := t.sink.db.ExecContext(ctx, "INSERT INTO "+horizonTable+" (view, horizon) "+
		"SELECT v.id, LEAST(?, v.mark_order) FROM "+viewsTable+" v WHERE v.name IS NOT NULL AND v.phase = ? AND v.id IN ("+
		placeholders(len(t.kept))+") ON DUPLICATE KEY UPDATE horizon = GREATEST("+horizonTable+
		".horizon, LEAST(?, v.mark_order))", append(args, horizon)...)
	return err
}

// horizons returns, by view id, the log position below which the states of deleted cells may be forgotten. A view that
// was forgotten or redefined needs no states, so its horizon is above everything.
func (s *Sink) horizons(ctx context.Context) (map[uint32]int64, error) {
	found := map[uint32]int64{}
	err := eachRow(ctx, s.db, func(rows *sql.Rows) error {
		var id uint32
		var horizon int64
		err := rows.Scan(&id, &horizon)
		found[id] = horizon
		return err
	}, "SELECT v.id, IF(v.name IS NULL, 9223372036854775807, COALESCE(h.horizon, 0)) FROM "+viewsTable+" v LEFT JOIN "+
		horizonTable+" h ON h.view = v.id")
	return found, err
}

// forgetPage examines a page of the source's states, and deletes those of deleted cells that no view needs any more.
func (t *Target) forgetPage(
	ctx context.Context, after string, limit int,
) (found replicator.GoneCells, next string, err error) {
	first, end := sourceRange(t.source)
	from, err := cellAt(after, first)
	if err != nil {
		return found, "", err
	}
	horizons, err := t.sink.horizons(ctx)
	if err != nil {
		return found, "", err
	}
	page := beyondCell + " AND entity < ?"
	args := []any{from.Entity, from.Entity, from.Cell, end}
	var last cellPlace
	row := t.sink.db.QueryRowContext(ctx, "SELECT entity, cell FROM "+stateTable+" WHERE "+page+inOrder+"1 OFFSET "+
		strconv.Itoa(max(limit-1, 0)), args...)
	switch err := row.Scan(&last.Entity, &last.Cell); {
	case err == nil:
		next = judge.Cursor(last)
		page += " AND (entity < ? OR (entity = ? AND cell <= ?))"
		args = append(args, last.Entity, last.Entity, last.Cell)
	case !errors.Is(err, sql.ErrNoRows):
		return found, "", err
	}
	rows, err := t.sink.db.QueryContext(ctx, "SELECT entity, cell, state FROM "+stateTable+" WHERE "+page+
		" AND LEFT(state, 2) = ?", append(args, []byte(gonePrefix))...)
	if err != nil {
		return found, "", err
	}
	defer rows.Close()
	var old []goneCell
	err = scanStates(rows, func(entity, cell []byte, state cellState, stored string) error {
		switch {
		case state.forgettable(horizons):
			old = append(old, goneCell{cellPlace{bytes.Clone(entity), bytes.Clone(cell)}, stored})
		case state.gone():
			found.Remembered++
		}
		return nil
	})
	if err != nil {
		return found, "", err
	}
	for some := range slices.Chunk(old, forgetAtOnce) {
		n, err := t.forgetSome(ctx, some)
		if found.Forgotten += n; err != nil {
			return found, "", err
		}
	}
	return found, next, nil
}

// forgettable reports whether no view needs the cell's state any more.
func (c cellState) forgettable(horizons map[uint32]int64) bool {
	return c.below(func(view uint32) int64 { return horizons[view] })
}

// gone reports whether, by its states, the cell has no row and is no dead letter in any view.
func (c cellState) gone() bool { return c.below(func(uint32) int64 { return math.MaxInt64 }) }

// below reports whether, in every view that has a state of the cell, the cell has no row, is no dead letter, and last
// changed below the view's horizon.
func (c cellState) below(horizon func(view uint32) int64) bool {
	for i := range c {
		if c[i].kept != "" || !c[i].known().Forgettable(horizon(c[i].view)) {
			return false
		}
	}
	return true
}

// goneCell is a row of the table of states as it was read. The row is deleted only if it is unchanged.
type goneCell struct {
	cellPlace
	stored string
}

// forgetSome deletes the given rows of the table of states, except rows that have changed since they were read.
func (t *Target) forgetSome(ctx context.Context, some []goneCell) (forgotten int, err error) {
	w := writer{}
	w.write("DELETE FROM ", stateTable, " WHERE ")
	for i, c := range some {
		w.text = appendAfter(w.text, i, " OR ")
		w.write("(entity = ")
		w.text = appendBinary(w.text, c.Entity)
		w.write(" AND cell = ")
		w.text = appendBinary(w.text, c.Cell)
		w.write(" AND state = ")
		w.text = appendBinary(w.text, c.stored)
		w.write(")")
	}
	var deleted int64
	err = patiently(ctx, func() error {
		result, err := t.sink.db.ExecContext(ctx, string(w.text))
		if err == nil {
			deleted, err = result.RowsAffected()
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("deleting the states of cells that are gone: %w", err)
	}
	return int(deleted), nil
}

func (w *writer) writeHorizons(t *Target) {
	w.write("; SELECT view, horizon FROM ", horizonTable, " WHERE view IN (")
	for i, k := range t.kept {
		w.text = appendAfter(w.text, i, ",")
		w.write(strconv.FormatUint(uint64(k.id), 10))
	}
	w.write(")")
}

func (s *batchStates) scanHorizons(rows *sql.Rows) error {
	for rows.Next() {
		var view uint32
		var horizon int64
		if err := rows.Scan(&view, &horizon); err != nil {
			return err
		}
		s.horizons[view] = horizon
	}
	return rows.Err()
}

// judged returns what the sink knows of the item's cell in one view. value is the index of the item's value for that
// view.
func (it *item) judged(value int, s *batchStates) judge.Known {
	id := it.values[value].keeper.id
	known := it.before.find(id).known()
	known.Horizon = s.horizons[id]
	return known
}
