package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
)

// alterTable adds, removes and moves columns of a watched table while the writers write. Columns that views need keep
// their names and types. The program must re-read the columns from the server, because the binlog doesn't contain their
// names, and the program can't parse one of the statements.
func alterTable(ctx context.Context, w *world, f Fault) (heal, error) {
	t := w.plan.hurtTable(f)
	r := rand.New(rand.NewPCG(f.Arg, 2))
	for n := range 2 + r.IntN(4) {
		for _, s := range t.alters(r, fmt.Sprintf("x%d_%d", f.Arg, n)) {
			if _, err := w.sourceDBs[0].ExecContext(ctx, "ALTER TABLE "+t.Name+" "+s); err != nil {
				w.say("ALTER TABLE %s %s: %v", t.Name, s, err) // the server may be down
				return nil, errSkipped
			}
		}
	}
	return nil, nil
}

// alters returns a sequence of ALTER clauses for the table. x is the name of a new column.
func (t Table) alters(r *rand.Rand, x string) []string {
	moved := []string{"body LONGBLOB", "version BIGINT NOT NULL"}
	switch t.Shape {
	case rows:
		moved = []string{"amount INT NOT NULL", "n BIGINT NOT NULL", "email VARCHAR(40) COLLATE utf8mb4_bin"}
	case grps:
		moved = []string{"label BIGINT NOT NULL", "up VARCHAR(20) COLLATE utf8mb4_bin"}
	}
	moved = append(moved, strings.Split(t.Key.ddl(), ", ")...)
	column := func() string { return pick(r, moved...) }
	name := func(definition string) string { before, _, _ := strings.Cut(definition, " "); return before }
	a, b := column(), column()
	for name(a) == name(b) {
		b = column()
	}
	switch r.IntN(6) {
	case 0:
		return []string{"MODIFY " + a + " AFTER " + name(b)}
	case 1:
		return []string{"MODIFY " + a + " FIRST, ADD COLUMN " + x + " BIGINT FIRST",
			"CHANGE " + x + " " + x + "_ VARCHAR(30) DEFAULT 'x, y' AFTER " + name(b), "DROP COLUMN " + x + "_"}
	case 2:
		return []string{"ADD COLUMN " + x + " INT FIRST, ADD COLUMN " + x + "_ INT AFTER " + name(a),
			"DROP COLUMN " + x + ", MODIFY " + b + " FIRST, DROP " + x + "_"}
	case 3: // this ORDER BY has no effect, because InnoDB sorts rows by the primary key
		return []string{"ADD COLUMN " + x + " BIGINT FIRST, ORDER BY " + name(a) + ", " + name(b), "DROP COLUMN " + x}
	case 4:
		return []string{"ADD INDEX " + x + " (" + t.Key.columns()[0] + ")", "DROP INDEX " + x}
	default:
		return []string{"ADD " + x + " DECIMAL(8,2) AFTER " + name(a), "MODIFY " + x + " TINYINT UNSIGNED FIRST", "DROP " + x}
	}
}
