package canal

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// eachMariaDB runs a test on each kind of server whose tables may have times in the format of MariaDB 5.3. Each run has
// a new server.
func eachMariaDB(t *testing.T, test func(t *testing.T, b *bench), args ...string) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		if kind.IsMariaDB() {
			test(t, newBench(t, servertest.Own(t, kind, args...)))
		}
	})
}

// namedColumns makes the binlog name columns. Then the layout before an ALTER is not kept, which would show that a
// column had the format of MariaDB 5.3.
const namedColumns = "--binlog-row-metadata=FULL"

// inOldFormat creates tables whose times have the format of MariaDB 5.3.
func (b *bench) inOldFormat(ddl ...string) {
	b.t.Helper()
	b.exec("SET GLOBAL mysql56_temporal_format = OFF")
	b.exec(ddl...)
	b.exec("SET GLOBAL mysql56_temporal_format = ON")
}

// For such columns, the binlog gives neither the number of fractional digits nor the length, which depends on the
// digits.
func TestTimesInTheFormatOfMariaDB53AreReadAsAScanReadsThem(t *testing.T) {
	eachMariaDB(t, func(t *testing.T, b *bench) {
		types := []typeCase{
			{"DATETIME", []string{"2024-05-06 07:08:09.123456", "0000-00-00 00:00:00", "1969-12-31 23:59:59.999999",
				"9999-12-31 23:59:59.999999", "2024-00-00 00:00:00", "0001-01-01 00:00:00.000001"}},
			{"TIME", []string{"12:34:56.654321", "-838:59:58.5", "-00:00:00.5", "-00:00:00.01", "00:00:00",
				"-01:02:03.000001", "838:59:59.999999"}},
			{"TIMESTAMP", []string{"2024-05-06 07:08:09.123456", "0000-00-00 00:00:00", "2038-01-18 03:14:07.999999",
				"1970-01-02 00:00:01.5", "1970-01-01 05:30:00.5"}},
		}
		var tables []replicator.Table
		for _, c := range types {
			name := strings.ToLower(c.ddl) + "s"
			ddl := "CREATE TABLE " + name + " (id INT PRIMARY KEY"
			for n := range 7 {
				ddl += fmt.Sprintf(", c%d %s(%d) NULL", n, c.ddl, n)
			}
			kind := "KEY"
			if c.ddl == "TIME" { // a TIME can't be a version, so the key must be unique
				kind = "UNIQUE"
			}
			b.inOldFormat(ddl + ", behind VARCHAR(20), " + kind + " (behind))")
			tables = append(tables, replicator.Table{Name: name, Key: []string{"behind"}, Columns: []string{"*"}})
		}
		tables[0].Version, tables[2].Version = "c5", "c6"
		src := b.source(tables...)
		for _, full := range []bool{true, false} {
			b.metadata(full)
			for _, table := range tables {
				b.exec("DELETE FROM " + table.Name)
			}
			from := b.latest(src)
			for _, c := range types {
				for id, value := range c.values {
					value = strings.Repeat(", '"+value+"'", 7)
					b.session("SET sql_mode = ''", "SET time_zone = '+05:30'", fmt.Sprintf(
						"INSERT INTO %ss VALUES (%d%s, '%v %d')", strings.ToLower(c.ddl), id, value, full, id))
				}
			}
			b.sameInTailAndScan(src, from, tables)
		}
	})
}

// sameInTailAndScan compares the rows that were written since a position with the rows that a scan reads.
func (b *bench) sameInTailAndScan(src *Source, from replicator.Position, tables []replicator.Table) {
	b.t.Helper()
	tailed := map[replicator.Cell]*replicator.Row{}
	for _, c := range b.changes(src, from) {
		tailed[c.Cell] = c.Row
	}
	reader := b.open(src, b.latest(src))
	for _, table := range tables {
		chunk, err := reader.Scan(testContext(b.t), table.Name, nil, "", replicator.ScanLimit{Rows: 100})
		if err != nil {
			b.t.Fatal(err)
		}
		for _, r := range chunk.Rows {
			row := tailed[r.Cell]
			switch {
			case row == nil:
				b.t.Errorf("%s was not read from the binlog", r.Cell)
			case !reflect.DeepEqual(row.Columns, r.Columns):
				b.t.Errorf("%s:\ntail %q\nscan %q", r.Cell, row.Columns, r.Columns)
			case table.Version != "" && row.Version != r.Version && row.Err == nil:
				b.t.Errorf("%s: version %d in the tail, %d in the scan", r.Cell, row.Version, r.Version)
			case (row.Err == nil) != (r.Err == nil):
				b.t.Errorf("%s: tail %v, scan %v", r.Cell, row.Err, r.Err)
			}
			delete(tailed, r.Cell)
		}
	}
	if len(tailed) > 0 {
		b.t.Errorf("%d rows that no scan shows: %v", len(tailed), tailed)
	}
}

