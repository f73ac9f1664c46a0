package canal

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"replicator"
	"replicator/canal/binlog"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// A scan reads every row once and in order, however the server sorts the rows, and wherever a chunk ends.
func TestScanReadsEveryRowOnceInOrder(t *testing.T) {
	numbered := func(row string) (rows []string) {
		for i := range 37 {
			rows = append(rows, "("+fmt.Sprintf(row, i)+")")
		}
		return rows
	}
	k, id, b, c := []string{"k"}, []string{"id"}, []string{"b"}, []string{"c"}
	cases := []struct {
		name, columns string
		key, offset   []string
		rows          []string
	}{
		{"an ENUM in the primary key", "k INT, c ENUM('z', 'm', 'a'), PRIMARY KEY (k, c)", []string{"k", "c"}, nil,
			[]string{"(1, 'z')", "(1, 'm')", "(1, 'a')", "(2, 'a')", "(2, 'z')"}},
		{"an ENUM first, and one that is empty", "c ENUM('z', 'm', 'a'), k INT, PRIMARY KEY (c, k)", []string{"k", "c"}, nil,
			[]string{"(0, 1)", "('z', 1)", "('m', 1)", "('a', 1)", "('a', 2)"}},
		{"a SET in the primary key", "k INT, c SET('z', 'm', 'a'), PRIMARY KEY (k, c)", []string{"k", "c"}, nil,
			[]string{"(1, '')", "(1, 'z')", "(1, 'z,m')", "(1, 'a')", "(1, 'z,a')", "(1, 'm')"}},
		{"NULLs in a unique offset", "k INT PRIMARY KEY, c INT UNIQUE", k, c,
			[]string{"(1, NULL)", "(2, NULL)", "(3, NULL)", "(4, 7)", "(5, NULL)"}},
		{"an offset that many rows share", "k INT PRIMARY KEY, c DATETIME(3), KEY(c)", k, c,
			[]string{"(1, '2024-01-01 10:00:00.125')", "(2, '2024-01-01 10:00:00.125')", "(3, '2024-01-01 10:00:00.125')",
				"(4, '2024-01-01 10:00:00')", "(5, NULL)"}},
		{"integers above 2^63", "k BIGINT UNSIGNED PRIMARY KEY", k, nil,
			[]string{"(0)", "(9223372036854775807)", "(9223372036854775808)", "(18446744073709551614)",
				"(18446744073709551615)"}},
		{"text that ends in spaces or differs by case", "id INT PRIMARY KEY, k VARCHAR(9), KEY(k)", []string{"id", "k"}, k,
			[]string{"(1, 'a')", "(2, 'A')", "(3, 'a ')", "(4, 'b')", "(5, 'B  ')"}},
		{"binary that ends in zeroes", "k VARBINARY(4) PRIMARY KEY", k, nil,
			[]string{"('')", "(0x00)", "(0x0000)", "(0x61)", "(0x6100)", "(0xff)"}},
		{"a DOUBLE of which not all digits are shown", "c DOUBLE(10,2) PRIMARY KEY, k INT UNIQUE NOT NULL", k, nil,
			[]string{"(-0.10, 1)", "(-0.07, 2)", "(0, 3)", "(0.07, 4)", "(0.10, 5)", "(-99999999.99, 6)"}},
		{"a TIMESTAMP with microseconds", "c TIMESTAMP(6) NOT NULL, k INT UNIQUE, PRIMARY KEY (c, k)", k, nil,
			[]string{"('2024-03-31 02:30:00.000001', 1)", "('2024-03-31 02:30:00.000001', 2)",
				"('2024-03-31 02:30:00.000002', 3)"}},
		{"binary", "id BINARY(16) PRIMARY KEY", id, nil, numbered("UNHEX(LEFT(SHA2('%d', 256), 32))")},
		{"string", "id VARCHAR(50) PRIMARY KEY", id, nil, numbered("CONCAT('k''\\\\', %d)")},
		{"latin1", "id VARCHAR(50) CHARACTER SET latin1 PRIMARY KEY", id, nil, numbered("CONCAT('é', %d)")},
		{"composite", "id INT, b CHAR(3), PRIMARY KEY(b, id), UNIQUE(id)", id, []string{"b", "id"},
			numbered("%[1]d, MOD(%[1]d, 3)")},
		{"not unique", "id INT PRIMARY KEY, b INT NOT NULL, KEY(b)", id, b, numbered("%[1]d, MOD(%[1]d, 3)")},
		{"nullable", "id INT PRIMARY KEY, b INT, KEY(b)", id, b, numbered("%[1]d, NULLIF(MOD(%[1]d, 3), 0)")},
		{"timestamp", "id INT PRIMARY KEY, b TIMESTAMP NOT NULL, KEY(b)", id, b,
			numbered("%[1]d, FROM_UNIXTIME(1700000000 + MOD(%[1]d, 5))")},
		{"decimal", "id DECIMAL(30,10) PRIMARY KEY", id, nil, numbered("%d.0000000001")},
		{"unique without primary key", "id INT NOT NULL, UNIQUE(id)", id, nil, numbered("%d")},
		{"bit", "id BIT(20) PRIMARY KEY", id, nil, numbered("%d")},
	}
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newBench(t, s)
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				b := &bench{t: t, server: b.server, database: b.database, db: b.db}
				b.exec("DROP TABLE IF EXISTS x", "CREATE TABLE x ("+c.columns+")", "SET sql_mode = ''",
					"INSERT IGNORE INTO x VALUES "+strings.Join(c.rows, ", "))
				src := b.source(replicator.Table{Name: "x", Key: c.key, Offset: c.offset})
				r := b.open(src, b.latest(src))
				for _, size := range []int{1, 2, 3, 10} {
					got := b.wholeScan(r, "x", nil, replicator.ScanLimit{Rows: size})
					if got.count != len(c.rows) || len(got.rows) != len(c.rows) {
						t.Errorf("by %d: %d rows of %d cells, want %d: %v", size, got.count, len(got.rows), len(c.rows), got.rows)
					}
				}
			})
		}
	})
}

