package canal

import (
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// metadata sets what table maps say of columns from here on.
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

// pairBench is a server with a table of two columns that can change places, and a position to read it from.
func pairBench(t *testing.T, kind servers.Kind, full bool) (*bench, *Source, replicator.Position) {
	b := newBench(t, servertest.Own(t, kind))
	b.metadata(full)
	b.exec("CREATE TABLE x (id INT PRIMARY KEY, a INT, b INT)")
	src := b.source(replicator.Table{Name: "x", Key: []string{"id"}, Columns: []string{"a", "b"}})
	return b, src, b.latest(src)
}

// marked reads all there is, and returns the position behind it.
func (b *bench) marked(src *Source, from replicator.Position) replicator.Position {
	b.t.Helper()
	x := b.read(b.open(src, from))
	x.upTo(b.latest(src))
	x.end()
	return x.reader.Position(x.last())
}

func wantUnnamed(t *testing.T, err error) {
	t.Helper()
	if !replicator.IsFatal(err) || !replicator.IsOfViews(err) || !strings.Contains(err.Error(), "table x was altered") ||
		!strings.Contains(err.Error(), "binlog_row_metadata") {
		t.Errorf("reading ended with %v, want that table x was altered and the binlog doesn't name its columns", err)
	}
}

// What the server writes now says nothing of the rows that it wrote before.
func TestRowsWithoutNamesOfATableThatWasAlteredAreRefusedThoughTheServerNamesColumnsNow(t *testing.T) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		b, src, from := pairBench(t, kind, false)
		b.exec("INSERT INTO x VALUES (1, 10, 20)")
		p := b.marked(src, from)
		b.exec("INSERT INTO x VALUES (2, 10, 20)", "ALTER TABLE x MODIFY a INT AFTER b", "INSERT INTO x VALUES (3, 20, 10)")
		b.metadata(true)
		b.exec("INSERT INTO x VALUES (4, 20, 10)")
		x := b.read(b.open(src, p))
		wantUnnamed(t, x.failure())
		if got := x.all(); len(got) > 0 {
			t.Errorf("%d changes were read by columns that they don't have", len(got))
		}
	})
}

func TestRowsWithoutNamesOfATableThatWasAlteredAreRefusedThoughTheServerNamedColumnsBefore(t *testing.T) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		b, src, from := pairBench(t, kind, true)
		b.exec("INSERT INTO x VALUES (1, 10, 20)")
		p := b.marked(src, from)
		b.metadata(false)
		b.exec("INSERT INTO x VALUES (2, 10, 20)", "ALTER TABLE x MODIFY a INT AFTER b", "INSERT INTO x VALUES (3, 20, 10)")
		_, err := src.Open(testContext(t), []replicator.Position{p})
		if wantUnnamed(t, err); err == nil {
			t.FailNow()
		}
		b.metadata(true)
		wantUnnamed(t, b.read(b.open(src, p)).failure())
	})
}

// A table that was altered while columns were named is known again from the end of the log on.
func TestRowsWithoutNamesAreReadWhereTheTableIsKnownToBeWhatItWas(t *testing.T) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		b, src, from := pairBench(t, kind, true)
		x := b.read(b.open(src, from))
		b.exec("INSERT INTO x VALUES (1, 10, 20)", "ALTER TABLE x MODIFY a INT AFTER b", "ALTER TABLE x ADD INDEX (a)",
			"INSERT INTO x VALUES (2, 20, 10)")
		x.upTo(b.latest(src))
		b.metadata(false)
		b.exec("INSERT INTO x VALUES (3, 20, 10)")
		got := x.upTo(b.latest(src))
		x.end()
		if len(got) != 3 || !strings.HasSuffix(showChange(got[2]), " a=10 b=20") {
			t.Errorf("%d changes, the last %s", len(got), showChange(got[len(got)-1]))
		}
		p := x.reader.Position(x.last())
		b.exec("INSERT INTO x VALUES (4, 20, 10)", "ALTER TABLE x ADD INDEX (b)", "INSERT INTO x VALUES (5, 20, 10)")
		if got := b.changes(src, p); len(got) != 2 || !strings.HasSuffix(showChange(got[1]), " a=10 b=20") {
			t.Errorf("%d changes", len(got))
		}
		// Older versions noted nothing of the tables where columns were named.
		tok, err := parseToken(p.Token)
		if err != nil {
			t.Fatal(err)
		}
		tok.Schema = nil
		old, err := tok.position()
		if err != nil {
			t.Fatal(err)
		}
		if got := b.changes(src, old); len(got) != 2 {
			t.Errorf("from a position of an older version: %d changes", len(got))
		}
	})
}

