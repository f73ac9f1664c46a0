package canal

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// If the binlog lacks changes, reading stops with an error that names the table and the log position.
func TestWhatTheBinlogDoesNotTellStopsReading(t *testing.T) {
	const row = "INSERT INTO cell(row_key, column_name, ref_key, body) VALUES ('k', 'c', 1, '{}')"
	cases := []struct {
		name     string
		kind     string // "": every kind
		before   []string
		session  []string
		mentions string
	}{
		{name: "truncate", session: []string{"TRUNCATE TABLE cell"}, mentions: "truncated"},
		{name: "truncate with database", session: []string{"/* a */ TRUNCATE `{db}`.`cell`"}, mentions: "truncated"},
		{name: "drop", session: []string{"DROP TABLE IF EXISTS other, cell"}, mentions: "dropped"},
		{name: "drop database", session: []string{"DROP DATABASE {db}"}, mentions: "dropped"},
		{name: "rename away", session: []string{"RENAME TABLE cell TO gone"}, mentions: "renamed"},
		{name: "rename into place", before: []string{"CREATE TABLE next LIKE cell"},
			session: []string{"RENAME TABLE cell TO old, next TO cell"}, mentions: "renamed"},
		{name: "alter rename", session: []string{"ALTER TABLE cell RENAME TO gone"}, mentions: "renamed"},
		{name: "drop partition",
			before:  []string{"CREATE TABLE p (row_key INT, ref_key INT, PRIMARY KEY(row_key)) PARTITION BY RANGE (row_key) (PARTITION a VALUES LESS THAN (10), PARTITION b VALUES LESS THAN MAXVALUE)"},
			session: []string{"ALTER TABLE p DROP PARTITION a"}, mentions: "partition"},
		{name: "truncate partition",
			before:  []string{"CREATE TABLE p (row_key INT, ref_key INT, PRIMARY KEY(row_key)) PARTITION BY RANGE (row_key) (PARTITION a VALUES LESS THAN (10), PARTITION b VALUES LESS THAN MAXVALUE)"},
			session: []string{"ALTER TABLE p TRUNCATE PARTITION a"}, mentions: "partition"},
		{name: "statement format", session: []string{"SET SESSION binlog_format = STATEMENT", row},
			mentions: "binlog_format"},
		{name: "statement format, from another database",
			session: []string{"SET SESSION binlog_format = STATEMENT", "USE mysql",
				"UPDATE {db}.cell SET body = 'x' WHERE added_at = 1"}, before: []string{row}, mentions: "binlog_format"},
		{name: "load data, statement format", session: []string{"SET SESSION binlog_format = STATEMENT",
			"LOAD DATA INFILE '{file}' INTO TABLE cell (row_key, column_name, ref_key)"}, mentions: "binlog_format"},
		{name: "role column dropped", session: []string{"ALTER TABLE cell DROP COLUMN body",
			"INSERT INTO cell(row_key, column_name, ref_key) VALUES ('k', 'c', 1)"}, mentions: "body"},
		{name: "role column replaced by two ALTERs", before: []string{"ALTER TABLE cell ADD body2 LONGTEXT"},
			session: []string{"ALTER TABLE cell RENAME COLUMN body TO body_old",
				"ALTER TABLE cell RENAME COLUMN body2 TO body", row}, mentions: "column body"},
		{name: "role column in another character set", session: []string{"ALTER TABLE cell MODIFY body LONGTEXT CHARACTER SET latin1"},
			mentions: "column body may have other values"},
		{name: "key is NULL", before: []string{"ALTER TABLE cell DROP INDEX cell_idx, MODIFY row_key BINARY(16) NULL"},
			session: []string{"INSERT INTO cell(column_name, ref_key) VALUES ('c', 1)"}, mentions: "row_key: it is NULL"},
		{name: "replaced", kind: "mariadb",
			session: []string{"CREATE OR REPLACE TABLE cell (added_at INT PRIMARY KEY)"}, mentions: "replaced"},
	}
	file := filepath.Join(t.TempDir(), "rows")
	if err := os.WriteFile(file, []byte("k\tc\t1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		for _, c := range cases {
			if c.kind != "" && !strings.HasPrefix(string(s.Kind), c.kind) {
				continue
			}
			t.Run(c.name, func(t *testing.T) {
				b := newBench(t, s)
				b.exec(cellDDL)
				for _, q := range c.before {
					b.exec(strings.ReplaceAll(q, "{db}", b.database))
				}
				tables := []replicator.Table{cellTable()}
				if strings.Contains(strings.Join(c.before, ""), "TABLE p ") {
					tables = append(tables, replicator.Table{Name: "p", Key: []string{"row_key"}})
				}
				src := b.source(tables...)
				from := b.latest(src)
				x := b.read(b.open(src, from))
				var session []string
				for _, q := range c.session {
					session = append(session, strings.NewReplacer("{db}", b.database, "{file}", file).Replace(q))
				}
				b.session(session...)
				err := x.failure()
				stops := replicator.IsFatal(err) || errors.Is(err, replicator.ErrUnlogged)
				if !stops || !strings.Contains(err.Error(), c.mentions) || !strings.Contains(err.Error(), "binlog.0") {
					t.Errorf("reading ended with %v (stops: %t), want an error that stops, with %q and a place", err, stops,
						c.mentions)
				}
				if strings.Contains(err.Error(), "REPEAT") || strings.Contains(err.Error(), "INSERT INTO") {
					t.Errorf("the error shows a statement: %v", err)
				}
			})
		}
	})
}