// Nothing shows a table's columns before an ALTER. Rows with unknown lengths are skipped and reported, but only rows of
// that table.
func TestTimesInTheFormatOfMariaDB53OfATableThatHasThemNoMoreAreToldAsUnlogged(t *testing.T) {
	eachMariaDB(t, func(t *testing.T, b *bench) {
		for name, alter := range map[string]string{
			"DATETIME(6)":  "FORCE",
			"TIME(3)":      "FORCE",
			"TIMESTAMP(2)": "FORCE",
			"TIME(4)":      "MODIFY v TIME",
			"TIMESTAMP(6)": "MODIFY v TIMESTAMP NULL",
			"DATETIME(3)":  "MODIFY v VARCHAR(40)",
			"DATETIME(5)":  "DROP v",
			"TIMESTAMP(1)": "RENAME COLUMN v TO u",
		} {
			t.Run(name+alter, func(t *testing.T) {
				b := &bench{t: t, server: b.server, database: b.database, db: b.db}
				b.exec("DROP TABLE IF EXISTS x, y", "CREATE TABLE y (id INT PRIMARY KEY, w VARCHAR(10))")
				b.inOldFormat("CREATE TABLE x (id INT PRIMARY KEY, v " + name + " NULL, w VARCHAR(10))")
				table := replicator.Table{Name: "x", Key: []string{"id"}, Columns: []string{"w"}}
				src := b.source(table, replicator.Table{Name: "y", Key: []string{"id"}, Columns: []string{"w"}})
				from := b.latest(src)
				b.exec("INSERT INTO x VALUES (1, '2024-05-06 07:08:09', 'one'), (2, '2024-05-06 07:08:09.5', '')",
					"INSERT INTO y VALUES (1, 'y')", "ALTER TABLE x "+alter)
				err := b.read(b.open(src, from)).failure()
				if !errors.Is(err, replicator.ErrUnlogged) || !replicator.IsOfViews(err) ||
					!strings.Contains(err.Error(), "table x") || !strings.Contains(err.Error(), "olumn v") {
					t.Errorf("reading ended with %v", err)
				}
				r, err := src.Open(testContext(t), []replicator.Position{from}, "y")
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { r.Close() })
				if got := b.read(r.(*Reader)).upTo(b.latest(src)); len(got) != 1 {
					t.Errorf("of the other table %d changes were read, want one", len(got))
				}
				// Rows written from now on are read.
				from = b.latest(src)
				b.exec("UPDATE x SET w = 'new'")
				b.sameInTailAndScan(src, from, []replicator.Table{table})
			})
		}
	}, namedColumns)
}

// A DATETIME(6) in this format is as long as a DATETIME without fractional digits, so only its value shows the
// difference.
func TestADatetimeInTheFormatOfMariaDB53ThatCanBeNoneIsAnErrorOfItsRow(t *testing.T) {
	eachMariaDB(t, func(t *testing.T, b *bench) {
		b.inOldFormat("CREATE TABLE x (id INT PRIMARY KEY, v DATETIME(6), w VARCHAR(10))")
		src := b.source(replicator.Table{Name: "x", Key: []string{"id"}, Columns: []string{"*"}})
		from := b.latest(src)
		b.exec("INSERT INTO x VALUES (1, '2024-05-06 07:08:09', 'one'), (2, '2024-05-06 07:08:09.5', 'two')",
			"ALTER TABLE x MODIFY v DATETIME")
		for _, c := range b.readOn(b.open(src, from)).upTo(b.latest(src)) { // the ALTER is reported as unlogged
			if c.Row.Err == nil || !strings.Contains(c.Row.Err.Error(), "column v") {
				t.Errorf("%s, want an error that names column v", showChange(c))
			}
		}
	}, namedColumns)
}
