package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// movesKeys reports whether keys move between the source's shards. With a topic, the source has only one shard.
func (p Plan) movesKeys() bool { return p.Parts > 1 && p.Topic == nil && p.Seed%2 == 0 }

// in returns the table that holds the nth key. For a key that may move, it asks the source.
func (w *workload) in(ctx context.Context, tx execer, t Table, n int) (string, error) {
	home := w.home(t, n)
	for _, part := range w.parts {
		table, one := part+"."+t.holding(n).Name, 0
		if !w.moving || table == home || n < Kept {
			continue
		}
		err := tx.QueryRowContext(ctx, "SELECT 1 FROM "+table+t.where()+" LIMIT 1", t.Key.values(n)...).Scan(&one)
		if !errors.Is(err, sql.ErrNoRows) {
			return table, err
		}
	}
	return home, nil
}

// home returns the table that holds the nth key unless the key has moved.
func (w *workload) home(t Table, n int) string {
	return w.parts[n%len(w.parts)] + "." + t.holding(n).Name
}

func (t Table) where() string { return " WHERE " + strings.Join(t.Key.columns(), " = ? AND ") + " = ?" }

// move moves a key to another shard, but never a key that must always exist. It changes the row once more in the old
// shard, copies the row to the new shard, and deletes it from the old shard. The pipelines of the two shards read these
// changes at different times.
func (w *workload) move(ctx context.Context, tx execer, t Table, r *rand.Rand) error {
	n := Kept + r.IntN(max(t.Keys-Kept, 1))
	from, err := w.in(ctx, tx, t, n)
	to := pick(r, w.parts...) + "." + t.holding(n).Name
	if err != nil || to == from {
		return err
	}
	if err := w.put(ctx, tx, t, r, n); err != nil {
		return err
	}
	columns := strings.Join(slices.Concat(t.Key.columns(), t.columns()), ", ")
	for _, statement := range []string{
		fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s%s", to, columns, columns, from, t.where()),
		"DELETE FROM " + from + t.where(),
	} {
		if _, err := tx.ExecContext(ctx, statement, t.Key.values(n)...); err != nil {
			return err
		}
	}
	return nil
}

// columns returns a table's columns without the key columns and without the id that the server assigns.
func (t Table) columns() []string {
	switch t.Shape {
	case rows:
		return []string{"n", "email", "grp", "amount"}
	case cells:
		return []string{"col", "version", "body"}
	default:
		return []string{"version", "body"}
	}
}
