package canal

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// A row is delivered whole if it has everything that its table's views need. Otherwise only its cell is delivered. If
// the binlog doesn't even name the cell, the table is reported to the handler.
func TestRowsWithoutAllTheirColumns(t *testing.T) {
	const (
		single   = "CREATE TABLE p (id INT PRIMARY KEY, v INT NOT NULL DEFAULT 5, w INT, note TEXT)"
		versions = "CREATE TABLE p (n INT PRIMARY KEY, id INT, v INT, w INT, note TEXT, KEY (id, v))"
		keyed    = "CREATE TABLE p (id INT, v INT, w INT, note TEXT, PRIMARY KEY (id, v))"
		none     = "CREATE TABLE p (id INT, v INT, w INT, note TEXT)"
		minimal  = "SET SESSION binlog_row_image = MINIMAL"
		noblob   = "SET SESSION binlog_row_image = NOBLOB"
	)
	byID := func(columns ...string) replicator.Table {
		return replicator.Table{Name: "p", Key: []string{"id"}, Columns: columns}
	}
	byVersion := func(columns ...string) replicator.Table {
		t := byID(columns...)
		t.Version = "v"
		return t
	}
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		for name, c := range map[string]struct {
			ddl      string
			table    replicator.Table
			before   string
			session  []string
			want     []string
			unlogged string
		}{
			"all that is needed": {single, byID("v"), "INSERT INTO p VALUES (1, 1, 1, 'a')", []string{minimal,
				"INSERT INTO p (id, v) VALUES (2, 2)", "UPDATE p SET v = 7 WHERE id = 1", "DELETE FROM p WHERE id = 2"},
				[]string{"insert p 2 . v=2", "update p 1 . v=7", "delete p 2 . last"}, ""},
			"not all that is needed": {single, byID("v", "note"), "INSERT INTO p VALUES (1, 1, 1, 'a')", []string{minimal,
				"INSERT INTO p (id, w) VALUES (2, 2)", "UPDATE p SET v = 7 WHERE id = 1", "UPDATE p SET id = 3, w = 4 WHERE id = 1"},
				[]string{"insert p 2 ?", "update p 1 ?", "delete p 1 . last", "insert p 3 ?"}, ""},
			"BLOBs": {single, byID("v", "note"), "INSERT INTO p VALUES (1, 1, 1, 'a')", []string{noblob,
				"INSERT INTO p VALUES (2, 2, 2, 'b')", "UPDATE p SET v = 7 WHERE id = 1", "UPDATE p SET note = 'c', w = NULL WHERE id = 2"},
				[]string{"insert p 2 . v=2 note=b", "update p 1 ?", "update p 2 . v=2 note=c"}, ""},
			"several versions": {versions, byVersion("note"), "INSERT INTO p VALUES (1, 1, 1, 1, 'a'), (2, 1, 2, 2, 'b')", []string{minimal,
				"INSERT INTO p (n, id, v, note) VALUES (3, 1, 3, 'c')", "UPDATE p SET note = 'd' WHERE n = 2"},
				[]string{"insert p 1 . note=c", "update p 1 ?"}, ""},
			"a version that is in the key": {keyed, byVersion("w"), "INSERT INTO p VALUES (1, 1, 1, 'a'), (1, 2, 2, 'b')", []string{minimal,
				"UPDATE p SET w = 4 WHERE v = 2", "UPDATE p SET v = 0 WHERE v = 1", "DELETE FROM p WHERE v = 2"},
				[]string{"update p 1 . w=4", "update p 1 ?", "delete p 1 ."}, ""},
			"a key that is not primary": {versions, byVersion("w"), "INSERT INTO p VALUES (1, 1, 1, 1, 'a'), (2, 2, 2, 2, 'b')", []string{minimal,
				"UPDATE p SET w = 9", "UPDATE p SET n = 7, v = 3 WHERE n = 2", "BEGIN", "INSERT INTO p (n, id, v, w) VALUES (8, 3, 3, 3)",
				"UPDATE p SET w = 4 WHERE n = 8", "UPDATE p SET w = 5 WHERE n = 8", "COMMIT"},
				[]string{"update p 1 ?", "update p 2 ?", "insert p 3 . w=3", "update p 3 ?"}, "p"},
			"a row that moves": {versions, byVersion(), "INSERT INTO p VALUES (1, 1, 1, 1, 'a')", []string{minimal,
				"UPDATE p SET id = 2"}, nil, "p"},
			"a deleted row": {versions, byVersion(), "INSERT INTO p VALUES (1, 1, 1, 1, 'a'), (2, 2, 2, 2, 'b')", []string{minimal,
				"DELETE FROM p"}, nil, "p"},
			"a version that is a BLOB's neighbour": {versions, byVersion("note"), "INSERT INTO p VALUES (1, 1, 2, 1, 'a')", []string{noblob,
				"UPDATE p SET note = 'b', v = 3", "UPDATE p SET note = 'c', v = 1", "UPDATE p SET v = 7", "DELETE FROM p"},
				[]string{"update p 1 . note=b", "delete p 1 .", "insert p 1 . note=c", "update p 1 ?", "delete p 1 ."}, ""},
			"no primary key": {none, byVersion("w", "note"), "INSERT INTO p VALUES (1, 1, 1, 'a')", []string{minimal,
				"UPDATE p SET w = 2", "DELETE FROM p"}, []string{"update p 1 . w=2 note=a", "delete p 1 ."}, ""},
			"columns that the server sets": {"CREATE TABLE p (id INT NOT NULL, a INT, w INT, g INT AS (a * 2) STORED, h INT AS (a * 3) VIRTUAL, " +
				"at TIMESTAMP NOT NULL DEFAULT '2000-01-01 12:00:00' ON UPDATE CURRENT_TIMESTAMP, v INT); CREATE TRIGGER p_w BEFORE UPDATE ON p " +
				"FOR EACH ROW SET NEW.w = NEW.w + 1", byVersion("a", "w", "at", "g", "h"),
				"INSERT INTO p (id, a, w, v) VALUES (1, 1, 1, 1)", []string{minimal, "SET timestamp = 1000000000", "SET time_zone = '+00:00'",
					"UPDATE p SET a = 5"}, []string{"update p 1 . a=5 w=2 at=2001-09-09 01:46:40 g=10 h=15"}, ""},
			"a key that the server sets": {"CREATE TABLE p (id INT AS (a * 2) STORED, a INT, v INT, KEY (id))", byVersion("a"),
				"INSERT INTO p (a, v) VALUES (1, 1)", []string{minimal, "UPDATE p SET a = 5"}, []string{"delete p 2 .", "insert p 10 . a=5"}, ""},
			"many in one event": {single, byID("v", "note"), "INSERT INTO p VALUES (1, 1, 1, 'a'), (2, 2, 2, NULL), (3, 3, NULL, '')",
				[]string{minimal, "UPDATE p SET note = CONCAT('x', v), w = v"}, []string{"update p 1 ?", "update p 2 ?", "update p 3 ?"}, ""},
			"a key that is NULL": {versions, byVersion("w"), "INSERT INTO p VALUES (1, 1, 1, 1, 'a')", []string{
				"INSERT INTO p VALUES (2, NULL, 1, 1, 'b'), (3, 3, 3, 3, 'c')", "UPDATE p SET id = NULL WHERE n = 3",
				"UPDATE p SET w = 2 WHERE n = 2", "DELETE FROM p WHERE id IS NULL", "UPDATE p SET w = 5 WHERE n = 1"},
				[]string{"insert p 3 . w=3", "update p 1 . w=5"}, "p p p p"},
			"NULLs": {single, byID("id", "w", "note"), "INSERT INTO p VALUES (1, 1, 1, 'a'), (2, 2, 2, 'b')", []string{minimal,
				"UPDATE p SET w = NULL, note = NULL"}, []string{"update p 1 . id=1 w=<nil> note=<nil>", "update p 2 . id=2 w=<nil> note=<nil>"}, ""},
		} {
			if strings.Contains(name, "the server sets") && s.Kind == servers.MariaDB118 {
				continue // MariaDB 11.8 leaves these columns out
			}
			t.Run(name, func(t *testing.T) {
				b := newBench(t, s)
				b.exec(c.ddl, c.before)
				src := b.source(c.table)
				from := b.latest(src)
				b.session(c.session...)
				x := b.readOn(b.open(src, from))
				got := shownParts(x.upTo(b.latest(src)))
				if !slices.Equal(got, c.want) || x.lacked() != c.unlogged {
					t.Errorf("read %q and lacked %q, want %q and %q", got, x.lacked(), c.want, c.unlogged)
				}
			})
		}
	})
}