// MariaDB logs a rolled-back transaction if the transaction created or dropped a temporary table.
func TestATransactionThatIsLoggedAndRolledBackIsAMatterOfItsTables(t *testing.T) {
	const tmp, p, q = "CREATE TEMPORARY TABLE tmp (id INT)", "INSERT INTO p VALUES (1), (2)", "INSERT INTO q VALUES (1)"
	servertest.EachKindOf(t, []servers.Kind{servers.MariaDB1011, servers.MariaDB118}, func(t *testing.T, kind servers.Kind) {
		for name, session := range map[string][]string{
			"made":    {"BEGIN", p, q, "UPDATE p SET id = 3 WHERE id = 2", tmp, "ROLLBACK"},
			"dropped": {tmp, "BEGIN", p, q, "DROP TEMPORARY TABLE tmp", "ROLLBACK"},
			"in part": {"BEGIN", "SAVEPOINT s", p, q, tmp, "ROLLBACK TO s", "COMMIT"},
		} {
			t.Run(name, func(t *testing.T) {
				b := newBench(t, servertest.Shared(t, kind))
				var tables []replicator.Table
				var views []*replicator.View
				for _, name := range []string{"p", "q", "other"} {
					b.exec("CREATE TABLE " + name + " (id INT PRIMARY KEY)")
					tables = append(tables, replicator.Table{Name: name, Key: []string{"id"}})
					views = append(views, &replicator.View{Name: name, From: []replicator.Feed{{Table: name}}})
				}
				src := b.source(tables...)
				from := b.latest(src)
				x := b.read(b.open(src, from))
				b.session(session...)
				b.exec("INSERT INTO other VALUES (1)")
				err := x.failure()
				if !errors.Is(err, replicator.ErrUnlogged) || !strings.Contains(err.Error(), "rolled back") {
					t.Errorf("reading ended with %v, want that it was rolled back", err)
				}
				groups, others := replicator.Troubled(views, err)
				if len(groups) != 2 || len(others) != 1 || others[0].Name != "other" {
					t.Errorf("it concerns %d groups of views, and not %d views", len(groups), len(others))
				}
				r, err := src.Open(testContext(t), []replicator.Position{from}, "other")
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { r.Close() })
				if got := b.read(r.(*Reader)).upTo(b.latest(src)); len(got) != 1 {
					t.Errorf("of the other table %d changes were read, want one", len(got))
				}
			})
		}
	})
}

// These statements look like trouble, but don't affect the watched tables.
func TestWhatDoesNotMatterIsReadOver(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newBench(t, s)
		b.exec(cellDDL, "CREATE TABLE other (id INT PRIMARY KEY, j LONGTEXT, v INT)",
			"CREATE TABLE myisam (id INT PRIMARY KEY) ENGINE=MyISAM")
		src := b.source(cellTable())
		from := b.latest(src)
		x := b.read(b.open(src, from))
		b.session("SET SESSION binlog_format = STATEMENT", "INSERT INTO other VALUES (1, 'INSERT INTO cell', 1)",
			"UPDATE other SET v = 2 WHERE j = \"cell\"")
		b.session("SET SESSION binlog_row_image = MINIMAL", "UPDATE other SET v = 3")
		b.session("XA START 'y'", "INSERT INTO other VALUES (2, '', 0)", "XA END 'y'", "XA PREPARE 'y'", "XA COMMIT 'y'")
		b.session("START TRANSACTION",
			"INSERT INTO cell(row_key, column_name, ref_key, body) VALUES ('k', 'c', 1, 'a')", "SAVEPOINT s",
			"INSERT INTO cell(row_key, column_name, ref_key, body) VALUES ('k', 'c', 2, 'b')", "ROLLBACK TO s",
			"INSERT INTO cell(row_key, column_name, ref_key, body) VALUES ('k', 'c', 3, 'c')", "COMMIT")
		b.session("START TRANSACTION", "INSERT INTO cell(row_key, column_name, ref_key) VALUES ('z', 'c', 1)", "ROLLBACK")
		b.exec("CREATE TABLE copy AS SELECT * FROM cell", "TRUNCATE TABLE other",
			"ALTER TABLE other ADD COLUMN cell INT, RENAME TO moved", "DROP TABLE moved",
			"INSERT INTO myisam VALUES (1)", "CREATE TEMPORARY TABLE tmp AS SELECT * FROM cell", "DROP TABLE copy", "FLUSH LOGS",
			"ALTER TABLE cell ADD COLUMN extra VARCHAR(10) DEFAULT 'x' FIRST, ADD INDEX (ref_key)", "ANALYZE TABLE cell",
			"INSERT INTO cell(row_key, column_name, ref_key, body) VALUES ('k', 'c', 4, 'd')",
			"ALTER TABLE cell RENAME COLUMN extra TO more", "ALTER TABLE cell DROP COLUMN more",
			"ALTER TABLE cell RENAME COLUMN body TO Body", "ALTER TABLE cell RENAME TO cell", "CREATE INDEX i ON cell(column_name)", "DROP INDEX i ON cell",
			"INSERT INTO cell(row_key, column_name, ref_key, body) VALUES ('k', 'c', 5, 'e')")
		const k = "6b000000000000000000000000000000"
		wantChanges(t, x.upTo(b.latest(src)), "insert cell.c "+k+" v1 a", "insert cell.c "+k+" v3 c",
			"insert cell.c "+k+" v4 d", "insert cell.c "+k+" v5 e")
	})
}

