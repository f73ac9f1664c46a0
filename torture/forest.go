package main

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"

	"replicator/internal/servers"
)

// In some plans, the source has a forest: rows of the table "tree" refer to rows of the same table, and rows of "leaf"
// refer to rows of "tree". Foreign keys enforce this in the source and in the sink's tables. The view of "leaf" comes
// first in the configuration, so the program must find out itself that it has to write "tree" first.

var forest = []Table{
	{Name: "leaf", Shape: rows, Key: intKey, Keys: 40, Refers: "tree"},
	{Name: "tree", Shape: rows, Key: intKey, Keys: 20, Refers: "tree"},
}

// plantForest adds the forest (the tables "tree" and "leaf") to some plans. It leaves out plans with shards, because
// rows in different shards can't refer to each other. It also leaves out plans whose MySQL sink is on MySQL 5.7, where
// the program can't write a child before its parent.
func (p *Plan) plantForest() {
	p.Forest = p.Topic == nil && p.Shards == 1 && p.Seed%5 < 2 && p.Main != servers.MySQL57 &&
		slices.Contains(p.sinks(), "main")
	if !p.Forest {
		return
	}
	for _, t := range forest {
		p.Views = append(p.Views, View{Name: t.Name + "_main_row", Sink: "main", Kind: "row", Table: t.Name})
	}
}

// source returns the tables that the program reads.
func (p Plan) source() []Table {
	all := slices.Clone(p.Tables)
	if p.joins() {
		all = append(all, groupsTable)
	}
	if p.Forest {
		all = append(all, forest...)
	}
	return all
}

// more returns the view's fields that only some tables have: the parent, or fields of joined rows.
func (v View) more(t Table) []string {
	if t.Refers != "" {
		return []string{"up"}
	}
	return v.joined(t)
}

// path returns how the configuration names a field that shows the parent row or a joined row.
func (t Table) path(field string) string {
	if t.Refers != "" {
		return field
	}
	return joinedPaths[field]
}

// plantTargets creates the sink's tables for the views of tables with foreign keys (the forest), parents first.
func (w *world) plantTargets(ctx context.Context) error {
	if !w.plan.Forest {
		return nil
	}
	for _, t := range slices.Backward(forest) {
		_, err := w.sinkDBs[0].ExecContext(ctx, fmt.Sprintf("CREATE TABLE %s_main_row (%s PRIMARY KEY, n BIGINT, "+
			"email VARCHAR(40), grp VARCHAR(20), amount INT, up BIGINT, FOREIGN KEY (up) REFERENCES %s_main_row (k))",
			t.Name, intKey.ddl(), t.Refers))
		if err != nil {
			return err
		}
	}
	return nil
}

// prepareForest creates the tables with foreign keys (the forest) in the source, parents first, and the rows that
// always exist.
func (w *workload) prepareForest(ctx context.Context, r *rand.Rand) error {
	for _, t := range slices.Backward(forest) {
		for _, part := range w.parts {
			if _, err := w.db.ExecContext(ctx, t.ddl(part)); err != nil {
				return err
			}
		}
		for n := range Kept {
			if err := w.putInForest(ctx, w.db, t, r, n, -1); err != nil {
				return err
			}
		}
	}
	return nil
}

// changeForest deletes a row of "tree" with the leaves that refer to it, or deletes a leaf, or writes a row. It writes
// a missing parent first. A row that always exists never refers to a row that may be deleted.
func (w *workload) changeForest(ctx context.Context, tx execer, r *rand.Rand) error {
	t := pick(r, forest...)
	n, parent := r.IntN(t.Keys), -1
	if n >= Kept && r.IntN(4) == 0 {
		return w.fell(ctx, tx, t, n)
	}
	if r.IntN(5) > 0 {
		bound := forest[1].Keys
		if n < Kept {
			bound = Kept
		}
		parent = r.IntN(bound)
		parent -= (parent - n) % len(w.parts) // row n and its parent must be in the same database
	}
	if parent >= 0 {
		if err := w.growIfMissing(ctx, tx, r, parent); err != nil {
			return err
		}
	}
	return w.putInForest(ctx, tx, t, r, n, parent)
}

// growIfMissing writes the nth row of the tree if it does not exist.
func (w *workload) growIfMissing(ctx context.Context, tx execer, r *rand.Rand, n int) error {
	one := 0
	err := tx.QueryRowContext(ctx, "SELECT 1 FROM "+w.home(forest[1], n)+" WHERE k = ? FOR UPDATE",
		intKey.values(n)...).Scan(&one)
	if err != sql.ErrNoRows {
		return err
	}
	return w.putInForest(ctx, tx, forest[1], r, n, -1)
}

// putInForest writes the nth row of t, which is "tree" or "leaf". `parent` is the number of the row of "tree" to which
// the nth row refers. If `parent` is negative, the nth row refers to none.
func (w *workload) putInForest(ctx context.Context, tx execer, t Table, r *rand.Rand, n, parent int) error {
	var up any
	if parent >= 0 {
		up = intKey.values(parent)[0]
	}
	_, err := tx.ExecContext(ctx, fmt.Sprintf(`INSERT INTO %s (k, n, email, grp, amount, up) VALUES (?, ?, ?, ?, ?, ?)
		ON DUPLICATE KEY UPDATE n = GREATEST(n, VALUES(n)), amount = VALUES(amount), up = VALUES(up)`, w.home(t, n)),
		intKey.values(n)[0], w.n.Add(1), fmt.Sprintf("%d@x.org", r.IntN(12)), pick(r, groups...), r.IntN(101)-5, up)
	return err
}

// fell deletes a row of t. It first deletes or detaches the rows that refer to this row.
func (w *workload) fell(ctx context.Context, tx execer, t Table, n int) error {
	key := intKey.values(n)[0]
	statements := []string{"DELETE FROM " + w.home(t, n) + " WHERE k = ?"}
	if t.Name == "tree" {
		statements = []string{"DELETE FROM " + w.home(forest[0], n) + " WHERE up = ?",
			"UPDATE " + w.home(t, n) + " SET up = NULL WHERE up = ?", statements[0]}
	}
	for _, statement := range statements {
		if _, err := tx.ExecContext(ctx, statement, key); err != nil {
			return err
		}
	}
	return nil
}