// Nobody who reads other tables minds that one was altered whose columns aren't named.
func TestWithoutNamesAnALTERIsAMatterOfItsTableAlone(t *testing.T) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		b, _, _ := pairBench(t, kind, false)
		b.exec("CREATE TABLE y (id INT PRIMARY KEY, v INT)")
		src := b.source(replicator.Table{Name: "x", Key: []string{"id"}, Columns: []string{"a", "b"}},
			replicator.Table{Name: "y", Key: []string{"id"}, Columns: []string{"v"}})
		from := b.latest(src)
		b.exec("INSERT INTO y VALUES (1, 10)")
		p := b.marked(src, from)
		x := b.read(b.open(src, p))
		b.exec("INSERT INTO x VALUES (1, 10, 20)", "ALTER TABLE x MODIFY a INT AFTER b", "INSERT INTO y VALUES (2, 20)")
		wantUnnamed(t, x.failure())
		_, err := src.Open(testContext(t), []replicator.Position{p})
		wantUnnamed(t, err)
		r, err := src.Open(testContext(t), []replicator.Position{p}, "y")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		if got := b.read(r.(*Reader)).upTo(b.latest(src)); len(got) != 1 || !strings.HasSuffix(showChange(got[0]), " v=20") {
			t.Errorf("of the other table %d changes were read, want one", len(got))
		}
	})
}

// All that is wrong with tables is told at once: each session that one of them ended would hold up the views of the
// others.
func TestAllTablesThatMustStopAreToldAtOnce(t *testing.T) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		b, _, _ := pairBench(t, kind, false)
		b.exec("CREATE TABLE y LIKE x", "CREATE TABLE gone LIKE x", "CREATE TABLE lost LIKE x",
			"CREATE TABLE well LIKE x",
			"CREATE TABLE bad (id INT PRIMARY KEY, a TEXT)", "CREATE TABLE worse LIKE bad")
		var views []*replicator.View
		var tables []replicator.Table
		for _, name := range []string{"x", "y", "gone", "lost", "well", "bad", "worse"} {
			views = append(views, &replicator.View{Name: name, From: []replicator.Feed{{Table: name}}})
			tables = append(tables, replicator.Table{Name: name, Key: []string{"id"}, Columns: []string{"a"}})
		}
		tables[5].Version, tables[6].Version = "a", "a" // a text is none
		before := b.source(tables[:5]...)
		p := b.marked(before, b.latest(before))
		b.exec("DROP TABLE gone, lost", "ALTER TABLE x MODIFY a INT AFTER b", "ALTER TABLE y MODIFY a INT AFTER b")
		_, err := b.source(tables...).Open(testContext(t), []replicator.Position{p})
		groups, others := replicator.Troubled(views, err)
		if !replicator.IsFatal(err) || len(groups) != 6 || len(others) != 1 || others[0].Name != "well" {
			t.Errorf("%d views stop, and %d others don't: %v", len(groups), len(others), err)
		}
	})
}

// there opens a reader where another one stood behind its n-th change, and whatever it read after that.
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

// The reader is behind: at the first ALTER the table already is again what it was. The rows in between have its columns
// in another order, and nothing in the binlog says so.
func TestRowsWithoutNamesBetweenAnALTERAndOneThatUndoesItAreRefused(t *testing.T) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		b, src, latest := pairBench(t, kind, false)
		b.exec("INSERT INTO x VALUES (1, 10, 20)")
		p := b.marked(src, latest)
		b.exec("ALTER TABLE x MODIFY a INT AFTER b", "INSERT INTO x VALUES (2, 20, 10)",
			"INSERT INTO x VALUES (3, 20, 10)",
			"ALTER TABLE x ADD INDEX (a)", "ALTER TABLE x MODIFY a INT AFTER id", "INSERT INTO x VALUES (4, 10, 20)")
		x := b.read(b.open(src, p))
		wantUnnamed(t, x.failure())
		again := b.read(b.there(src, x, 1))
		wantUnnamed(t, again.failure())
		// All rows in between were applied, and then the program was started again.
		wantUnnamed(t, b.read(b.there(src, again, 1)).failure())
		b.metadata(true)
		wantUnnamed(t, b.read(b.open(src, p)).failure())
	})
}

