package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"replicator"
)

// A view's progress and states are in the sink's own tables, and survive if the view's table is dropped or emptied.
// Then cells that don't change would never be written again. So opening the view notices that the table is missing, and
// later checks notice that it lost all of its rows (loss.go).

// refuseGone returns an error if a view's table is gone although the sink has stored progress for the view. It also
// forgets the view, so that the view is filled again.
func (s *Sink) refuseGone(ctx context.Context, v *replicator.View) error {
	name, err := s.gone(ctx, v)
	if err != nil || name == "" {
		return err
	}
	return s.refuseLost(ctx, v, name, "was dropped")
}

// gone returns the name of a view's table if the table is missing although the sink has stored progress for the view;
// else "". A table that the user may not see is not missing.
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

// isThere reports whether the table with a quoted name exists, even if the user may not see it. It waits for an ALTER
// or a swap in progress.
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

// refuseLost forgets a view, and returns an error that says what happened to its table.
func (s *Sink) refuseLost(ctx context.Context, v *replicator.View, table, what string) error {
	if err := s.Forget(ctx, v.Name); err != nil {
		return err
	}
	return replicator.OfView(fmt.Errorf("its table %s %s: %w", table, what, replicator.ErrSinkLost), v.Name)
}

func (k *keeper) isEmpty(ctx context.Context, db *sql.DB) (bool, error) {
	var one int
	err := db.QueryRowContext(ctx, "SELECT 1 FROM "+k.table+" LIMIT 1").Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return true, nil
	}
	return false, err
}
