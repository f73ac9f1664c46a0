package matrix

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"replicator/internal/lab"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// thingsTable is a table for which the binlog may lack parts of a row. twice and minus of a row are computed from n.
const thingsTable = `CREATE TABLE things (
  id INT NOT NULL PRIMARY KEY,
  n BIGINT NOT NULL,
  twice BIGINT AS (n * 2) STORED,
  minus BIGINT AS (-n) VIRTUAL,
  doc JSON,
  body TEXT,
  kind ENUM('a', 'b', 'c') NOT NULL,
  tags SET('x', 'y', 'z') NOT NULL,
  label VARCHAR(40) NOT NULL,
  amount DECIMAL(10,2) NOT NULL
) DEFAULT CHARSET=utf8mb4 PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (20),
  PARTITION p1 VALUES LESS THAN (40), PARTITION p2 VALUES LESS THAN (60), PARTITION p3 VALUES LESS THAN MAXVALUE)`

// untold is a series of changes that the binlog only contains in part, or not at all. Each session is a list of
// statements. {n} in a statement is a number above the n of all rows before the changes.
type untold struct {
	name     string
	sessions [][]string
	only     func(servers.Kind) bool // the kinds of server that support it; nil: all
}

func onMySQL(kind servers.Kind) bool   { return !kind.IsMariaDB() }
func onMariaDB(kind servers.Kind) bool { return kind.IsMariaDB() }

// The changes only delete rows with an n that the writers have already passed. Otherwise, a writer could insert such a
// row again with a lower n.
var (
	changes = []string{"DELETE FROM things WHERE id % 7 = 3 AND n < {n}", "UPDATE things SET n = GREATEST(n, {n}) WHERE id % 3 = 0",
		"UPDATE things SET label = 'changed', n = GREATEST(n, {n}) WHERE id BETWEEN 15 AND 25",
		"INSERT IGNORE INTO things (id, n, doc, body, kind, tags, label, amount) VALUES (200, {n}, '{}', 'new', 'b', 'x', 'new', 1)",
		"UPDATE things SET n = GREATEST(n, {n}), doc = JSON_SET(doc, '$.n', {n}) WHERE id % 5 = 1"}
	filled = "INSERT INTO other (id, n, doc, body, kind, tags, label, amount) " +
		"SELECT id, {n} + id, doc, body, kind, tags, 'other', 5 FROM things"
)

// in returns a session that begins with a statement and then makes the changes.
func in(setting string) [][]string { return [][]string{append([]string{setting}, changes...)} }

// altered returns sessions that alter the table so that values change, and alter it back.
func altered(there, back string) [][]string {
	return [][]string{{"SET SESSION sql_mode = ''", "ALTER TABLE things MODIFY " + there},
		{"SET SESSION sql_mode = ''", "ALTER TABLE things MODIFY " + back}}
}