// MySQL logs only the changes within a JSON document if a session asks for it.
func TestDifferencesOfJSONDocuments(t *testing.T) {
	s := servertest.Shared(t, servers.MySQL)
	const partial, minimal = "SET SESSION binlog_row_value_options = PARTIAL_JSON", "SET SESSION binlog_row_image = MINIMAL"
	for name, c := range map[string]struct {
		columns []string
		session []string
		want    []string
	}{
		"of the document": {[]string{"b", "v"}, []string{partial, "UPDATE p SET b = JSON_SET(b, '$.n', 2)",
			"UPDATE p SET a = JSON_SET(a, '$.n', 3), b = NULL", "UPDATE p SET v = 4"},
			[]string{"update p 1 ?", "update p 1 . b=<nil> v=1", "update p 1 . b=<nil> v=4"}},
		// The before image then has no JSON column, and the after image has an empty difference.
		"of another one": {[]string{"c", "v"}, []string{partial, "UPDATE p SET b = JSON_SET(b, '$.n', 2), v = 2",
			"UPDATE p SET a = JSON_SET(a, '$.n', 2, '$.x', 1), b = JSON_REMOVE(b, '$.n'), c = '[1]'"},
			[]string{"update p 1 ?", "update p 1 . c=[1] v=2"}},
		"of none": {[]string{"v"}, []string{partial, "UPDATE p SET b = JSON_SET(b, '$.n', 2), v = 2"}, []string{"update p 1 . v=2"}},
		"minimal": {[]string{"c"}, []string{partial, minimal, "UPDATE p SET b = JSON_SET(b, '$.n', 2)",
			// The server logs c whole, because a difference would not be shorter.
			"UPDATE p SET c = JSON_SET(c, '$.k', 2), v = 2", "UPDATE p SET b = JSON_SET(b, '$.n', 3), c = '[2]'"},
			[]string{"update p 1 ?", `update p 1 . c={"k": 2}`, "update p 1 . c=[2]"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, s)
			b.exec("CREATE TABLE p (a JSON, id INT PRIMARY KEY, b JSON, v INT, c JSON)", "INSERT INTO p VALUES "+
				"(JSON_OBJECT('pad', REPEAT('x', 5000), 'n', 1), 1, JSON_OBJECT('pad', REPEAT('x', 5000), 'n', 1), 1, '{\"k\": 1}')")
			src := b.source(replicator.Table{Name: "p", Key: []string{"id"}, Columns: c.columns})
			x := b.read(b.open(src, b.latest(src)))
			b.session(c.session...)
			if got := shownParts(x.upTo(b.latest(src))); !slices.Equal(got, c.want) {
				t.Errorf("read %q, want %q", got, c.want)
			}
		})
	}
}

