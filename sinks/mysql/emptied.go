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
// creation, too). But that it is missing tells, when the view is opened; and later, that it lost all that was there
// (loss.go). Some rows that are gone were deleted by hand, which a verification finds and repairs.

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
	if there, err := s.isThere(ctx, name); there || err != nil {
		return "", err
	}
	var marked int
	err = s.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+viewsTable+" WHERE name = ? AND mark_token <> ''",
		v.Name).Scan(&marked)
	if marked == 0 {
		name = ""
	}
	return name, ofViews(err)
}

// isThere reports whether there is a table of a quoted name, or one that the user may not see. An ALTER or a swap that
// is under way is waited for.
func (s *Sink) isThere(ctx context.Context, name string) (bool, error) {
	_, err := s.db.ExecContext(ctx, "SELECT 1 FROM "+name+" LIMIT 0")
	var refused *mysql.MySQLError
	switch {
	case is(err, noTable, noDatabase):
		return false, nil
	case errors.As(err, &refused):
		return true, nil
	}
	return err == nil, classify(err, "looking for table "+name)
}

// refuseLost forgets a view, and says what became of its table.
func (s *Sink) refuseLost(ctx context.Context, v *replicator.View, table, what string) error {
	if err := s.Forget(ctx, v.Name); err != nil {
		return err
	}
	return replicator.OfView(fmt.Errorf("its table %s %s: %w", table, what, replicator.ErrSinkLost), v.Name)
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
