package canal

import (
	"fmt"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// metadata sets whether table maps have the columns' full metadata from now on.
func (b *bench) metadata(full bool) {
	b.t.Helper()
	value := "FULL"
	switch {
	case full:
	case b.isMaria():
		value = "NO_LOG"
	default:
		value = "MINIMAL"
	}
	b.exec("SET GLOBAL binlog_row_metadata = " + value)
}

// pairBench creates a table with two columns of one type, a and b, and returns a position to read it from. If full is
// set, the whole server writes full table maps until the test ends.
func pairBench(t *testing.T, s *servers.Server, full bool) (*bench, *Source, replicator.Position) {
	b := newBench(t, s)
	if full {
		b.metadata(true)
		t.Cleanup(func() { b.metadata(false) })
	}
	b.exec("CREATE TABLE x (id INT PRIMARY KEY, a INT, b INT)")
	src := b.source(replicator.Table{Name: "x", Key: []string{"id"}, Columns: []string{"a", "b"}})
	return b, src, b.latest(src)
}

// marked reads everything from a position on, and returns the position after it.
func (b *bench) marked(src *Source, from replicator.Position) replicator.Position {
	b.t.Helper()
	x := b.read(b.open(src, from))
	x.upTo(b.latest(src))
	x.end()
	return x.reader.Position(x.last())
}

// pairs lists the values of columns a and b in each change.
func pairs(changes []replicator.Change) string {
	var all []string
	for _, c := range changes {
		all = append(all, fmt.Sprintf("%v %v", c.Row.Columns[0], c.Row.Columns[1]))
	}
	return strings.Join(all, ", ")
}

// The rows are read while the ALTERs happen, afterwards from the first position, and again from each later position.
func TestRowsWithoutNamesAreReadThroughALTERs(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b, src, from := pairBench(t, s, false)
		live := b.readOn(b.open(src, from))
		b.exec("INSERT INTO x VALUES (1, 10, 20)", "ALTER TABLE x MODIFY a INT AFTER b", "INSERT INTO x VALUES (2, 20, 10)",
			"ALTER TABLE x ADD z VARCHAR(10) FIRST", "INSERT INTO x VALUES ('z', 3, 20, 10)", "ALTER TABLE x ADD INDEX (a)",
			"INSERT INTO x VALUES ('z', 4, 20, 10)", "ALTER TABLE x DROP z, CHANGE b c INT, ADD b INT FIRST",
			"UPDATE x SET b = c", "ALTER TABLE x DROP c", "INSERT INTO x VALUES (20, 5, 10)",
			"ALTER TABLE x MODIFY a BIGINT AFTER id, MODIFY b SMALLINT AFTER a, ENGINE = InnoDB", "INSERT INTO x VALUES (6, 10, 20)")
		want := strings.TrimSuffix(strings.Repeat("10 20, ", 10), ", ")
		if got := pairs(live.upTo(b.latest(src))); got != want {
			t.Errorf("read while it happens:\n%s\nwant\n%s", got, want)
		}
		live.end()
		behind := b.readOn(b.open(src, from))
		if got := pairs(behind.upTo(b.latest(src))); got != want {
			t.Errorf("read from behind:\n%s\nwant\n%s", got, want)
		}
		behind.end()
		for n := 1; n < 10; n++ {
			x := b.readOn(b.there(src, behind, n))
			var want []replicator.Change
			for _, c := range behind.all() {
				if c.Order > x.reader.Start().Order {
					want = append(want, c)
				}
			}
			if got := pairs(x.upTo(b.latest(src))); got != pairs(want) {
				t.Errorf("read again behind change %d:\n%s", n, got)
			}
			x.end()
		}
	})
}

// All problems of tables are reported at once. If each problem ended another session, the views of the other tables
// would be held up again and again.
func TestAllTablesThatMustStopAreToldAtOnce(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b, _, _ := pairBench(t, s, false)
		b.exec("CREATE TABLE y LIKE x", "CREATE TABLE gone LIKE x", "CREATE TABLE lost LIKE x",
			"CREATE TABLE well LIKE x",
			"CREATE TABLE bad (id INT PRIMARY KEY, a TEXT)", "CREATE TABLE worse LIKE bad")
		var views []*replicator.View
		var tables []replicator.Table
		for _, name := range []string{"x", "y", "gone", "lost", "well", "bad", "worse"} {
			views = append(views, &replicator.View{Name: name, From: []replicator.Feed{{Table: name}}})
			tables = append(tables, replicator.Table{Name: name, Key: []string{"id"}, Columns: []string{"a"}})
		}
		tables[5].Version, tables[6].Version = "a", "a" // a text can't be a version
		before := b.source(tables[:5]...)
		p := b.marked(before, b.latest(before))
		b.exec("DROP TABLE gone, lost", "ALTER TABLE x MODIFY a INT AFTER b", "ALTER TABLE y MODIFY a INT AFTER b")
		_, err := b.source(tables...).Open(testContext(t), []replicator.Position{p})
		groups, others := replicator.Troubled(views, err)
		if !replicator.IsFatal(err) || len(groups) != 4 || len(others) != 3 {
			t.Errorf("%d views stop, and %d others don't: %v", len(groups), len(others), err)
		}
	})
}

