package survey_test

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/survey"
)

// source is a database, and an account that may only SELECT from it. The tests survey the database as that account.
type source struct {
	t    *testing.T
	db   *sql.DB // as root
	name string
	addr string
}

func newSource(t *testing.T, s *servers.Server) *source {
	t.Helper()
	src := &source{t: t, name: servertest.Database(t, s), addr: s.Addr()}
	db, err := sql.Open("mysql", s.DSN(src.name))
	if err != nil {
		t.Fatal(err)
	}
	src.db = db
	src.exec("CREATE USER "+src.name+"@'%' IDENTIFIED BY 'hunter2'", "GRANT SELECT ON "+src.name+".* TO "+src.name+"@'%'")
	t.Cleanup(func() {
		_, _ = db.Exec("DROP USER " + src.name + "@'%'") // another test uses another account
		db.Close()
	})
	return src
}

func (s *source) exec(statements ...string) {
	s.t.Helper()
	for _, text := range statements {
		if _, err := s.db.ExecContext(s.t.Context(), text); err != nil {
			s.t.Fatalf("%.100s: %v", text, err)
		}
	}
}

func (s *source) dsn(database string) string {
	return fmt.Sprintf("%s:hunter2@tcp(%s)/%s", s.name, s.addr, database)
}

// read surveys the source.
func (s *source) read(tables ...string) *survey.Database {
	s.t.Helper()
	db, err := survey.Read(s.t.Context(), s.dsn(s.name), tables)
	if err != nil {
		s.t.Fatal(err)
	}
	return db
}

// written returns the configuration that is written for the source.
func (s *source) written() string {
	s.t.Helper()
	return writtenDB(s.t, s.read())
}

