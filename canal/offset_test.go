package canal

import (
	"errors"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// The rows are numbered from 0 to 19, and the scan starts at one of them. at is the offset as an operator would write
// it.
func TestScanBeginsAtAnOffsetThatAPersonNames(t *testing.T) {
	cases := []struct {
		name, ddl, insert string
		offset            []string
		at                string
		want              int // rows
		bad               string
	}{
		{"integers", "id BIGINT UNSIGNED PRIMARY KEY", "18446744073709551596 + n", nil, "18446744073709551600", 16, "x"},
		{"in a gap", "id INT PRIMARY KEY", "n * 10", nil, "95", 10, "9 5"},
		{"some have one offset", "id INT PRIMARY KEY, b INT NOT NULL, KEY (b)", "n, n DIV 5", []string{"b"}, "2", 10, "2:3"},
		{"an offset without an index", "id INT PRIMARY KEY, b VARCHAR(9)", "n, 10 + n", []string{"b"}, "20", 10, ""},
		{"decimals without an index", "id INT PRIMARY KEY, b DECIMAL(9,2)", "n, n * 10", []string{"b"}, "150.00", 5, "x"},
		{"all", "id INT PRIMARY KEY, b INT UNSIGNED", "n, n", []string{"b"}, "0", 20, ""},
		{"a unique offset", "id INT PRIMARY KEY, b INT NOT NULL UNIQUE", "n, 10 * n", []string{"b"}, "20", 18, ""},
		{"times", "id INT PRIMARY KEY, b DATETIME(6) NOT NULL, KEY (b)", "n, '2024-01-01' + INTERVAL n DIV 4 HOUR",
			[]string{"b"}, "2024-01-01 04:00", 4, "yesterday"},
		{"a day", "id INT PRIMARY KEY, b TIMESTAMP(3) NOT NULL, KEY (b)", "n, '2024-01-01 12:00:00' + INTERVAL n DIV 4 DAY",
			[]string{"b"}, "2024-01-03", 12, "2024-13-01"},
		{"texts", "id VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PRIMARY KEY",
			"CONCAT('é:', LPAD(n, 2, '0'))", nil, "é:15", 5, ""},
		{"bytes", "id BINARY(16) PRIMARY KEY", "UNHEX(LPAD(HEX(n), 32, '0'))", nil,
			"00000000-0000-0000-0000-00000000000a", 10, "0g"},
		{"decimals", "id DECIMAL(30,10) PRIMARY KEY", "n + 0.5", nil, "17.25", 3, "17,25"},
		{"members of an ENUM", "id ENUM('z','y','x') NOT NULL, n INT, PRIMARY KEY (id, n)", "1 + n DIV 8, n",
			[]string{"id"}, "y", 12, "a"},
		{"several columns", "a VARCHAR(9), b INT, PRIMARY KEY (a, b)", "CONCAT('x:', n DIV 10), n", nil,
			"x%3A1:12", 8, "x%3A1:many"},
		{"the first of several columns", "a INT, b INT, PRIMARY KEY (a, b)", "n DIV 10, n", nil, "1", 10, "1:2:3"},
	}
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newBench(t, s)
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				b := &bench{t: t, server: b.server, database: b.database, db: b.db}
				b.exec("DROP TABLE IF EXISTS x", "CREATE TABLE x ("+c.ddl+")",
					"INSERT INTO x SELECT "+c.insert+" FROM (SELECT i AS n FROM "+servertest.Numbers(20)+") AS r ORDER BY n")
				src := b.source(replicator.Table{Name: "x", Key: b.primaryKey("x"), Offset: c.offset})
				if err := src.CheckOffset(testContext(t), "x", c.at); err != nil {
					t.Errorf("%q: %v", c.at, err)
				}
				if err := src.CheckOffset(testContext(t), "x", c.bad); c.bad != "" && !errors.Is(err, ErrOffset) {
					t.Errorf("%q: %v, want that it can't be an offset", c.bad, err)
				}
				r := b.open(src, b.latest(src))
				rows := 0
				for after, done := Offset(c.at), false; !done; {
					chunk, err := r.Scan(testContext(t), "x", nil, after, replicator.ScanLimit{Rows: 3})
					if err != nil {
						t.Fatal(err)
					}
					rows += len(chunk.Rows)
					after, done = chunk.Next, chunk.Done
				}
				if rows != c.want {
					t.Errorf("%d rows from %q on, want %d", rows, c.at, c.want)
				}
			})
		}
	})
}

func (b *bench) primaryKey(table string) []string {
	b.t.Helper()
	var names string
	err := b.db.QueryRowContext(testContext(b.t), "SELECT GROUP_CONCAT(COLUMN_NAME ORDER BY SEQ_IN_INDEX) "+
		"FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? AND INDEX_NAME = 'PRIMARY'",
		b.database, table).Scan(&names)
	if err != nil {
		b.t.Fatal(err)
	}
	return strings.Split(names, ",")
}
