package mysql_test

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// A server's index statistics may be outdated. Here, they are from a time when all rows had one key. According to them,
// a list of a few hundred keys finds more than the whole table, so a server that goes by them reads the table from end
// to end.
func TestKeysAreLookedUpWhateverTheStatisticsOfTheirIndexSay(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, dsn := database(t, s,
			"CREATE TABLE i (email VARCHAR(50) NOT NULL, id BINARY(16) NOT NULL, PRIMARY KEY (email, id), KEY (id)) "+oldStatistics)
		sink := newSink(t, dsn)
		target := openTarget(t, sink, view("index", "i", "email"))
		if _, err := target.Apply(t.Context(), []replicator.Op{userOp(0, 1, 1, "first")}); err != nil {
			t.Fatal(err)
		}
		const rows = 20_000
		exec(t, db, "CREATE TABLE n (n INT AUTO_INCREMENT PRIMARY KEY, id BINARY(16))")
		ten := "(SELECT 0 AS d" + strings.Repeat(" UNION ALL SELECT 0", 9) + ")"
		exec(t, db, fmt.Sprintf("INSERT INTO n (n) SELECT NULL FROM %s a, %[1]s b, %[1]s c, %[1]s d, (SELECT 0 UNION ALL SELECT 0) e", ten))
		exec(t, db, "UPDATE n SET id = CONCAT('user ', RPAD(n, 11, ' '))") // the keys of userOp
		exec(t, db, "ALTER TABLE replicator_state "+oldStatistics)
		var entity, cell, state []byte
		if err := db.QueryRow("SELECT entity, cell, state FROM replicator_state").Scan(&entity, &cell, &state); err != nil {
			t.Fatal(err)
		}
		exec(t, db, "INSERT INTO i SELECT n, '' FROM n")
		exec(t, db, "INSERT INTO replicator_state SELECT ?, n, '' FROM n", entity)
		exec(t, db, "ANALYZE TABLE i, replicator_state")
		exec(t, db, "DELETE FROM i")
		exec(t, db, "DELETE FROM replicator_state")
		exec(t, db, "INSERT INTO i SELECT n, id FROM n")
		exec(t, db, "INSERT INTO replicator_state SELECT CONCAT(?, id), ?, ? FROM n", entity[:len(entity)-16], cell, state)

		var ops []replicator.Op
		for _, n := range rand.Perm(rows)[:500] {
			ops = append(ops, userOp(n+1, 2, 1, fmt.Sprint("new", n)))
		}
		steps := map[string]func() error{
			"a batch":             func() error { _, err := target.Apply(t.Context(), ops); return err },
			"a comparison":        func() error { _, err := target.Compare(t.Context(), ops); return err },
			"reading of versions": func() error { _, err := target.Versions(t.Context(), cellsOf(ops)); return err },
		}
		for _, what := range []string{"a batch", "a comparison", "reading of versions"} {
			before := rowsRead(t, db)
			if err := steps[what](); err != nil {
				t.Fatal(err)
			}
			if n := rowsRead(t, db) - before; n > 10*len(ops) {
				t.Errorf("%s of %d cells reads %d rows of %d", what, len(ops), n, rows)
			}
		}
	})
}

// oldStatistics makes a table keep the statistics that ANALYZE made.
const oldStatistics = "STATS_PERSISTENT = 1, STATS_AUTO_RECALC = 0"

func cellsOf(ops []replicator.Op) (cells []replicator.Cell) {
	for _, op := range ops {
		cells = append(cells, op.Cell)
	}
	return cells
}

// rowsRead is how many rows the server has read one after the other, from a table or an index.
func rowsRead(t testing.TB, db *sql.DB) int {
	t.Helper()
	now := handlers(t, db)
	return now["Handler_read_next"] + now["Handler_read_rnd_next"]
}

// handlers are the server's counts of rows that it read and wrote.
func handlers(t testing.TB, db *sql.DB) map[string]int {
	t.Helper()
	rows, err := db.Query("SHOW GLOBAL STATUS LIKE 'Handler_%'")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	counts := map[string]int{}
	for rows.Next() {
		var name string
		var n int
		if err := rows.Scan(&name, &n); err != nil {
			t.Fatal(err)
		}
		counts[name] = n
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return counts
}
