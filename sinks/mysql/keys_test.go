package mysql_test

import (
	"fmt"
	"slices"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/sinks/mysql"
)

// orders are types of keys that sort or compare differently from their texts, with keys as a source's cells have them.
// As DOUBLEs, the last two keys of DECIMAL(20,0) would be equal.
var orders = map[string][]any{
	"ENUM('c','b','a')":              {"c", "b", "a"},
	"SET('c','b','a')":               {"", "c", "b", "c,b", "a", "b,a"},
	"BIT(8)":                         {int64(0), int64(9), int64(10), int64(255)},
	"BIT(64)":                        {int64(0), uint64(1<<63 + 1), uint64(1<<64 - 1)},
	"BIGINT UNSIGNED":                {int64(9), int64(10), uint64(1<<64 - 1), uint64(1<<64 - 2)},
	"DECIMAL(20,0)":                  {"-1", "9", "10", "12345678901234567890", "12345678901234567891"},
	"DECIMAL(10,3)":                  {"-1.500", "0.000", "9.000", "10.250"},
	"TIME(2)":                        {"-12:00:00.00", "-01:00:00.50", "01:00:00.00", "100:00:00.00"},
	"TIME":                           {"-838:59:59", "00:00:00", "01:00:00", "838:59:59"},
	"YEAR":                           {int64(0), int64(1901), int64(2155)},
	"DATETIME(6)":                    {"2024-05-06 07:08:09.120000", "2024-05-06 07:08:09.120001"},
	"VARBINARY(4)":                   {[]byte{}, []byte{0}, []byte{0, 0}, []byte("a"), []byte("A")},
	"VARCHAR(5) COLLATE utf8mb4_bin": {"", "a", "A", "b"},
}

func TestKeysOfEveryOrderArePagedThroughAndRemovedAlone(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		for ddl, values := range orders {
			t.Run(ddl, func(t *testing.T) {
				_, dsn := database(t, s, "CREATE TABLE r (id "+ddl+" PRIMARY KEY, email VARCHAR(50))")
				sink := newSink(t, dsn)
				v := view("row", "r", "email")
				target := openTarget(t, sink, v)
				var keys []string
				for i, value := range values {
					key, err := replicator.MakeKey(value)
					if err != nil {
						t.Fatal(err)
					}
					keys = append(keys, key.String())
					op := replicator.Op{Cell: replicator.Cell{Table: "cell", Column: "users", Key: key}, Version: 1, Order: int64(i + 1),
						Values: []replicator.Value{{Entries: []replicator.Entry{{Fields: []any{fmt.Sprint(i)}}}}}}
					if a, err := target.Apply(t.Context(), []replicator.Op{op}); err != nil || len(a.Rejected) > 0 {
						t.Fatal(a, err)
					}
				}
				if held := heldKeys(t, target); !slices.Equal(held, slices.Sorted(slices.Values(keys))) {
					t.Errorf("it holds %q, not %q", held, keys)
				}
				last, err := replicator.MakeKey(values[len(values)-1])
				if err != nil {
					t.Fatal(err)
				}
				gone := replicator.Op{Cell: replicator.Cell{Table: "cell", Column: "users", Key: last}, Version: replicator.NoVersion, AsOf: 100, Values: []replicator.Value{{}}}
				if a, err := target.Apply(t.Context(), []replicator.Op{gone}); err != nil || len(a.Rejected) > 0 {
					t.Fatal(a, err)
				}
				if held := heldKeys(t, target); !slices.Equal(held, slices.Sorted(slices.Values(keys[:len(keys)-1]))) {
					t.Errorf("without the last it holds %q, not %q", held, keys)
				}
			})
		}
	})
}

// Each batch has one change, because MySQL 9.7 compares one tuple differently from several.
func TestKeysOfSeveralColumnsOfEveryOrderAreRemovedAlone(t *testing.T) {
	servertest.EachKindOf(t, servers.AllSourceKinds(), func(t *testing.T, kind servers.Kind) {
		s := servertest.Shared(t, kind)
		for ddl, values := range orders {
			t.Run(ddl, func(t *testing.T) {
				_, dsn := database(t, s, "CREATE TABLE r (u "+ddl+", o INT, email VARCHAR(50), PRIMARY KEY (u, o))")
				sink := newSink(t, dsn)
				target := openTarget(t, sink, &replicator.View{Name: "r", Kind: "row", From: from("fav"),
					Fields: fields("email"), Fingerprint: "1", Settings: mysql.Settings{Table: "r",
						KeyFrom: []replicator.Field{{Name: "u", Path: "$user_id"}, {Name: "o", Path: "$object_id"}}}})
				put := []replicator.Value{{Entries: []replicator.Entry{{Fields: []any{"a@example.org"}}}}}
				var written, gone []replicator.Op
				for i, value := range values {
					key, err := replicator.MakeKey(int64(7), value)
					if err != nil {
						t.Fatal(err)
					}
					c := replicator.Cell{Table: "fav", Key: key}
					written = append(written, replicator.Op{Cell: c, Version: 1, Order: int64(i + 1), Values: put})
					gone = append(gone, replicator.Op{Cell: c, Version: replicator.NoVersion, AsOf: 100,
						Values: []replicator.Value{{}}})
				}
				for i, op := range slices.Concat(written, gone) {
					if a, err := target.Apply(t.Context(), []replicator.Op{op}); err != nil || len(a.Rejected) > 0 {
						t.Fatal(a, err)
					}
					if held, want := len(heldKeys(t, target)), min(i+1, 2*len(values)-i-1); held != want {
						t.Errorf("after %s it holds %d rows, not %d", op.Cell.Key, held, want)
					}
				}
			})
		}
	})
}

// heldKeys returns the keys that a target's only view holds, sorted. It reads one key per page.
func heldKeys(t *testing.T, target replicator.Target) (keys []string) {
	t.Helper()
	for after := ""; ; {
		cells, next, err := target.Held(t.Context(), 0, after, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cells {
			keys = append(keys, c.Key.String())
		}
		if after = next; after == "" || len(keys) > 100 {
			slices.Sort(keys)
			return keys
		}
	}
}
