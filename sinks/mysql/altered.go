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

// What a table can hold, and that it is there, is found out when its view is opened. It may be altered later, and what
// the server then refuses shows that. What it does not refuse, nothing shows: with a further unique key one entity's
// values are written into another's row. So the tables are looked at again now and then: whether they are what they
// were, and hold anything at all.

// tableInterval is how often: a small request a view.
const tableInterval = 10 * time.Second

// counted is what of a definition changes with every row.
var counted = regexp.MustCompile(` AUTO_INCREMENT=\d+`)

var errAltered = fmt.Errorf("it was altered since the view was opened: %w", replicator.ErrOpenAgain)

func (k *keeper) altered() error {
	return replicator.OfView(fmt.Errorf("view %s: table %s: %w", k.view.Name, k.table, errAltered), k.view.Name)
}

// definition is what the server says of a table; "" if the user may not see it, or there is none.
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

// lookAtTables reports a table that was altered since its view was opened, which has to be opened anew, or was emptied.
// Marks calls it, one call at a time, but not while the views are being filled. All before an order has been applied.
func (t *Target) lookAtTables(ctx context.Context, order int64) error {
	for _, k := range t.kept {
		if !t.sink.looks.isDue(k.id) { // another target may have looked, before the views were opened again
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
	case is(err, errTableChanged): // by a TRUNCATE that came between: the next look tells
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
