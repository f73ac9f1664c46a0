package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"replicator"
	"replicator/sinks/judge"
)

// A counter's table doesn't show which contributions it contains; only the cells' states (the ledger) do. So a counter
// starts with an empty table and an id that no state mentions. registerLedger gives it both.

// ledgerChanges returns, for each cell whose contribution to a counter changed, the amounts to subtract and to add.
func ledgerChanges(k *keeper, items []*item) ([]change, error) {
	var changes []change
	for _, it := range items {
		for i := range it.values {
			c := &it.values[i]
			if c.keeper != k || !c.applies {
				continue
			}
			var taken []row
			if c.old.contribution() != "" {
				if c.old.digest == c.digest && !c.yields {
					continue
				}
				var err error
				if taken, err = parseRows(c.old.kept); err != nil {
					return nil, err
				}
			}
			if len(taken)+len(c.now) > 0 {
				changes = append(changes, change{taken: taken, rows: [][]row{c.now}})
			}
		}
	}
	return changes, nil
}

// cannotTakeBack returns the error for a counter whose column can't hold the sum after an amount was subtracted.
func (t *Target) cannotTakeBack(at *viewError, err error) error {
	if at.view == allViews || !t.kept[at.view].ledger {
		return err
	}
	k := t.kept[at.view]
	return replicator.OfView(replicator.Fatal(fmt.Errorf("view %s, table %s: column %s can't hold the sum "+
		"after an amount was subtracted (%s). Widen the column. If the table was changed by hand, rebuild the view",
		k.view.Name, settingsOf(k.view).Table, k.amount().name, rowReason(err))), k.view.Name)
}

// registerLedger registers a counter for a source: it gives the counter an id, and empties its table. One transaction
// does both, under the locks of all partitions. If the table had rows or an older registration, it raises the epoch, so
// that targets that were opened earlier fail.
//
// If several sources fill one table, only the first registration empties it. If the definition of the view or of a
// source's tables changes, the counter starts over for all sources, because its table doesn't show which amounts came
// from which source.
func (s *Sink) registerLedger(ctx context.Context, source string, k *keeper) (raised bool, err error) {
	err = s.transaction(ctx, func(tx *sql.Tx) error {
		raised = false
		// The UPDATE changes nothing, but locks the rows of all partitions of keys, so no batch is applied meanwhile.
		if _, err := tx.ExecContext(ctx, "UPDATE "+locksTable+" SET epoch = epoch ORDER BY id"); err != nil {
			return err
		}
		var own, older, fellows, known int
		row := tx.QueryRowContext(ctx, "SELECT COALESCE(SUM(name = ? AND source = ? AND fingerprint = ?), 0), "+
			"COALESCE(SUM(name = ? AND source = ? AND fingerprint <> ?), 0), "+
			"COALESCE(SUM(name = ? AND source <> ? AND SUBSTRING_INDEX(fingerprint, '.', 1) = ?), 0), COUNT(*) "+
			"FROM "+viewsTable+" WHERE name = ? OR target = ?",
			k.view.Name, source, k.view.Fingerprint, k.view.Name, source, k.view.Fingerprint,
			k.view.Name, source, replicator.InFile(k.view.Fingerprint), k.view.Name, settingsOf(k.view).Table)
		if err := row.Scan(&own, &older, &fellows, &known); err != nil {
			return err
		}
		switch {
		case own > 0:
			return nil // another replicator has registered the view since register looked for it
		case older == 0 && fellows > 0:
			return s.insertView(ctx, tx, source, k)
		}
		// Also end the registrations of other views that used the table: their states won't describe it any more.
		_, err := tx.ExecContext(ctx, "UPDATE "+viewsTable+" SET name = NULL WHERE name = ? OR target = ?",
			k.view.Name, settingsOf(k.view).Table)
		if err != nil {
			return err
		}
		removed, err := empty(ctx, tx, k.table)
		if err != nil {
			return err
		}
		if removed > 0 {
			s.log.Warn("removed the rows of a counter's table, to count from zero: the view is new, redefined or "+
				"forgotten, or its states are gone", "sink", s.name, "view", k.view.Name, "rows", removed)
		}
		if raised = removed > 0 || known > 0; raised {
			if _, err := tx.ExecContext(ctx, "UPDATE "+locksTable+" SET epoch = epoch + 1 ORDER BY id"); err != nil {
				return err
			}
		}
		return s.insertView(ctx, tx, source, k)
	})
	return raised && err == nil, err
}

// empty deletes all rows of a table, in statements that each end before the connection's timeout.
func empty(ctx context.Context, tx *sql.Tx, table string) (removed int64, err error) {
	for {
		result, err := tx.ExecContext(ctx, "DELETE FROM "+table+" LIMIT 100000")
		if err != nil {
			return removed, err
		}
		n, err := result.RowsAffected()
		if removed += n; n == 0 || err != nil {
			return removed, err
		}
	}
}

