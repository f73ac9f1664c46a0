package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"replicator"
)

// The marks and states of a view are in tables of their own, and stay where the view's own table is dropped and made
// again, or emptied: what they say was applied is then nowhere, and no cell that does not change would ever be written
// again. A table does not tell that it is another one (an ALTER that rebuilds it gives it a new id and a new time of
// creation, too). But that it is missing tells, when the view is opened; and later, that it is empty. A few rows that
// are gone were deleted by hand, which a verification finds and repairs.

// refuseGone forgets a view that was marked and whose table is gone: it begins anew then, as one does that a sink lost.
func (s *Sink) refuseGone(ctx context.Context, v *replicator.View) error {
	name, err := s.gone(ctx, v)
	if err != nil || name == "" {
		return err
	}
	return s.refuseLost(ctx, v, name, "was dropped")
}

// gone is the table of a view that was marked, if that is gone; "" if the view was never marked, or the table is there
// and the user may not see it.
func (s *Sink) gone(ctx context.Context, v *replicator.View) (name string, err error) {
	database, table := split(settingsOf(v).Table, s.database)
	name = (&shape{database: database, table: table}).quoted()
	_, err = s.db.ExecContext(ctx, "SELECT 1 FROM "+name+" LIMIT 0")
	if !is(err, noTable, noDatabase) {
		var refused *mysql.MySQLError
		if errors.As(err, &refused) {
			return "", nil
		}
		return "", classify(err, "looking for table "+name)
	}
	var marked int
	err = s.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+viewsTable+" WHERE name = ? AND mark_token <> ''",
		v.Name).Scan(&marked)
	if is(err, noTable, noDatabase) || err == nil && marked == 0 {
		return "", nil
	}
	return name, classify(err, "table "+viewsTable)
}

// refuseLost forgets a view, and says what became of its table.
func (s *Sink) refuseLost(ctx context.Context, v *replicator.View, table, what string) error {
	if err := s.Forget(ctx, v.Name); err != nil {
		return err
	}
	return replicator.OfView(fmt.Errorf("its table %s %s: %w", table, what, replicator.ErrSinkLost), v.Name)
}

// Where a table has fewer than emptiedEvidence rows the states of so many cells are looked at, and so many entities
// more have to show something in it than it has rows.
const (
	emptiedSample   = 2000
	emptiedEvidence = 100
)

// emptied is the first view whose table lacks what it has to hold by what is remembered of its cells: each entity that
// shows something has a row of its own. nil: there is none. The rows are counted again, for another replicator may
// write the first ones meanwhile. A counter has few rows in any case: they have to be none, and not rightly so, as
// where all its sums are 0.
func (t *Target) emptied(ctx context.Context) (*keeper, error) {
	rows := map[*keeper]int{}                        // of those whose tables have few
	showing := map[*keeper]map[replicator.Key]bool{} // of the same, the entities that show something
	for _, k := range t.kept {
		n, err := t.fewRows(ctx, k)
		if err != nil {
			return nil, err
		}
		if n < emptiedEvidence && (!k.ledger || n == 0) {
			rows[k], showing[k] = n, map[replicator.Key]bool{}
		}
	}
	if len(rows) == 0 {
		return nil, nil
	}
	if err := t.sample(ctx, showing); err != nil {
		return nil, err
	}
	for k, n := range rows {
		if len(showing[k]) < n+emptiedEvidence {
			continue
		}
		if k.ledger {
			wrong, _, err := t.wrongSums(ctx, k, everyGroup())
			if err != nil {
				return nil, err
			}
			if len(wrong) == 0 {
				continue
			}
		}
		n, err := t.fewRows(ctx, k)
		if err != nil {
			return nil, err
		}
		if len(showing[k]) >= n+emptiedEvidence {
			return k, nil
		}
	}
	return nil, nil
}

// sample notes which entities show something in views, by the first states of the source.
func (t *Target) sample(ctx context.Context, showing map[*keeper]map[replicator.Key]bool) error {
	var in []*keeper // in which the cell at hand shows something
	var each [][]*keeper
	cells, _, err := t.cells(ctx, "", emptiedSample, func(state cellState) bool {
		in = nil
		for k := range showing {
			if state.find(k.id).known().Shown {
				in = append(in, k)
			}
		}
		if len(in) > 0 {
			each = append(each, in)
		}
		return len(in) > 0
	})
	for i, c := range cells {
		for _, k := range each[i] {
			showing[k][c.Key] = true
		}
	}
	return err
}

// fewRows counts a table's rows, up to emptiedEvidence.
func (t *Target) fewRows(ctx context.Context, k *keeper) (n int, err error) {
	err = t.sink.db.QueryRowContext(ctx, fmt.Sprintf("SELECT COUNT(*) FROM (SELECT 1 FROM %s LIMIT %d) some", k.table,
		emptiedEvidence)).Scan(&n)
	database, _ := split(settingsOf(k.view).Table, t.sink.database)
	if is(err, noTable) || is(err, noDatabase) && database != t.sink.database {
		err = k.altered()
	}
	return n, err
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