// fill inserts n rows made by a select list, in which i counts the rows from 1.
func (s *source) fill(table string, n int, list string) {
	s.t.Helper()
	conn, err := s.db.Conn(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	_, err = conn.ExecContext(s.t.Context(),
		fmt.Sprintf("INSERT INTO %s SELECT %s FROM (SELECT i + 1 AS i FROM %s) AS n ORDER BY i", table, list,
			servertest.Numbers(n)))
	if err != nil {
		s.t.Fatal(err)
	}
}

func TestColumnsKeysAndRowsAreReadAsTheServerHasThem(t *testing.T) {
	servertest.Each(t, func(t *testing.T, server *servers.Server) {
		s := newSource(t, server)
		s.exec("CREATE TABLE `an odd.``table``` (`the key` VARCHAR(20) CHARACTER SET latin1 PRIMARY KEY, `sort` INT)",
			"CREATE TABLE keyed (n BIGINT AUTO_INCREMENT PRIMARY KEY, maybe INT NULL, a CHAR(3) NOT NULL, b INT UNSIGNED NOT "+
				"NULL, made INT AS (b + 1) STORED, body TEXT, "+
				"UNIQUE (maybe), UNIQUE (a, b), UNIQUE prefixed (body(20)), KEY (b))",
			"CREATE TABLE secondary (a INT NOT NULL, b BINARY(16) NOT NULL, UNIQUE KEY `odd name` (b, a))",
			"CREATE TABLE keyless (a INT)",
			"CREATE VIEW viewed AS SELECT * FROM keyed",
			"INSERT INTO `an odd.``table``` VALUES ('Größe', 1)", "INSERT INTO secondary VALUES (1, REPEAT('x', 16))",
			"INSERT INTO keyed (a, b, body) VALUES ('abc', 1, '{\"x\": 1}'), ('abd', 2, NULL)")
		db := s.read()
		var names []string
		for _, table := range db.Tables {
			names = append(names, table.Name)
		}
		if got := strings.Join(names, ", "); got != "an odd.`table`, keyed, keyless, secondary" {
			t.Errorf("tables: %s", got)
		}
		keyed := db.Tables[1]
		if got := fmt.Sprint(keyed.Primary, keyed.Unique, keyed.Rows); got != "[n] [[n] [a b]] 2" {
			t.Errorf("keyed: %s", got)
		}
		if got := fmt.Sprintf("%+v", keyed.Columns[3]); !strings.Contains(got, "Name:b DataType:int") ||
			!keyed.Columns[0].Auto || !keyed.Columns[4].Generated || !keyed.Columns[1].Nullable {
			t.Errorf("columns: %+v", keyed.Columns)
		}
		if got := fmt.Sprintf("%q", keyed.Values["body"]); got != `["" "{\"x\": 1}"]` || keyed.Values["body"][0] != nil {
			t.Errorf("bodies, the newest first: %s", got)
		}
		if got := fmt.Sprint(db.Tables[3].Unique, db.Tables[3].Rows, db.Tables[2].Unique); got != "[[b a]] 1 []" {
			t.Errorf("secondary and keyless: %s", got)
		}
		if got := string(db.Tables[0].Values["the key"][0]); got != "Größe" {
			t.Errorf("latin1: %q", got)
		}
	})
}

// The server interprets a database's name in the connection's character set, and sends values in that character set.
func TestTheCharacterSetOfADSNChangesNothing(t *testing.T) {
	servertest.Each(t, func(t *testing.T, server *servers.Server) {
		s := newSource(t, server)
		odd := s.name + "_größe"
		s.exec("CREATE DATABASE `"+odd+"`", "GRANT SELECT ON `"+odd+"`.* TO "+s.name+"@'%'",
			"CREATE TABLE `"+odd+"`.`straße` (name VARCHAR(20) CHARACTER SET utf8mb4 PRIMARY KEY)",
			"INSERT INTO `"+odd+"`.`straße` VALUES ('Köln 日本')")
		defer s.exec("DROP DATABASE `" + odd + "`")
		db, err := survey.Read(t.Context(), s.dsn(odd)+"?charset=latin1&collation=latin1_swedish_ci", nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(db.Tables) != 1 || db.Tables[0].Name != "straße" || string(db.Tables[0].Values["name"][0]) != "Köln 日本" {
			t.Errorf("read %+v", db.Tables)
		}
	})
}

func TestASampleOfABigTableIsSmall(t *testing.T) {
	servertest.Each(t, func(t *testing.T, server *servers.Server) {
		s := newSource(t, server)
		s.exec("CREATE TABLE cell (added_at BIGINT AUTO_INCREMENT PRIMARY KEY, row_key BINARY(16) NOT NULL, column_name "+
			"VARCHAR(64) NOT NULL, ref_key BIGINT NOT NULL, "+
			"body BLOB, UNIQUE (row_key, column_name, ref_key))",
			"CREATE TABLE keyed (a INT NOT NULL, b INT NOT NULL, body TEXT, UNIQUE (b))",
			"CREATE TABLE long_bodies (id INT PRIMARY KEY, body LONGBLOB)")
		s.fill("cell (row_key, column_name, ref_key, body)", 30000,
			"UNHEX(LPAD(HEX(i), 32, '0')), IF(i BETWEEN 12000 AND 18000, 'seldom', 'users'), i, CONCAT('{\"n\": ', i, '}')")
		s.fill("keyed (a, b, body)", 30000, "i, i, '{}'")
		s.fill("long_bodies", 40, "i, RPAD('{}', 262144 + i % 2, ' ')")
		before := s.rowsRead()
		db := s.read()
		if n := s.rowsRead() - before; n > 8000 { // OFFSET reads the rows that it skips
			t.Errorf("%d rows were read", n)
		}
		cells, keyed, long := db.Tables[0], db.Tables[1], db.Tables[2]
		if cells.Rows != 450 || string(cells.Values["body"][0]) != `{"n": 30000}` {
			t.Errorf("%d cells, the first %s", cells.Rows, cells.Values["body"][0])
		}
		if keyed.Rows != 450 || string(keyed.Values["b"][0]) != "30000" {
			t.Errorf("%d rows by a secondary key, the first %s", keyed.Rows, keyed.Values["b"][0])
		}
		if long.Rows != 25 || long.TooLong["body"] != 12 {
			t.Errorf("%d long rows, %d of them too long", long.Rows, long.TooLong["body"])
		}
		if text := s.written(); !strings.Contains(text, "[views.index_seldom_n]") {
			t.Errorf("what is in the middle of the table was not seen:\n%s", text)
		}
	})
}

// rowsRead returns how many rows of tables the server has read.
func (s *source) rowsRead() (n int) {
	s.t.Helper()
	rows, err := s.db.QueryContext(s.t.Context(),
		"SHOW GLOBAL STATUS WHERE Variable_name IN ('Handler_read_first', 'Handler_read_last', 'Handler_read_key', "+
			"'Handler_read_next', 'Handler_read_prev', 'Handler_read_rnd', 'Handler_read_rnd_next')")
	if err != nil {
		s.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var value int
		if err := rows.Scan(&name, &value); err != nil {
			s.t.Fatal(err)
		}
		n += value
	}
	return n
}

func TestLookingWaitsForNobodyAndHoldsNobodyUp(t *testing.T) {
	servertest.Each(t, func(t *testing.T, server *servers.Server) {
		s := newSource(t, server)
		s.exec("CREATE TABLE held (id INT PRIMARY KEY, body JSON)", "CREATE TABLE locked (id INT PRIMARY KEY, body JSON)",
			"INSERT INTO held VALUES (1, '{\"a\": 1}')", "INSERT INTO locked VALUES (1, '{\"a\": 1}')")
		tx, err := s.db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }() // the transaction changed nothing that must stay
		if _, err := tx.ExecContext(t.Context(), "UPDATE held SET body = '{\"a\": 2}' WHERE id = 1"); err != nil {
			t.Fatal(err)
		}
		conn, err := s.db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.ExecContext(t.Context(), "LOCK TABLES locked WRITE"); err != nil {
			t.Fatal(err)
		}
		db := s.read()
		if _, err := conn.ExecContext(t.Context(), "UNLOCK TABLES"); err != nil {
			t.Fatal(err)
		}
		if held := db.Tables[0]; held.Rows != 1 || held.Problem != "" {
			t.Errorf("a row that a transaction holds: %d rows, %s", held.Rows, held.Problem)
		}
		if locked := db.Tables[1]; !strings.Contains(locked.Problem, "reading it failed: Lock wait timeout") {
			t.Errorf("a locked table: %d rows, %s", locked.Rows, locked.Problem)
		}
		if text := writtenDB(t, db); !strings.Contains(text, "# - locked: reading it failed: Lock wait timeout") ||
			!strings.Contains(text, "\n[tables.held]\n") {
			t.Error(text)
		}
	})
}

func TestMistakesNameTheServerAndNeverThePassword(t *testing.T) {
	s := newSource(t, servertest.MySQL(t))
	s.exec("CREATE TABLE cell (id INT PRIMARY KEY)")
	for _, c := range []struct {
		dsn    string
		tables []string
		is     error
		says   string
	}{
		{"hunter2", nil, survey.ErrDSN, "USER:PASSWORD@tcp(HOST:PORT)/DATABASE"},
		{s.dsn(""), nil, survey.ErrNoDatabase, "end it with /" + s.name},
		{s.dsn("elsewhere"), nil, nil, s.addr + ": Error 1044"},
		{s.dsn("elsewhere"), nil, nil, ": GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO '"},
		{strings.Replace(s.dsn(s.name), "hunter2", "hunter22", 1), nil, nil, s.addr + ": Error 1045"},
		{"u:hunter2@tcp(127.0.0.1:1)/d", nil, nil, "connecting to 127.0.0.1:1"},
		{s.dsn(s.name), []string{"cell", "sell"}, nil, "the database " + s.name +
			" has no table sell, or the user lacks SELECT on it"},
	} {
		_, err := survey.Read(t.Context(), c.dsn, c.tables)
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "hunter2") ||
			c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %v", c.says, err)
		}
	}
	if _, err := survey.ReadSink(t.Context(), s.dsn("elsewhere")); err == nil || !strings.Contains(err.Error(),
		": GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP ON `elsewhere`.* TO '") {
		t.Errorf("of a sink: %v", err)
	}
	s.exec("CREATE TABLE other (id INT PRIMARY KEY)")
	if db := s.read("cell"); len(db.Tables) != 2 || db.Tables[0].Skipped || !db.Tables[1].Skipped {
		t.Errorf("one of two tables: %+v", db.Tables)
	}
}