// If the server leaves a generated column out of the binlog, the rows are re-read for the views that need the column.
// And check warns of it beforehand, but only for servers that leave columns out.
func TestAGeneratedColumnThatIsLeftOutIsReadFromTheSource(t *testing.T) {
	id := []string{"id"}
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		for _, c := range []struct {
			name     string
			table    replicator.Table
			want     []string // if the server leaves them out
			unlogged string
			warned   []string
		}{
			{"nobody needs one", replicator.Table{Key: id, Columns: []string{"v"}},
				[]string{"update g 1 . v=2", "delete g 1 . last", "insert g 2 . v=2"}, "", nil},
			{"some do", replicator.Table{Key: id, Columns: []string{"v", "Twice"},
				Readers: map[string][]string{"v": {"a", "b"}, "Twice": {"b", "c"}}},
				[]string{"update g 1 ?", "delete g 1 . last", "insert g 2 . v=2 Twice=4"}, "", []string{"twice, needed by b, c"}},
			{"one takes what is there", replicator.Table{Key: id, Columns: []string{"v"}, Optional: []string{"twice"},
				Readers: map[string][]string{"v": {"a", "b"}, "twice": {"b"}}},
				[]string{"update g 1 ?", "delete g 1 . last", "insert g 2 . v=2 twice=4"}, "", []string{"twice, needed by b"}},
			{"one needs all", replicator.Table{Key: id, Columns: []string{"*"},
				Readers: map[string][]string{"*": {"a"}, "v": {"b"}}},
				[]string{"update g 1 ?", "delete g 1 . last", "insert g 2 . twice=4 id=2 thrice=6 v=2"}, "",
				[]string{"twice, needed by a", "thrice, needed by a"}},
			{"it is the version", replicator.Table{Key: []string{"v"}, Version: "thrice"},
				[]string{"delete g 1 ?", "insert g 2 ?", "delete g 2 ?", "insert g 2 ."}, "",
				[]string{"thrice, which has a role"}},
			{"it is the key", replicator.Table{Key: []string{"thrice"}, Version: "v"},
				[]string{"insert g 6 ."}, "g g", []string{"thrice, which identifies the row's cell"}},
		} {
			t.Run(c.name, func(t *testing.T) {
				b := newBench(t, s)
				b.exec("CREATE TABLE g (twice INT AS (v * 2) VIRTUAL, id INT PRIMARY KEY, thrice INT AS (v * 3) STORED, "+
					"v INT)", "INSERT INTO g (id, v) VALUES (1, 1)")
				c.table.Name = "g"
				src := b.source(c.table)
				x := b.readOn(b.open(src, b.latest(src)))
				b.exec("UPDATE g SET v = 2", "DELETE FROM g", "INSERT INTO g (id, v) VALUES (2, 2)")
				got := shownParts(x.upTo(b.latest(src)))
				var warned []string
				for _, f := range src.Check(testContext(t)) {
					if f.Level == replicator.Warn && strings.Contains(f.Detail, "generated") {
						warned = append(warned, f.Detail)
					}
				}
				if s.Kind != servers.MariaDB118 {
					if strings.Contains(strings.Join(got, "\n"), "?") || len(warned) > 0 {
						t.Errorf("a server that leaves nothing out: read %q, and check warns of %q", got, warned)
					}
					return
				}
				if !slices.Equal(got, c.want) || x.lacked() != c.unlogged {
					t.Errorf("read %q and lacked %q, want %q and %q", got, x.lacked(), c.want, c.unlogged)
				}
				if !slices.EqualFunc(warned, c.warned, strings.Contains) {
					t.Errorf("check warns of %q, want %q", warned, c.warned)
				}
			})
		}
	})
}

