package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
)

func sourceFaults() map[string]fault {
	statement := func(about, text string) fault {
		return fault{about: about, begin: func(ctx context.Context, w *world, f Fault) (heal, error) {
			t := w.plan.hurtTable(f)
			var failed error
			for s := range strings.SplitSeq(strings.NewReplacer("TABLE_", t.Name, "N_", fmt.Sprint(f.Arg)).Replace(text), ";") {
				if _, err := w.sourceDBs[0].ExecContext(ctx, s); err != nil {
					w.say("%s: %v", s, err) // the server may be down
					failed = errSkipped     // go on: the next statement may undo the previous one
				}
			}
			return nil, failed
		}}
	}
	return map[string]fault{
		"rotate": statement("the source starts a new binlog file", "FLUSH BINARY LOGS"),
		"column": statement("a column is added to a watched table, and dropped again",
			"ALTER TABLE TABLE_ ADD COLUMN extra_N_ INT;ALTER TABLE TABLE_ DROP COLUMN extra_N_"),
		"alter": {about: "columns of a watched table are added, dropped and moved", begin: alterTable},
		"other table": statement("DDL on tables that no view reads",
			"CREATE TABLE other_N_ (a INT, b GEOMETRY);ALTER TABLE other_N_ ADD COLUMN c JSON;DROP TABLE other_N_"),
		"cut-over": {about: "a copy replaces a watched table, as with gh-ost", begin: cutOver},
		"huge": {about: "a transaction of thousands of rows",
			begin: func(ctx context.Context, w *world, f Fault) (heal, error) {
				if err := w.load.huge(ctx, rand.New(rand.NewPCG(f.Arg, 1))); err != nil {
					w.say("huge: %v", err)
				}
				return nil, nil
			}},
	}
}

// cutOver replaces a table by a copy of it, with a rename. The writers wait during the change.
func cutOver(ctx context.Context, w *world, f Fault) (heal, error) {
	t := w.plan.hurtTable(f).Name
	w.load.hold.Lock()
	defer w.load.hold.Unlock()
	for _, s := range []string{"DROP TABLE IF EXISTS _new, _old", "CREATE TABLE _new LIKE " + t,
		"INSERT INTO _new SELECT * FROM " + t, "RENAME TABLE " + t + " TO _old, _new TO " + t, "DROP TABLE _old"} {
		if _, err := w.sourceDBs[0].ExecContext(ctx, s); err != nil {
			w.say("cut-over: %s: %v", s, err) // the server may be down
			return nil, errSkipped
		}
	}
	return nil, nil
}