// there opens a reader at the position that another reader had after its n-th change. The other reader may have read on
// since.
func (b *bench) there(src *Source, x *reading, n int) *Reader {
	b.t.Helper()
	changes := x.all()
	if len(changes) < n {
		b.t.Fatalf("%d changes were read, want %d", len(changes), n)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, order := range x.commits {
		if order > changes[n-1].Order {
			return b.open(src, x.reader.Position(order))
		}
	}
	b.t.Fatalf("no transaction ends behind change %d", n)
	return nil
}

// A table's columns are unknown after an ALTER that isn't understood, at a position without layouts, and when rows
// don't fit. Rows are skipped and reported up to the position where the columns are known again. Later rows are read.
func TestRowsWhoseColumnsAreNotKnownArePassedOverAndTold(t *testing.T) {
	const row = "INSERT INTO x(id, a, b) VALUES (%d, 10, 20)"
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		for name, c := range map[string]struct {
			between []string
			forget  bool
			read    int // how many of the first three rows are read
		}{
			"not understood": {between: []string{"ALTER TABLE x ADD z INT, ORDER BY a, b"}, read: 1},
			"no layout": {between: []string{"ALTER TABLE x MODIFY a INT AFTER b", "ALTER TABLE x ADD INDEX (a)"},
				forget: true, read: 2},
			"unlike the log": {between: []string{"SET SESSION sql_log_bin = 0", "ALTER TABLE x ADD z BIGINT FIRST", "SET SESSION sql_log_bin = 1"},
				read: 1},
			"unlike the log, and of another length": {between: []string{"SET SESSION sql_log_bin = 0", "ALTER TABLE x ADD z VARCHAR(20)",
				"ALTER TABLE x MODIFY a VARCHAR(20) AFTER id", "SET SESSION sql_log_bin = 1"}, read: 1},
		} {
			b, src, from := pairBench(t, s, false)
			if c.forget {
				tok, err := parseToken(from.Token)
				if err != nil {
					t.Fatal(err)
				}
				tok.Layouts = nil
				if from, err = tok.position(); err != nil {
					t.Fatal(err)
				}
			}
			b.exec(fmt.Sprintf(row, 1))
			b.session(append(c.between, fmt.Sprintf(row, 2), fmt.Sprintf(row, 3))...)
			x := b.readOn(b.open(src, from))
			got := x.upTo(b.latest(src))
			if len(got) != c.read || x.lacked() != "x" {
				t.Errorf("%s: %d rows were read, and told of %q, want %d and x", name, len(got), x.lacked(), c.read)
			}
			b.exec(fmt.Sprintf(row, 4))
			if got = x.upTo(b.latest(src)); len(got) != c.read+1 || x.lacked() != "x" || !strings.HasSuffix(pairs(got), "10 20") {
				t.Errorf("%s: then %s, and told of %q", name, pairs(got), x.lacked())
			}
			x.end()
			p := x.reader.Position(x.last())
			b.exec(fmt.Sprintf(row, 5))
			again := b.read(b.open(src, p))
			if got := pairs(again.upTo(b.latest(src))); got != "10 20" {
				t.Errorf("%s: from behind it: %s", name, got)
			}
		}
	})
}

// Reading is at the log's end when a row arrives after an ALTER that isn't in the log.
func TestRowsThatNoLongerFitAreToldWhileTheyCome(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b, src, from := pairBench(t, s, false)
		x := b.readOn(b.open(src, from))
		b.exec("INSERT INTO x(id, a, b) VALUES (1, 10, 20)")
		x.upTo(b.latest(src))
		b.session("SET SESSION sql_log_bin = 0", "ALTER TABLE x ADD z BIGINT FIRST", "SET SESSION sql_log_bin = 1",
			"INSERT INTO x(id, a, b) VALUES (2, 10, 20)")
		x.upTo(b.latest(src))
		b.exec("INSERT INTO x(id, a, b) VALUES (3, 10, 20)")
		if got := x.upTo(b.latest(src)); pairs(got) != "10 20, 10 20" || x.lacked() != "x" {
			t.Errorf("%s, and told of %q", pairs(got), x.lacked())
		}
	})
}

