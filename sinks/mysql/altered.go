package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/go-sql-driver/mysql"

	"replicator"
)

// A table may be altered after its view was opened. Often the server then refuses a write. But a new unique key may
// make the server write one entity's values into another's row, without an error. So tables are checked regularly.

// tableInterval is the time between two checks of a view's table.
const tableInterval = 10 * time.Second

// counted matches the part of a CREATE TABLE that may change with every inserted row.
var counted = regexp.MustCompile(` AUTO_INCREMENT=\d+`)

var errAltered = fmt.Errorf("it was altered since the view was opened: %w", replicator.ErrOpenAgain)

func (k *keeper) altered() error {
	return replicator.OfView(fmt.Errorf("view %s: table %s: %w", k.view.Name, k.table, errAltered), k.view.Name)
}

// definition returns the table's CREATE TABLE; "" if the table is missing or the user may not see it.
func definition(ctx context.Context, q querier, table string) (text string, err error) {
	err = eachRow(ctx, q, func(rows *sql.Rows) error {
		var name string
		return rows.Scan(&name, &text)
	}, "SHOW CREATE TABLE "+table)
	var refused *mysql.MySQLError
	if errors.As(err, &refused) {
		return "", nil
	}
	return counted.ReplaceAllString(text, ""), err
}

// lookAtTables returns an error if a table was emptied, or was altered since its view was opened. It must not run
// concurrently, or while the views are being filled. All changes before the log position `order` have been applied.
func (t *Target) lookAtTables(ctx context.Context, order int64) error {
	for _, k := range t.kept {
		// Skip a table that was checked recently, by this target or by one that was open before it.
		if !t.sink.lastChecks.isDue(k.id) {
			continue
		}
		if err := t.lookAtTable(ctx, k, order); err != nil {
			return err
		}
	}
	return nil
}

func (t *Target) lookAtTable(ctx context.Context, k *keeper, order int64) error {
	lost, err := t.lookForLoss(ctx, k, order)
	database, _ := split(settingsOf(k.view).Table, t.sink.database)
	switch {
	case is(err, noTable) || is(err, noDatabase) && database != t.sink.database:
		return k.altered()
	case is(err, errTableChanged): // the table was altered or truncated during this check: the next one reports it
		return nil
	case err != nil:
		return err
	case lost:
		return fmt.Errorf("view %s: %w", k.view.Name, t.sink.refuseLost(ctx, k.view, k.table, "was emptied"))
	case k.definition == "":
		return t.lookAtReferences(ctx, k)
	}
	if err := t.lookAtReferences(ctx, k); err != nil {
		return err
	}
	now, err := definition(ctx, t.sink.db, k.table)
	if err == nil && now != k.definition {
		err = k.altered()
	}
	return err
}