func TestAScanRefusesRowsThatItCanNotTellApart(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newBench(t, s)
		for _, ddl := range []string{"CREATE TABLE x (k INT UNIQUE, at DATETIME, KEY(at))",
			"CREATE TABLE x (k INT UNIQUE, at DATETIME UNIQUE)"} {
			b.exec("DROP TABLE IF EXISTS x", ddl)
			src := b.source(replicator.Table{Name: "x", Key: []string{"k"}, Offset: []string{"at"}})
			_, err := b.open(src, b.latest(src)).Scan(testContext(t), "x", nil, "", replicator.ScanLimit{Rows: 2})
			if !replicator.IsFatal(err) || !strings.Contains(err.Error(), "primary key") {
				t.Errorf("%s: %v", ddl, err)
			}
		}
	})
}

// If a table can't be read, the error concerns only the views that read the table, whichever method reads the rows.
func TestWhatIsWrongWithATableConcernsItsViewsAlone(t *testing.T) {
	views := []*replicator.View{{Name: "of x", From: []replicator.Feed{{Table: "x"}}},
		{Name: "of another", From: []replicator.Feed{{Table: "y"}}}}
	cell := replicator.Cell{Table: "x"}
	cell.Key, _ = replicator.MakeKey(int64(1))
	scan := func(ctx context.Context, r *Reader) error {
		_, err := r.Scan(ctx, "x", nil, "", replicator.ScanLimit{Rows: 2})
		return err
	}
	look := func(ctx context.Context, r *Reader) error {
		_, _, err := r.Newest(ctx, []replicator.Cell{cell}, 0)
		return err
	}
	list := func(ctx context.Context, r *Reader) error {
		_, _, err := r.Cells(ctx, "x", nil, "", 2)
		return err
	}
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newBench(t, s)
		for name, c := range map[string]struct {
			ddl   string
			later string // runs once the reader is open
			reads func(context.Context, *Reader) error
		}{
			"no order": {"CREATE TABLE x (k INT UNIQUE)", "DO 0", scan},
			"a key that is NULL": {"CREATE TABLE x (i INT PRIMARY KEY, k INT UNIQUE)", "INSERT INTO x VALUES (1, NULL)",
				scan},
			"it is gone":                 {"CREATE TABLE x (k INT PRIMARY KEY)", "DROP TABLE x", scan},
			"it is gone, in a look":      {"CREATE TABLE x (k INT PRIMARY KEY)", "DROP TABLE x", look},
			"its key is gone, in a list": {"CREATE TABLE x (k INT PRIMARY KEY, i INT)", "ALTER TABLE x DROP COLUMN k", list},
		} {
			b.exec("DROP TABLE IF EXISTS x", c.ddl)
			src := b.source(replicator.Table{Name: "x", Key: []string{"k"}})
			r := b.open(src, b.latest(src))
			b.exec(c.later)
			err := c.reads(testContext(t), r)
			groups, others := replicator.Troubled(views, err)
			if !replicator.IsFatal(err) || len(groups) != 1 || len(others) != 1 || groups[0][0] != views[0] {
				t.Errorf("%s: %v concerns %d groups of views, and not %d others", name, err, len(groups), len(others))
			}
		}
	})
}