func TestWhatCannotBeLookedAtIsSaid(t *testing.T) {
	s := newSource(t, servertest.MySQL(t))
	empty, err := survey.Read(t.Context(), s.dsn(s.name), nil)
	if !errors.Is(err, survey.ErrNoTables) || !strings.Contains(err.Error(),
		"GRANT SELECT ON `"+s.name+"`.* TO '"+s.name+"'@'%'") || empty == nil {
		t.Errorf("an empty database: %v", err)
	}
	s.exec("CREATE TABLE seen (id INT PRIMARY KEY, email VARCHAR(100))", "INSERT INTO seen VALUES (1, 'a@x.org')",
		"CREATE TABLE hidden (id INT PRIMARY KEY)",
		"CREATE TABLE written (id INT PRIMARY KEY)", "REVOKE SELECT ON "+s.name+".* FROM "+s.name+"@'%'",
		"GRANT SELECT ON "+s.name+".seen TO "+s.name+"@'%'",
		"GRANT INSERT ON "+s.name+".written TO "+s.name+"@'%'")
	text := s.written()
	flat := strings.ReplaceAll(text, "\n# ", " ")
	for _, want := range []string{"\n[tables.seen]\n", "- written: reading it failed: ",
		"GRANT SELECT ON `" + s.name + "`.`written` TO '" + s.name + "'@'%'"} {
		if !strings.Contains(flat, want) {
			t.Errorf("it lacks %s:\n%s", want, text)
		}
	}
	if strings.Contains(text, "hidden") {
		t.Errorf("it knows what it may not see:\n%s", text)
	}
}

