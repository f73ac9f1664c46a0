package mysql_test

import (
	"fmt"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// poison is a value that only the server can refuse, and a table in which it does.
type poison struct {
	name    string
	table   string // the table's columns other than id
	then    string // a statement to run after CREATE TABLE
	good    any
	bad     any
	mysql   string // MySQL's error number and state; "": it accepts the value
	mariaDB string // the same for MariaDB; "none": it has no such index
}

const textColumn = "email VARCHAR(50)"

var poisons = []poison{
	{"JSON of depth 101", "email JSON", "", replicator.RawJSON("[]"), nested(101), "3157 22032", "4025 23000"},
	{"a property's name of 70 KB", "email JSON", "", replicator.RawJSON("{}"),
		replicator.RawJSON(`{"` + strings.Repeat("n", 70_000) + `": 1}`), "3151 22032", ""},
	{"a geometry that is none", textColumn + ", g GEOMETRY AS (ST_GeomFromText(email)) STORED", "",
		"POINT(1 1)", "POINT(1", "3037 22023", ""},
	{"a longitude out of range", textColumn + ", g GEOMETRY AS (ST_GeomFromText(email, 4326)) STORED", "",
		"POINT(1 1)", "POINT(1 400)", "3616 22S02", ""},
	{"a pattern that is none", textColumn + ", g INT AS ('x' REGEXP email) STORED", "", "x", "(x", "3691 HY000", ""},
	{"a text in an index of numbers", textColumn, "CREATE INDEX x ON poisoned ((CAST(email AS UNSIGNED)))",
		"1", "1x", "3751 01000", "none"},
	{"a text in a multi-valued index", "email JSON", "CREATE INDEX x ON poisoned ((CAST(email->'$.z' AS UNSIGNED ARRAY)))",
		replicator.RawJSON(`{"z": [1]}`), replicator.RawJSON(`{"z": ["x"]}`), "3903 22018", "none"},
	{"too large a number in a multi-valued index", "email JSON",
		"CREATE INDEX x ON poisoned ((CAST(email->'$.z' AS UNSIGNED ARRAY)))",
		replicator.RawJSON(`{"z": [1]}`), replicator.RawJSON(`{"z": [-1]}`), "3752 22003", "none"},
	{"too many values in a multi-valued index", "email JSON",
		"CREATE INDEX x ON poisoned ((CAST(email->'$.z' AS UNSIGNED ARRAY)))",
		replicator.RawJSON(`{"z": [1]}`), replicator.RawJSON(`{"z": [1` + manyNumbers() + `]}`), "3905 HY000", "none"},
	{"too long a text in a multi-valued index", "email JSON",
		"CREATE INDEX x ON poisoned ((CAST(email->'$.z' AS CHAR(3) ARRAY)))",
		replicator.RawJSON(`{"z": ["a"]}`), replicator.RawJSON(`{"z": ["abcd"]}`), "3907 22001", "none"},
	{"a list in a list of a multi-valued index", "email JSON",
		"CREATE INDEX x ON poisoned ((CAST(email->'$.z' AS UNSIGNED ARRAY)))",
		replicator.RawJSON(`{"z": [1]}`), replicator.RawJSON(`{"z": [[1]]}`), "3908 HY000", "none"},
	{"a character that latin1 lacks", "email VARCHAR(50) CHARACTER SET latin1", "", "é", "日", "1366 HY000", "1366 22007"},
	{"a text too long for its character set", "email TINYTEXT CHARACTER SET utf16", "", "é", strings.Repeat("é", 128),
		"1406 22001", "1406 22001"},
	{"a date that overflows", "email DATETIME, g DATETIME AS (DATE_ADD(email, INTERVAL 1 YEAR)) STORED", "",
		"2020-01-01 00:00:00", "9999-12-31 00:00:00", "1441 22008", "1441 22008"},
	{"a trigger's own error", textColumn, "CREATE TRIGGER x BEFORE INSERT ON poisoned FOR EACH ROW IF NEW.email = 'no' " +
		"THEN SIGNAL SQLSTATE '45001' SET MYSQL_ERRNO = 5555, MESSAGE_TEXT = 'no'; END IF", "yes", "no", "5555 45001",
		"5555 45001"},
	{"a trigger's error with another's number", textColumn,
		"CREATE TRIGGER x BEFORE INSERT ON poisoned FOR EACH ROW IF NEW.email = 'no' " +
			"THEN SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 1205; END IF", "yes", "no", "1205 45000", "1205 45000"},
}

func nested(depth int) replicator.RawJSON {
	return replicator.RawJSON(strings.Repeat("[", depth) + strings.Repeat("]", depth))
}

func manyNumbers() string {
	var b strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&b, ",%d", i+2)
	}
	return b.String()
}