// Check warns of what a server's settings cost.
func TestCheckTellsWhatRowsWithoutAllTheirColumnsCost(t *testing.T) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		b := newBench(t, servertest.Own(t, kind, "--binlog-row-image=MINIMAL"))
		b.exec("CREATE TABLE p (id INT PRIMARY KEY, v INT)",
			"CREATE TABLE q (n INT PRIMARY KEY, id INT NOT NULL, v INT, UNIQUE KEY (id))")
		src := b.source(replicator.Table{Name: "p", Key: []string{"id"}}, replicator.Table{Name: "q", Key: []string{"id"}})
		var warned []string
		for _, f := range src.Check(testContext(t)) {
			if f.Level == replicator.Fail {
				t.Errorf("%s fails: %s", f.What, f.Detail)
			}
			if strings.Contains(f.Detail, "MINIMAL") && f.What != "binlog_row_metadata" {
				warned = append(warned, f.What)
			}
		}
		if want := []string{"binlog_row_image", "table q"}; !slices.Equal(warned, want) {
			t.Errorf("check warns of %v, want %v", warned, want)
		}
	})
}

// shownParts formats changes. It replaces the version by "?" if the row must be re-read, and by "." otherwise.
func shownParts(changes []replicator.Change) (list []string) {
	for _, c := range changes {
		shown := " ."
		if c.Version == replicator.AnyVersion {
			shown = " ?"
		}
		list = append(list, strings.Replace(showChange(c), " v"+strconv.FormatInt(c.Version, 10), shown, 1))
	}
	return list
}

// The rows of an event are looked up in batches by primary key. All of them are found.
func TestRowsAreFoundByTheirPrimaryKeys(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newBench(t, s)
		b.exec("CREATE TABLE p (a SMALLINT UNSIGNED, b BIGINT, id INT NOT NULL, v INT, UNIQUE KEY (id), PRIMARY KEY (b, a))")
		var rows, want []string
		for i := range 3*newestBatch + 1 {
			rows = append(rows, fmt.Sprintf("(%d, %d, %d, 1)", 65535-i, -i/2, 1000+i))
			want = append(want, fmt.Sprintf("update p %d ?", 1000+i))
		}
		b.exec("INSERT INTO p VALUES " + strings.Join(rows, ", "))
		src := b.source(replicator.Table{Name: "p", Key: []string{"id"}, Columns: []string{"v"}})
		x := b.readOn(b.open(src, b.latest(src)))
		b.session("SET SESSION binlog_row_image = MINIMAL", "UPDATE p SET v = 2")
		if got := shownSorted(x.upTo(b.latest(src))); !slices.Equal(got, want) || x.lacked() != "" {
			t.Errorf("read %q and lacked %q", got, x.lacked())
		}
	})
}