// A reader of some tables does not need the other tables, and ignores everything that happens to them.
func TestWhatHappensToATableThatIsNotReadDoesNotMatter(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newBench(t, s)
		b.exec(cellDDL, "CREATE TABLE other (id INT PRIMARY KEY, v INT)")
		src := b.source(cellTable(), replicator.Table{Name: "other", Key: []string{"id"}, Columns: []string{"v"}})
		from := b.latest(src)
		b.exec("INSERT INTO other VALUES (1, 1)", "TRUNCATE TABLE other", "ALTER TABLE other RENAME COLUMN v TO w",
			"INSERT INTO other VALUES (2, 2)",
			"DROP TABLE other", "INSERT INTO cell(row_key, column_name, ref_key, body) VALUES ('k', 'c', 1, 'a')")
		r, err := src.Open(testContext(t), []replicator.Position{from}, "cell")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		wantChanges(t, b.read(r.(*Reader)).upTo(b.latest(src)), "insert cell.c 6b000000000000000000000000000000 v1 a")
	})
}

// If InnoDB itself executes the foreign keys, the changes by a cascade are not in the binlog. Check then names the
// affected tables.
func TestCheckWarnsOfCascadesThatAreNotLogged(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newBench(t, s)
		b.exec("CREATE TABLE parent (id INT PRIMARY KEY)", "INSERT INTO parent VALUES (1)",
			"CREATE TABLE strict (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id))",
			"CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id) ON UPDATE CASCADE)",
			"INSERT INTO child VALUES (1, 1)")
		src := b.source(replicator.Table{Name: "parent", Key: []string{"id"}},
			replicator.Table{Name: "strict", Key: []string{"id"}},
			replicator.Table{Name: "child", Key: []string{"id"}})
		from := b.latest(src)
		b.exec("UPDATE parent SET id = 2")
		logged := slices.ContainsFunc(b.changes(src, from), func(c replicator.Change) bool { return c.Cell.Table == "child" })
		var warned []string
		for _, f := range src.Check(testContext(t)) {
			if strings.Contains(f.Detail, "foreign key") {
				warned = append(warned, f.What)
			}
		}
		if want := []string{"table child"}; logged && warned != nil || !logged && !slices.Equal(warned, want) {
			t.Errorf("what a cascade changes is logged: %t; warned of %v", logged, warned)
		}
	})
}

func TestReadingGoesOnOverFiles(t *testing.T) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		b := newBench(t, servertest.Own(t, kind))
		b.exec(cellDDL)
		src := b.source(cellTable())
		from := b.latest(src)
		x := b.read(b.open(src, from))
		for range 3 {
			b.exec("INSERT INTO cell(row_key, column_name, ref_key) VALUES ('k', 'c', LAST_INSERT_ID() + 1 + UNIX_TIMESTAMP(NOW(6)) * 1000000)", "FLUSH BINARY LOGS")
		}
		end := b.latest(src)
		if got := len(x.upTo(end)); got != 3 {
			t.Errorf("%d changes, want 3", got)
		}
		x.end()
		p := x.reader.Position(x.last())
		if p.Order < end.Order {
			t.Errorf("position %s is before %s", Describe(p.Token), Describe(end.Token))
		}
		// After the purge, the old position is lost, but the new one is not.
		now, err := parseToken(p.Token)
		if err != nil {
			t.Fatal(err)
		}
		// MariaDB keeps files that a connection may be reading, until it notices that the connection is gone.
		for oldest := ""; oldest != now.File; {
			b.exec("PURGE BINARY LOGS TO '" + now.File + "'")
			logs, err := logFiles(testContext(t), b.db)
			if err != nil {
				t.Fatal(err)
			}
			oldest = logs[0].name
		}
		if _, err := src.Open(testContext(t), []replicator.Position{from}); !errors.Is(err, replicator.ErrLost) {
			t.Errorf("opening a purged position: %v, want ErrLost", err)
		}
		if b.changes(src, p); t.Failed() {
			t.Error("the new position can't be read")
		}
	})
}