// allUntold lists the cases of the test. Each case ends with the same columns and partitions as before.
var allUntold = []untold{
	{name: "MINIMAL images in a session", sessions: in("SET SESSION binlog_row_image = MINIMAL")},
	{name: "NOBLOB images in a session", sessions: in("SET SESSION binlog_row_image = NOBLOB")},
	{name: "MINIMAL images of all", sessions: [][]string{{"SET GLOBAL binlog_row_image = MINIMAL"}, changes, {"SET GLOBAL binlog_row_image = FULL"}}},
	{name: "NOBLOB images of all", sessions: [][]string{{"SET GLOBAL binlog_row_image = NOBLOB"}, changes, {"SET GLOBAL binlog_row_image = FULL"}}},
	{name: "PARTIAL_JSON", sessions: in("SET SESSION binlog_row_value_options = PARTIAL_JSON"), only: onMySQL},
	{name: "generated columns", sessions: [][]string{changes}, only: onMariaDB},
	{name: "XA that is committed", sessions: [][]string{xa("prepared"), {"XA COMMIT 'prepared'"}}},
	{name: "XA that is rolled back", sessions: [][]string{xa("in vain"), {"XA ROLLBACK 'in vain'"}}},
	{name: "TRUNCATE", sessions: [][]string{{"TRUNCATE TABLE things"}}},
	{name: "DROP and CREATE", sessions: [][]string{{"DROP TABLE things"}, {thingsTable}}},
	{name: "TRUNCATE PARTITION", sessions: [][]string{{"ALTER TABLE things TRUNCATE PARTITION p1"}}},
	{name: "DROP PARTITION", sessions: [][]string{{"ALTER TABLE things DROP PARTITION p0",
		"ALTER TABLE things REORGANIZE PARTITION p1 INTO (PARTITION p0 VALUES LESS THAN (20), PARTITION p1 VALUES LESS THAN (40))"}}},
	{name: "EXCHANGE PARTITION", sessions: [][]string{{"CREATE TABLE other LIKE things", "ALTER TABLE other REMOVE PARTITIONING",
		filled + " WHERE id >= 40 AND id < 60 AND id % 4 > 0"}, {"ALTER TABLE things EXCHANGE PARTITION p2 WITH TABLE other", "DROP TABLE other"}}},
	{name: "another table in its place", sessions: [][]string{{"CREATE TABLE other LIKE things", filled + " WHERE id % 4 > 0"},
		{"RENAME TABLE things TO gone, other TO things", "DROP TABLE gone"}}},
	{name: "STATEMENT format", sessions: in("SET SESSION binlog_format = STATEMENT")},
	{name: "ENUM in another order", sessions: altered("kind ENUM('c', 'b', 'a') NOT NULL", "kind ENUM('a', 'b', 'c') NOT NULL")},
	{name: "ENUM without members", sessions: altered("kind ENUM('b', 'd') NOT NULL", "kind ENUM('a', 'b', 'c') NOT NULL")},
	{name: "SET without members", sessions: altered("tags SET('z', 'x') NOT NULL", "tags SET('x', 'y', 'z') NOT NULL")},
	{name: "another charset", sessions: altered("label VARCHAR(40) CHARACTER SET latin1 NOT NULL", "label VARCHAR(40) NOT NULL")},
	{name: "all in another charset", sessions: [][]string{{"SET SESSION sql_mode = ''", "ALTER TABLE things CONVERT TO CHARACTER SET latin1"},
		{"ALTER TABLE things CONVERT TO CHARACTER SET utf8mb4"}}},
	{name: "text made a number", sessions: altered("label INT NOT NULL", "label VARCHAR(40) NOT NULL")},
	{name: "decimals rounded", sessions: altered("amount DECIMAL(10,0) NOT NULL", "amount DECIMAL(10,2) NOT NULL")},
	{name: "an ALTER that is not understood", sessions: [][]string{
		{"ALTER TABLE things ALGORITHM = COPY, ADD x INT FIRST, ORDER BY n, label"}, {"ALTER TABLE things ALGORITHM = COPY, DROP COLUMN x"}}},
	{name: "column dropped and back", sessions: [][]string{{"ALTER TABLE things DROP COLUMN amount"},
		{"ALTER TABLE things ADD COLUMN amount DECIMAL(10,2) NOT NULL DEFAULT 7.25 AFTER n, ALGORITHM = COPY"}}},
	{name: "column renamed and back", sessions: [][]string{{"ALTER TABLE things RENAME COLUMN label TO moved",
		"UPDATE things SET moved = 'moved', n = GREATEST(n, {n}) WHERE id % 2 = 0"}, {"ALTER TABLE things RENAME COLUMN moved TO label"}}},
	{name: "table renamed away and back", sessions: [][]string{{"RENAME TABLE things TO away",
		"UPDATE away SET label = 'away', n = GREATEST(n, {n}) WHERE id % 2 = 0"}, {"RENAME TABLE away TO things"}}},
	{name: "table dropped and another one back", sessions: [][]string{{"CREATE TABLE other LIKE things", filled + " WHERE id % 4 > 0"},
		{"DROP TABLE things"}, {"RENAME TABLE other TO things"}}},
}

// xa returns a session that makes the changes in an XA transaction and prepares it.
func xa(name string) []string {
	return append(append([]string{"XA START '" + name + "'"}, changes...), "XA END '"+name+"'", "XA PREPARE '"+name+"'")
}

