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