// Of a thousand tables, only those with the most rows are sampled, so the output stays readable. A table that is named
// is sampled, and the output does not mention the others. Few queries are sent, because a query for each table would
// take a minute.
func TestOfAThousandTablesTheFullestAreLookedAt(t *testing.T) {
	many := 1000
	if os.Getenv("REPLICATOR_SOAK") != "" {
		many = 5000
	}
	s := newSource(t, servertest.MySQL(t))
	for i := range many { // MEMORY tables need no files, so creating them is ten times as fast
		s.exec(fmt.Sprintf("CREATE TABLE t%04dx (id INT PRIMARY KEY, name VARCHAR(20)) ENGINE=MEMORY", i))
	}
	s.exec("CREATE TABLE schema_migrations (version VARCHAR(20) PRIMARY KEY)",
		"ALTER TABLE t0000x ENGINE=InnoDB", "INSERT INTO t0000x VALUES (1, 'a')",
		"ALTER TABLE t0990x ENGINE=InnoDB", "INSERT INTO t0990x VALUES (1, 'a'), (2, 'b')", "ANALYZE TABLE t0000x, t0990x")
	questions := s.questions()
	began := time.Now()
	text := s.written()
	t.Logf("%d tables: %s, %d questions, %d bytes", many, time.Since(began), s.questions()-questions, len(text))
	if n := s.questions() - questions; n > 1000 {
		t.Errorf("%d questions", n)
	}
	for _, want := range []string{"\n[tables.t0000x]\n", "\n[tables.t0990x]\n", fmt.Sprintf(
		"- %d more: only the 100 with the most rows, as the server estimates, were read.", many-100)} {
		if !strings.Contains(strings.ReplaceAll(text, "\n# ", " "), want) {
			t.Errorf("it lacks %q:\n%s", want, text)
		}
	}
	if n := strings.Count(text, "\n"); strings.Contains(text, "t0500x") || n > 600 {
		t.Errorf("%d lines:\n%s", n, text)
	}
	questions = s.questions()
	if text := writtenDB(t, s.read("t0990x")); !strings.Contains(text, "\n[tables.t0990x]\n") ||
		strings.Contains(text, "t0000x") {
		t.Errorf("%s", text)
	}
	if n := s.questions() - questions; n > 50 {
		t.Errorf("%d questions for one table", n)
	}
}

// questions returns how many statements the server has received.
func (s *source) questions() (n int) {
	s.t.Helper()
	var name string
	if err := s.db.QueryRowContext(s.t.Context(), "SHOW GLOBAL STATUS LIKE 'Questions'").Scan(&name, &n); err != nil {
		s.t.Fatal(err)
	}
	return n
}
