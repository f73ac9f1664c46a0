package main

import (
	"cmp"
	"slices"
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// The key of these tables is the primary key, is another key, or has several rows. Views of each table follow.
var (
	incompleteTables = []string{
		"CREATE TABLE item (id BIGINT PRIMARY KEY, twice INT AS (amt * 2) VIRTUAL, name VARCHAR(20) DEFAULT 'none', " +
			"thrice INT AS (amt * 3) STORED, amt INT, note TEXT, other INT)",
		"CREATE TABLE doc (n BIGINT AUTO_INCREMENT PRIMARY KEY, id VARCHAR(20) NOT NULL, body JSON, amt INT, UNIQUE KEY (id))",
		"CREATE TABLE ver (id BIGINT, v INT, name VARCHAR(20), note TEXT, PRIMARY KEY (id, v))",
	}
	incompleteViews = `
[tables.item]
key = "id"
[tables.doc]
key = "id"
body = "body"
codec = "json"
[tables.ver]
key = "id"
version = "v"
[views.v_item]
from = "item"
sink = "main"
kind = "row"
key = { id = "$id" }
fields = ["name", "amt", "note", "twice"]
create = true
[views.v_amounts]
from = "item"
sink = "main"
kind = "counter"
group = ["name"]
sum = { amt = "amt" }
create = true
[views.v_doc]
from = "doc"
sink = "main"
kind = "row"
key = { id = "$id" }
fields = { email = "email", n = "n" }
create = true
[views.v_ver]
from = "ver"
sink = "main"
kind = "row"
key = { id = "$id" }
fields = ["name", "note"]
create = true
`
)

// Views match the source even if the binlog has only parts of the rows.
func TestViewsOfRowsThatTheBinlogHoldsInPartAreReadFromTheSource(t *testing.T) {
	t.Parallel()
	minimal, noblob := "SET SESSION binlog_row_image = MINIMAL", "SET SESSION binlog_row_image = NOBLOB"
	partial := "SET SESSION binlog_row_value_options = PARTIAL_JSON"
	pad := "JSON_OBJECT('pad', REPEAT('x', 5000), 'email', 'a@x.org', 'n', 1)"
	first := []string{
		"INSERT INTO item (id, amt) VALUES (4, 4), (5, 5)", "UPDATE item SET amt = amt + 10 WHERE id <= 2",
		"UPDATE item SET note = CONCAT(note, '!') WHERE id = 2", "UPDATE item SET id = 6 WHERE id = 1", "DELETE FROM item WHERE id = 3",
		"INSERT INTO doc (id, body) VALUES ('c', '{\"email\": \"c@x.org\"}')", "UPDATE doc SET amt = 7 WHERE id = 'a'",
		"UPDATE doc SET body = JSON_SET(body, '$.n', 2) WHERE id = 'a'", "DELETE FROM doc WHERE id = 'b'",
		"INSERT INTO ver VALUES (1, 3, 'three', 'c')", "UPDATE ver SET name = 'two!' WHERE v = 2", "DELETE FROM ver WHERE v = 3",
	}
	then := []string{
		"REPLACE INTO item (id, amt) VALUES (4, 40)", "INSERT INTO item (id, amt) VALUES (5, 1) ON DUPLICATE KEY UPDATE amt = 50, note = NULL",
		"UPDATE item SET other = 1", "BEGIN", "UPDATE item SET name = 'x' WHERE id = 6", "DELETE FROM item WHERE id = 2",
		"INSERT INTO item (id, note) VALUES (2, 'again')", "COMMIT", "UPDATE doc SET id = 'd' WHERE id = 'a'",
		"UPDATE doc SET body = JSON_SET(body, '$.email', 'd@x.org') WHERE id = 'd'", "UPDATE ver SET v = 0 WHERE v = 2",
		"UPDATE ver SET id = 2 WHERE id = 1 AND v = 0", "UPDATE ver SET note = 'z' WHERE v = 1",
	}
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		for name, c := range map[string]struct {
			session []string
			xa      string // how the transactions end; "": they are not XA transactions
		}{
			"NOBLOB":                   {session: []string{noblob}},
			"PARTIAL_JSON":             {session: []string{partial}},
			"MINIMAL and PARTIAL_JSON": {session: []string{minimal, partial}},
			"XA that is rolled back":   {xa: "ROLLBACK"},
			"XA and MINIMAL":           {session: []string{minimal}, xa: "COMMIT"},
		} {
			if slices.Contains(c.session, partial) && s.Kind.IsMariaDB() {
				continue
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				l := newBareLab(t, s)
				l.exec(incompleteTables...)
				l.exec("INSERT INTO item (id, name, amt, note) VALUES (1, 'a', 1, 'one'), (2, 'b', 2, 'two'), (3, 'c', 3, 'three')",
					"INSERT INTO doc (id, body) VALUES ('a', "+pad+"), ('b', "+pad+")",
					"INSERT INTO ver VALUES (1, 1, 'one', 'a'), (1, 2, 'two', 'b'), (7, 1, 'seven', 'g')")
				l.configure(source, program, mainSink, incompleteViews)
				p := l.running()
				l.caughtUp()
				id := "'" + l.database + "'"
				begin := func(statements []string) { // it prepares an XA transaction but does not end it
					if c.xa != "" {
						statements = slices.DeleteFunc(slices.Clone(statements), func(q string) bool { return q == "BEGIN" || q == "COMMIT" })
						statements = slices.Concat([]string{"XA START " + id}, statements, []string{"XA END " + id, "XA PREPARE " + id})
					}
					l.endedSession(slices.Concat(c.session, statements)...)
				}
				end := func() {
					if c.xa != "" {
						l.session("XA " + c.xa + " " + id)
					}
				}
				begin(first)
				end()
				l.caughtUp()
				l.showsTheSource()
				begin(then[:4])
				p.kill()
				end()
				begin(then[3:])
				p = l.running()
				end()
				l.caughtUp()
				l.showsTheSource()
				l.must("verify")
				p.stop()
			})
		}
	})
}

// showsTheSource fails the test unless the views match the incompleteTables.
func (l *lab) showsTheSource() {
	l.t.Helper()
	l.expectLike("SELECT id, name, amt, note, twice FROM v_item ORDER BY 1", "SELECT id, name, amt, note, twice FROM item ORDER BY 1")
	l.expectLike("SELECT name, amt FROM v_amounts WHERE amt <> 0 ORDER BY 1",
		"SELECT name, SUM(amt) FROM item GROUP BY name HAVING SUM(amt) <> 0 ORDER BY 1")
	l.expectLike("SELECT id, email, n FROM v_doc ORDER BY 1",
		"SELECT id, JSON_UNQUOTE(JSON_EXTRACT(body, '$.email')), JSON_EXTRACT(body, '$.n') FROM doc ORDER BY 1")
	l.expectLike("SELECT id, name, note FROM v_ver ORDER BY 1",
		"SELECT id, name, note FROM ver a WHERE v = (SELECT MAX(v) FROM ver b WHERE a.id = b.id) ORDER BY 1")
}

// endedSession runs session and waits until the server has ended the connection. Before that, MariaDB does not find an
// XA transaction that was prepared on the connection.
func (l *lab) endedSession(statements ...string) {
	l.t.Helper()
	db := l.connect(l.server, l.database)
	db.SetMaxOpenConns(1)
	id := rowsOf(l.t, db, "SELECT CONNECTION_ID()")[0]
	execAll(l.t, db, statements...)
	db.Close()
	eventually(l.t, func() error {
		left, err := l.sessions("id = " + id)
		return cmp.Or(err, as(len(left) == 0, "the server has ended the session"))
	})
}
