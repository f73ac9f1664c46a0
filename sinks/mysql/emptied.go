package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"replicator"
)

// A view's mark and states are in the sink's own tables. They survive if the view's table is dropped and created again,
// or emptied. The mark would then claim changes that the table lacks, and cells that don't change would never be
// written again. A table's id or creation time can't reveal this, because an ALTER that rebuilds a table changes both.
// But opening the view notices that the table is missing, and later checks notice that it lost all of its rows
// (loss.go). If only some rows were deleted by hand, a verification finds and repairs that.

// refuseGone returns an error if a view's table is gone although the sink has a mark for the view (the log position
// that the view has reached). It forgets the view, so that the view is filled again, like any view that a sink lost.
func (s *Sink) refuseGone(ctx context.Context, v *replicator.View) error {
	name, err := s.gone(ctx, v)
	if err != nil || name == "" {
		return err
	}
	return s.refuseLost(ctx, v, name, "was dropped")
}

// gone returns the name of a view's table if the view has a mark and the table is missing. It returns "" if the view
// never had a mark, or if the table exists but the user may not see it.
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