// An offset is invalid once the scan follows other columns. The scan then starts again.
func TestAScanBeginsAnewWhereItsOrderIsAnother(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newBench(t, s)
		b.exec("CREATE TABLE x (k INT PRIMARY KEY, other INT NOT NULL)", "INSERT INTO x VALUES (10, 1), (20, 2), (30, 3)")
		table := replicator.Table{Name: "x", Key: []string{"k"}}
		src := b.source(table)
		chunk, err := b.open(src, b.latest(src)).Scan(testContext(t), "x", nil, "", replicator.ScanLimit{Rows: 2})
		if err != nil || chunk.Done {
			t.Fatal(chunk, err)
		}
		b.exec("ALTER TABLE x DROP PRIMARY KEY, ADD PRIMARY KEY (other), ADD UNIQUE (k)")
		src = b.source(table)
		chunk, err = b.open(src, b.latest(src)).Scan(testContext(t), "x", nil, chunk.Next, replicator.ScanLimit{Rows: 9})
		if err != nil || len(chunk.Rows) != 3 {
			t.Errorf("after the primary key was changed: %d rows, %v", len(chunk.Rows), err)
		}
	})
}

func TestPlacesOfAScanAreRead(t *testing.T) {
	x := &selection{columns: []selected{{declaredColumn: declaredColumn{Declared: binlog.Declared{Name: "a"}}},
		{declaredColumn: declaredColumn{Declared: binlog.Declared{Name: "b"}}}}, offset: []int{0, 1}}
	place := x.encodeOffset([][]byte{[]byte("1\xff"), nil})
	got, same := x.decodeOffset(place)
	if !same || len(got) != 2 || *got[0] != "1\xff" || got[1] != nil {
		t.Errorf("%s is %v, %t", place, got, same)
	}
	slices.Reverse(x.offset)
	for _, place := range []string{place, "", "no JSON", `["MQ"]`, `[["b","?"],["a",null]]`} {
		if got, same := x.decodeOffset(place); same {
			t.Errorf("%q is %v", place, got)
		}
	}
}

// The server's statistics have a table's number of rows, but not how many rows a scan of one column value reads.
func TestAScanOfSomeColumnsSaysHowManyRowsItComesPast(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newBench(t, s)
		b.exec("CREATE TABLE x (id INT AUTO_INCREMENT PRIMARY KEY, k INT, c VARCHAR(9), v INT)",
			"INSERT INTO x (k, c, v) SELECT i, IF(i % 4 = 0, 'few', 'many'), 1 FROM "+servertest.Numbers(800)+" ORDER BY i",
			"ANALYZE TABLE x")
		src := b.source(replicator.Table{Name: "x", Key: []string{"k"}, Column: "c", Version: "v", Offset: []string{"id"}})
		reader := b.open(src, b.latest(src))
		for _, c := range []struct {
			columns     []string
			least, most int64
		}{{[]string{"few"}, 150, 250}, {[]string{"few", "many"}, 700, 900}, {nil, 0, 0}, {[]string{"none"}, 0, 0}} {
			chunk, err := reader.Scan(t.Context(), "x", c.columns, "", replicator.ScanLimit{Rows: 10})
			if err != nil || chunk.Total < c.least || chunk.Total > c.most {
				t.Errorf("of %q: %d, %v", c.columns, chunk.Total, err)
			}
		}
	})
}