// No operator has to act if the binlog lacks changes. Whatever happens at the source while writers write, and wherever
// the program is killed, the views of all sinks equal the source at the end. No reader sees an older row than before.
func TestWhatTheBinlogDoesNotTellIsReadFromTheSource(t *testing.T) {
	rounds := 1
	if os.Getenv("REPLICATOR_SOAK") != "" {
		rounds = 10
	}
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		seed := uint64(time.Now().UnixNano())
		if given := os.Getenv("REPLICATOR_SEED"); given != "" {
			if _, err := fmt.Sscan(given, &seed); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("seed %d", seed)
		w := newThings(t, kind, seed)
		w.program.CatchUp()
		stop := w.watch()
		for range rounds {
			stopWriters := w.write()
			for _, i := range w.r.Perm(len(allUntold)) {
				if u := allUntold[i]; u.only == nil || u.only(kind) {
					w.happens(u)
				}
			}
			w.moment()
			stopWriters()
			w.kill()
			w.program.CatchUp()
			w.compare()
			w.program.Run("verify")
		}
		stop()
		w.readLog()
	})
}

// happens runs the sessions of a case, with pauses between them. {n} is above every n that the writers write meanwhile.
// After the case, the writers write numbers above {n}. So no row of the source goes back.
func (w *things) happens(u untold) {
	w.t.Helper()
	w.t.Logf("%s %s", time.Now().Format("15:04:05.000"), u.name)
	n := w.last.Load() + 1_000_000
	for _, session := range u.sessions {
		w.moment()
		w.session(strings.ReplaceAll(strings.Join(session, ";\n"), "{n}", fmt.Sprint(n)))
	}
	w.last.Store(n + 1000)
	w.next()
}

// session runs statements with one client, and retries them after errors that concurrent writers can cause. Examples
// are a deadlock, and a duplicate entry that only exists while an ALTER applies their writes. It also retries if the
// server does not know an XA transaction by name yet, because the client that prepared it has not disconnected.
func (w *things) session(statements string) {
	w.t.Helper()
	lab.Await(w.t, statements, func() bool {
		_, err := w.source.Rows(w.t.Context(), statements)
		if err == nil {
			return true
		}
		for _, passing := range []string{"ERROR 1062", "ERROR 1205", "ERROR 1213", "ERROR 1397", "ERROR 1614"} {
			if strings.Contains(err.Error(), passing) {
				w.t.Logf("once more: %v", err)
				return false
			}
		}
		w.t.Fatal(err)
		return false
	})
}

// moment lets the program work for a while. It starts the program if it is down, and sometimes kills it.
func (w *things) moment() {
	w.t.Helper()
	most := []int{20, 300, 1000}[w.r.IntN(3)]
	lab.Pause(w.t, time.Duration(w.r.IntN(most))*time.Millisecond)
	switch {
	case w.running == nil:
		w.running = w.program.Start()
	case w.r.IntN(3) == 0:
		w.kill()
	}
}

func (w *things) kill() {
	w.t.Helper()
	if w.running != nil {
		w.running.Kill()
		w.running = nil
	}
}

// thingsStatement returns a writer's statement that changes a row.
func thingsStatement(r *rand.Rand, id int, n int64) string {
	label := fmt.Sprintf("é学 %d", n)
	if r.IntN(2) == 0 {
		label = fmt.Sprintf("%03d", n%1000)
	}
	kind, tags := string("abc"[r.IntN(3)]), []string{"", "x", "y", "z", "x,z", "x,y,z"}[r.IntN(6)]
	amount := fmt.Sprintf("%d.%02d", n%1000, r.IntN(100))
	switch r.IntN(10) {
	case 0:
		return fmt.Sprintf("DELETE FROM things WHERE id = %d AND n < %d", id, n)
	case 1, 2:
		return fmt.Sprintf("UPDATE things SET n = GREATEST(n, %d), doc = JSON_SET(doc, '$.n', %[1]d) WHERE id = %d", n, id)
	case 3:
		return fmt.Sprintf("UPDATE things SET n = GREATEST(n, %d), kind = '%s' WHERE id = %d", n, kind, id)
	case 4:
		return fmt.Sprintf("UPDATE things SET label = '%s', n = GREATEST(n, %d) WHERE id = %d", label, n, id)
	default:
		return fmt.Sprintf("INSERT INTO things (id, n, doc, body, kind, tags, label, amount) "+
			"VALUES (%[1]d, %[2]d, JSON_OBJECT('n', %[2]d, 'pad', '%[3]s'), 'body %[2]d', '%[4]s', '%[5]s', '%[6]s', %[7]s) ON DUPLICATE KEY UPDATE "+
			"n = GREATEST(n, %[2]d), body = 'body %[2]d', kind = '%[4]s', tags = '%[5]s', label = '%[6]s', amount = %[7]s",
			id, n, strings.Repeat("p", 300), kind, tags, label, amount)
	}
}