// If the server refuses a row, the row is the cause, unless the error is temporary or concerns the table. The row
// becomes a dead letter, and the view goes on with the next rows.
func TestARowThatTheServerRefusesIsADeadLetter(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		for _, p := range poisons {
			want := p.mysql
			if s.Kind != servers.MySQL {
				want = p.mariaDB
			}
			if want == "none" { // MariaDB has no such index
				continue
			}
			t.Run(p.name, func(t *testing.T) {
				db, dsn := database(t, s, "CREATE TABLE poisoned (id VARBINARY(40) PRIMARY KEY, "+p.table+")")
				if p.then != "" {
					exec(t, db, p.then)
				}
				sink := newSink(t, dsn)
				target := openTarget(t, sink, view("row", "poisoned", "email"))
				applied := applyAll(t, target, userOp(1, 1, 1, p.good), userOp(2, 1, 1, p.bad), userOp(3, 1, 1, p.good))
				if want == "" {
					if len(applied.Rejected) > 0 || count(t, db, "poisoned") != 3 {
						t.Errorf("rejected: %+v", applied.Rejected)
					}
					return
				}
				if len(applied.Rejected) != 1 || applied.Rejected[0].Op != 1 || count(t, db, "poisoned") != 2 {
					t.Fatalf("rejected: %+v", applied.Rejected)
				}
				number, state, _ := strings.Cut(want, " ")
				said := applied.Rejected[0].Err.Error()
				if !strings.HasSuffix(said, fmt.Sprintf("(error %s, SQLSTATE %s)", number, state)) {
					t.Errorf("the reason is %q", said)
				}
				if again := applyAll(t, target, userOp(2, 2, 1, p.good)); len(again.Rejected) > 0 || count(t, db, "poisoned") != 3 {
					t.Errorf("mended: %+v", again)
				}
			})
		}
	})
}

// A transaction may be too large although none of its rows is. Then smaller transactions succeed. A row that is too
// large alone becomes a dead letter.
func TestABatchThatIsTooMuchForTheServerIsSplit(t *testing.T) {
	for _, kind := range []servers.Kind{servers.MySQL, servers.MariaDB118} {
		t.Run(string(kind), func(t *testing.T) {
			db, dsn := database(t, servertest.Own(t, kind), namesTable)
			exec(t, db, "SET GLOBAL max_binlog_cache_size = 65536")
			sink := newSink(t, dsn)
			target := openTarget(t, sink, view("row", "names", "email"))
			var ops []replicator.Op
			for n := range 300 {
				size := 1000
				if n == 123 {
					size = 200_000
				}
				ops = append(ops, userOp(n, 1, 1, strings.Repeat("x", size)))
			}
			rejected := applyAll(t, target, ops...).Rejected
			if n := count(t, db, "names"); n+len(rejected) != len(ops) {
				t.Errorf("%d rows; rejected: %+v", n, rejected)
			}
			for _, r := range rejected { // MySQL accepts a single large event
				if said := r.Err.Error(); r.Op != 123 ||
					!strings.Contains(said, "max_binlog_cache_size (error 1197, SQLSTATE HY000)") {
					t.Errorf("rejected: %+v", r)
				}
			}
		})
	}
}

// A row is not rejected because of a temporary error, however small the batch. Here, another session holds its lock.
func TestARowIsNotRejectedForWhatPasses(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, dsn := database(t, s, namesTable, "INSERT INTO names VALUES ('by hand', 'user 1          ')")
		sink := newSink(t, dsn+"?readTimeout=3s")
		target := openTarget(t, sink, view("row", "names", "email"))
		tx, err := db.Begin()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec("UPDATE names SET email = 'held'"); err != nil {
			t.Fatal(err)
		}
		ops := []replicator.Op{userOp(1, 1, 1, "x")}
		if a, err := target.Apply(t.Context(), ops); err == nil || replicator.IsFatal(err) {
			t.Errorf("it applies: %+v, %v", a, err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if a := applyAll(t, target, ops...); len(a.Rejected) > 0 {
			t.Errorf("rejected: %+v", a.Rejected)
		}
	})
}