// A place that nothing was read at says nothing of the tables there.
func TestRowsWithoutNamesBeforeAnALTERAreRefusedWhereTheTableWasNotLookedAtBefore(t *testing.T) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		b, src, latest := pairBench(t, kind, false)
		b.exec("INSERT INTO x VALUES (1, 10, 20)", "ALTER TABLE x MODIFY a INT AFTER b",
			"INSERT INTO x VALUES (2, 20, 10)")
		x := b.read(b.open(src, latest))
		wantUnnamed(t, x.failure())
		wantUnnamed(t, b.read(b.there(src, x, 1)).failure())
	})
}

// ALTERs stop nothing where they leave the columns alone, where there are no rows in between, and where the table was
// looked at in between.
func TestALTERsThatCannotHaveMisledAnyoneStopNoReading(t *testing.T) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		const row = "INSERT INTO x VALUES (NULL, 10, 20)"
		for name, alters := range map[string][]string{
			"indexes": {row, "ALTER TABLE x ADD INDEX i (a), COMMENT 'x'", row, "CREATE INDEX j ON x (b)", row,
				"DROP INDEX i ON x", row,
				"ALTER TABLE x DROP KEY j", row},
			"one":     {row, "ALTER TABLE x MODIFY a INT NOT NULL", row, "ALTER TABLE x ENGINE = InnoDB", row},
			"no rows": {row, "ALTER TABLE x MODIFY a INT AFTER b", "ALTER TABLE x MODIFY a INT AFTER id", row},
			"it is made if it isn't there": {row, "CREATE TABLE IF NOT EXISTS x (id INT)", row,
				"CREATE TABLE IF NOT EXISTS x (id INT)", row, "ALTER TABLE x MODIFY a INT NOT NULL", row},
		} {
			b, src, latest := pairBench(t, kind, false)
			b.exec("ALTER TABLE x MODIFY id INT AUTO_INCREMENT", row)
			p := b.marked(src, latest)
			rows := 0
			for _, q := range alters {
				if b.exec(q); q == row {
					rows++
				}
			}
			x := b.read(b.open(src, p))
			if got := x.upTo(b.latest(src)); len(got) != rows ||
				!strings.HasSuffix(showChange(got[rows-1]), " a=10 b=20") {
				t.Errorf("%s: %d changes, want %d", name, len(got), rows)
			}
			b.exec("ALTER TABLE x MODIFY a INT NULL", row)
			if got := x.upTo(b.latest(src)); len(got) != rows+1 {
				t.Errorf("%s, and an ALTER that reading is not behind: %d changes, want %d", name, len(got), rows+1)
			}
			x.end()
		}
	})
}

// Rows that name their columns are never in doubt, also not behind a restart.
func TestALTERsStopNoReadingOfRowsWithNames(t *testing.T) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		b, src, latest := pairBench(t, kind, true)
		b.exec("INSERT INTO x VALUES (1, 10, 20)")
		p := b.marked(src, latest)
		b.exec("ALTER TABLE x MODIFY a INT AFTER b", "INSERT INTO x VALUES (2, 20, 10)",
			"ALTER TABLE x MODIFY a INT AFTER id", "INSERT INTO x VALUES (3, 10, 20)")
		x := b.read(b.open(src, p))
		x.upTo(b.latest(src))
		x.end()
		again := b.read(b.there(src, x, 1))
		got := again.upTo(b.latest(src))
		again.end()
		if len(got) != 1 || len(x.all()) != 2 || !strings.HasSuffix(showChange(x.all()[0]), " a=10 b=20") {
			t.Errorf("%d and then %d changes, want 2 and 1", len(x.all()), len(got))
		}
	})
}