// An ALTER that isn't in the log swaps two columns of one type. Nothing shows this until the table's columns are read
// again.
func TestRowsThatWereReadByWrongColumnsAreTold(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b, src, from := pairBench(t, s, false)
		x := b.readOn(b.open(src, from))
		b.session("SET SESSION sql_log_bin = 0", "ALTER TABLE x MODIFY a INT AFTER b", "SET SESSION sql_log_bin = 1",
			"INSERT INTO x(id, a, b) VALUES (1, 10, 20)")
		x.upTo(b.latest(src))
		if x.lacked() != "" {
			t.Errorf("told of %q", x.lacked())
		}
		b.exec("ALTER TABLE x ADD z INT", "INSERT INTO x(id, a, b) VALUES (2, 10, 20)", "INSERT INTO x(id, a, b) VALUES (3, 10, 20)")
		if x.upTo(b.latest(src)); x.lacked() != "x" {
			t.Errorf("told of %q", x.lacked())
		}
		b.exec("INSERT INTO x(id, a, b) VALUES (4, 10, 20)")
		if got := pairs(x.upTo(b.latest(src))); !strings.HasSuffix(got, "10 20") {
			t.Errorf("what follows: %s", got)
		}
	})
}

// The positions have no layout. But no later statement changes the table's columns, so the current columns are right.
func TestRowsAreReadFromAPlaceThatIsKnownToNobody(t *testing.T) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		b, src, _ := pairBench(t, servertest.Own(t, kind), false)
		b.exec("INSERT INTO x VALUES (1, 10, 20)", "FLUSH LOGS", "INSERT INTO x VALUES (2, 10, 20)", "ALTER TABLE x COMMENT 'x'",
			"CREATE TABLE other (a INT)", "ALTER TABLE other MODIFY a BIGINT", "FLUSH LOGS", "INSERT INTO x VALUES (3, 10, 20)")
		oldest, err := src.Oldest(testContext(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := pairs(b.changes(src, oldest)); got != "10 20, 10 20, 10 20" {
			t.Error(got)
		}
		named, err := src.At(testContext(t), "binlog.000002:4", nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := pairs(b.changes(src, named)); got != "10 20, 10 20" {
			t.Error(got)
		}
	})
}

// If the log names columns, rows can be read without a layout. But without a layout, the effect of an ALTER on values
// is unknown.
func TestRowsWithNamesAreReadWhateverIsKnownOfTheTable(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b, src, from := pairBench(t, s, true)
		tok, err := parseToken(from.Token)
		if err != nil {
			t.Fatal(err)
		}
		tok.Layouts = nil
		if from, err = tok.position(); err != nil {
			t.Fatal(err)
		}
		b.exec("INSERT INTO x VALUES (1, 10, 20)", "ALTER TABLE x MODIFY a INT AFTER b, ADD z INT, ORDER BY a, b",
			"INSERT INTO x(id, a, b) VALUES (2, 10, 20)")
		b.session("SET SESSION sql_log_bin = 0", "ALTER TABLE x MODIFY a INT AFTER id", "SET SESSION sql_log_bin = 1",
			"INSERT INTO x(id, a, b) VALUES (3, 10, 20)")
		x := b.readOn(b.open(src, from))
		if got := pairs(x.upTo(b.latest(src))); got != "10 20, 10 20, 10 20" || x.lacked() != "x" {
			t.Errorf("%s, and told of %q", got, x.lacked())
		}
	})
}

// Reading from several positions starts at the earliest one. That position has no layout for a table that only the
// readers of the later positions read.
func TestALayoutOfALaterPositionCountsFromThereOn(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b, _, _ := pairBench(t, s, false)
		b.exec("CREATE TABLE y LIKE x")
		src := b.source(replicator.Table{Name: "x", Key: []string{"id"}, Columns: []string{"a", "b"}},
			replicator.Table{Name: "y", Key: []string{"id"}, Columns: []string{"a", "b"}})
		only := func(table string) *Source {
			t.Helper()
			for _, w := range src.cfg.Tables {
				if w.Name == table {
					s, err := src.For([]replicator.Table{w})
					if err != nil {
						t.Fatal(err)
					}
					return s
				}
			}
			return nil
		}
		first := b.latest(only("x"))
		b.exec("INSERT INTO y VALUES (1, 10, 20)", "ALTER TABLE y MODIFY a INT AFTER b", "INSERT INTO x VALUES (1, 10, 20)")
		second := b.latest(only("y"))
		b.exec("INSERT INTO y VALUES (2, 20, 10)", "ALTER TABLE y MODIFY a INT AFTER id", "INSERT INTO y VALUES (3, 10, 20)")
		x := b.readOn(b.open(src, first, second))
		if got := pairs(x.upTo(b.latest(src))); got != "10 20, 10 20, 10 20" || x.lacked() != "" {
			t.Errorf("%s, and told of %q", got, x.lacked())
		}
	})
}