// ledgerDifferences compares the amounts in cells' states with the amounts that the cells should contribute to a
// counter.
func ledgerDifferences(k *keeper, items []*item, states *batchStates) []replicator.Difference {
	var differences []replicator.Difference
	for _, it := range items {
		for i := range it.values {
			c := &it.values[i]
			if c.keeper != k {
				continue
			}
			held := states.own.of(it.entity, it.cell).find(k.id)
			known := held.known()
			d := replicator.Difference{Op: it.opIndex, View: k.viewIndex, States: []replicator.State{known.State}}
			why, dead := it.isDead(i, known, states)
			d.Kind = judge.Difference(len(c.rows) > 0 && !dead, known.Shown, known.Shown && held.digest == c.digest)
			if d.Kind == "" && dead {
				d.Kind, d.Err = replicator.Dead, why
			}
			if d.Kind == "" {
				continue
			}
			if held != nil {
				if rows, err := parseRows(held.contribution()); err == nil {
					d.Held = k.entries(rows)
				}
			}
			differences = append(differences, d)
		}
	}
	return differences
}

// heldInLedger lists a page of the cells that contribute to a counter. It reads the cells' states, because a counter's
// table doesn't show which cell added what.
func (t *Target) heldInLedger(
	ctx context.Context, k *keeper, after string, limit int,
) ([]replicator.Cell, string, error) {
	return t.cells(ctx, after, limit, func(state cellState) bool {
		return state.find(k.id).known().Shown
	})
}

// wrongSums is wrongSumsIn in one snapshot, in which the counter's table and the cells' states belong together.
func (t *Target) wrongSums(ctx context.Context, k *keeper, s span) (wrong []wrongSum, end uint64, err error) {
	tx, err := t.sink.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return nil, 0, err
	}
	wrong, end, err = wrongSumsIn(ctx, tx, k, s, t.sink.sumBytes)
	return wrong, end, rollback(tx, err)
}

// mendSums corrects the wrong sums for which `chosen` returns true, among the groups whose hashes are in the range s.
// It returns how many it corrected. It first compares without locks, so writers wait only while it corrects sums.
func (t *Target) mendSums(ctx context.Context, k *keeper, s span, chosen func(wrongSum) bool) (n int, err error) {
	for {
		wrong, end, err := t.wrongSums(ctx, k, s)
		if err != nil {
			return n, err
		}
		if slices.ContainsFunc(wrong, chosen) {
			some := 0
			if some, end, err = t.mendSpan(ctx, k, span{s.from, end}, chosen); err != nil {
				return n, err
			}
			n += some
		}
		if end >= s.to {
			break
		}
		s.from = end + 1
	}
	if n > 0 {
		t.sink.log.Warn("a counter's table was changed by another program: its sums were corrected", "sink", t.sink.name,
			"view", k.view.Name, "groups", n)
	}
	return n, nil
}

// mendSpan is mendSums under the locks of all partitions. If memory doesn't suffice for the whole range, it corrects
// only the groups with hashes up to `end`.
func (t *Target) mendSpan(
	ctx context.Context, k *keeper, s span, chosen func(wrongSum) bool,
) (n int, end uint64, err error) {
	err = t.sink.transaction(ctx, func(tx *sql.Tx) error {
		w := &writer{ctx: ctx, conn: tx, server: t.server, epoch: t.epoch, apart: true}
		if err := w.lockAll(); err != nil {
			return err
		}
		done := map[string]bool{}
		end = s.to
		for missing := true; missing; {
			wrong, reached, err := wrongSumsIn(ctx, tx, k, span{s.from, end}, t.sink.sumBytes)
			if err != nil {
				return err
			}
			end, missing = reached, false
			var lacking, groups []row
			for _, s := range wrong {
				if chosen(s) {
					done[s.id] = true
					lacking, groups = append(lacking, s.lacks), append(groups, s.lacks[:len(s.lacks)-1])
					// A group without a row gets one now. The collation may treat this group as equal to groups whose
					// hashes are outside the range. Their amounts then count for the new row, but the comparison before
					// this write missed them. So compare again.
					missing = missing || s.kind == replicator.Missing
				}
			}
			if len(groups) == 0 {
				break
			}
			if err := k.kind.write(w, k, []change{{rows: [][]row{lacking}}}); err != nil {
				return err
			}
			// removeZeroes also removes rows that another program added to the table, if their corrected sum is 0.
			if err := w.removeZeroes(k, groups); err != nil {
				return err
			}
		}
		n = len(done)
		return nil
	})
	return n, end, err
}
