package mysql

import (
	"database/sql"
	"math"
	"testing"

	driver "github.com/go-sql-driver/mysql"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// Statements contain values as literals. Each server reads exactly the same value, and no value ends a statement.
func TestServersReadLiteralsAsTheValuesThatTheyAre(t *testing.T) {
	var all []byte
	for i := range 256 {
		all = append(all, byte(i))
	}
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		config, err := driver.ParseDSN(s.DSN(""))
		if err != nil {
			t.Fatal(err)
		}
		db, err := openDB(config, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		for _, v := range []any{
			"", "text", `'; DROP TABLE x; -- "\`, "\\'", "a\x00b\n\r\x1a\t%_", "Zürich 東京 🚲", "`?`;",
			[]byte{}, all, []byte("';"), int64(math.MinInt64), int64(math.MaxInt64), uint64(math.MaxUint64), 0.1, -1e-300, 1e+06,
		} {
			literal := string(appendLiteral(nil, v))
			var same, one bool
			// Compared as bytes, because a comparison of texts would use a collation.
			query := "SELECT CAST(" + literal + " AS BINARY) = CAST(? AS BINARY); SELECT 1"
			if _, number := v.(float64); number {
				query = "SELECT " + literal + " = ?; SELECT 1"
			}
			rows, err := db.Query(query, v)
			if err != nil {
				t.Errorf("%s: %v", literal, err)
				continue
			}
			read(t, rows, &same)
			if !rows.NextResultSet() {
				t.Errorf("%s ends the statement", literal)
			} else if read(t, rows, &one); !same || !one {
				t.Errorf("%s is read as another value", literal)
			}
			rows.Close()
		}
		var null sql.NullString
		if err := db.QueryRow("SELECT " + string(appendLiteral(nil, nil))).Scan(&null); err != nil || null.Valid {
			t.Errorf("NULL: %v, %v", null, err)
		}
	})
}

func read(t *testing.T, rows *sql.Rows, into *bool) {
	t.Helper()
	if !rows.Next() {
		t.Fatal("no row", rows.Err())
	}
	if err := rows.Scan(into); err != nil {
		t.Fatal(err)
	}
}
