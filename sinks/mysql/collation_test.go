package mysql_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/sinks/mysql"
)

// Values that the collation of the table's key treats as equal are one entry. If no key contains the value, they are
// several entries.
func TestEqualValuesOfACellAreOneEntry(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, dsn := database(t, s,
			"CREATE TABLE ci (tag VARCHAR(50) COLLATE utf8mb4_general_ci NOT NULL, id BINARY(16) NOT NULL, PRIMARY KEY (id, tag))",
			"CREATE TABLE cs (tag VARCHAR(50) COLLATE utf8mb4_bin NOT NULL, id BINARY(16) NOT NULL, PRIMARY KEY (id, tag))",
			"CREATE TABLE loose (tag VARCHAR(50) COLLATE utf8mb4_general_ci NOT NULL, id BINARY(16) NOT NULL, KEY (id))")
		sink := newSink(t, dsn)
		target := openTarget(t, sink, view("index", "ci", "tag"), view("index", "cs", "tag"), view("index", "loose", "tag"))
		ops := []replicator.Op{userOp(1, 1, 3, "Foo", "foo", "Foo", "bar", "fóo"), userOp(2, 1, 3, "foo")}
		applied, err := target.Apply(t.Context(), ops)
		if err != nil || len(applied.Rejected) > 0 {
			t.Fatal(applied, err)
		}
		for table, want := range map[string]int{"ci": 3, "cs": 5, "loose": 5} {
			if n := count(t, db, table); n != want {
				t.Errorf("%s has %d rows, and not %d", table, n, want)
			}
		}
		if d, err := target.Compare(t.Context(), ops); err != nil || len(d) > 0 {
			t.Errorf("differences: %+v, %v", d, err)
		}
		exec(t, db, "DELETE FROM ci WHERE tag = 'bar'")
		if d, err := target.Compare(t.Context(), ops); err != nil || len(d) != 1 || d[0].Kind != replicator.Stale {
			t.Errorf("without an entry: differences: %+v, %v", d, err)
		}
	})
}

// If an application changes only the case of a key, 'abc' and 'ABC' are one row to the application. In the binlog, one
// key goes and another one comes. The two keys are in different lanes, so either may be applied first.
func TestAKeyThatChangesInItsCaseAloneKeepsItsRows(t *testing.T) {
	key := func(id string) replicator.Key {
		k, err := replicator.MakeKey(id, int64(7))
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	op := func(id string, version int64, entries ...replicator.Entry) replicator.Op {
		op := replicator.Op{Cell: replicator.Cell{Table: "fav", Key: key(id)}, Version: version, Order: version}
		if len(entries) == 0 {
			op.Version, op.Order, op.AsOf = replicator.NoVersion, 0, version
		}
		for i := range 3 {
			op.Values = append(op.Values, replicator.Value{View: i, Entries: entries})
		}
		return op
	}
	value := replicator.Entry{Fields: []any{"x"}}
	old, gone, renamed := op("abc é", 1, value), op("abc é", 2), op("ABC É", 2, value)
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		for name, batches := range map[string][][]replicator.Op{
			"the old one first": {{old}, {gone}, {renamed}},
			"the new one first": {{old}, {renamed}, {gone}},
			"in one batch":      {{old}, {gone, renamed}},
		} {
			t.Run(name, func(t *testing.T) {
				db, dsn := database(t, s,
					"CREATE TABLE r (o VARCHAR(20) COLLATE utf8mb4_general_ci, u BIGINT, email VARCHAR(50), PRIMARY KEY (o, u))",
					"CREATE TABLE i (email VARCHAR(50), o CHAR(20) CHARACTER SET latin1, u BIGINT, PRIMARY KEY (email, o, u), UNIQUE (o, u))",
					"CREATE TABLE loose (email VARCHAR(50), o VARCHAR(20) CHARACTER SET latin1, u BIGINT, KEY (o))")
				sink := newSink(t, dsn)
				views := []*replicator.View{view("row", "r", "email"), view("index", "i", "email"), view("index", "loose", "email")}
				for _, v := range views {
					v.From = from("fav")
					set(v, func(s *mysql.Settings) {
						s.KeyFrom = []replicator.Field{{Name: "o", Path: "$object_id"}, {Name: "u", Path: "$user_id"}}
					})
				}
				target := openTarget(t, sink, views...)
				for _, batch := range batches {
					if a, err := target.Apply(t.Context(), batch); err != nil || len(a.Rejected) > 0 || len(a.Stale) > 0 {
						t.Fatal(a, err)
					}
				}
				for _, v := range views {
					var all string
					if err := db.QueryRow("SELECT GROUP_CONCAT(CONCAT(o, u, email)) FROM " +
						settings(v).Table).Scan(&all); err != nil || all != "ABC É7x" {
						t.Errorf("%s holds %q (%v)", settings(v).Table, all, err)
					}
				}
				if d, err := target.Compare(t.Context(), []replicator.Op{renamed}); err != nil || len(d) > 0 {
					t.Errorf("differences: %+v, %v", d, err)
				}
			})
		}
	})
}

// pairs are columns of a source and of a target, and whether the target's column distinguishes all values that the
// source's column distinguishes.
var pairs = []struct {
	source mysql.SourceColumn
	target string
	apart  bool
}{
	{text("varchar(11)", "ascii_bin"), "VARCHAR(11) CHARACTER SET ascii COLLATE ascii_bin", true},
	{text("varchar(11)", "ascii_bin"), "VARCHAR(11) COLLATE utf8mb4_bin", true},
	{text("varchar(11)", "ascii_bin"), "VARBINARY(11)", true},
	{text("varchar(11)", "ascii_bin"), "VARCHAR(11) CHARACTER SET ascii COLLATE ascii_general_ci", false},
	{text("varchar(11)", "ascii_bin"), "VARCHAR(11) COLLATE utf8mb4_unicode_ci", false},
	{text("varchar(11)", "ascii_bin"), "ENUM('a','b') COLLATE utf8mb4_general_ci", false},
	{text("varchar(11)", "utf8mb4_general_ci"), "VARCHAR(11) COLLATE utf8mb4_general_ci", true},
	{text("varchar(11)", "utf8mb3_general_ci"), "VARCHAR(11) COLLATE utf8mb4_general_ci", true},
	{text("varchar(11)", "utf8mb4_general_ci"), "VARCHAR(11) COLLATE utf8mb4_bin", true},
	{text("varchar(11)", "utf8mb4_general_ci"), "VARCHAR(11) COLLATE utf8mb4_unicode_ci", false},
	{text("varchar(11)", "latin1_swedish_ci"), "VARCHAR(11) COLLATE utf8mb4_swedish_ci", false},
	{text("enum('a','A')", "utf8mb4_bin"), "VARCHAR(11) COLLATE utf8mb4_general_ci", false},
	{text("enum('a','b')", "utf8mb4_general_ci"), "ENUM('a','b') COLLATE utf8mb4_general_ci", true},
	{text("varchar(11)", "utf8mb4_0900_bin"), "VARCHAR(11) COLLATE utf8mb4_bin", false}, // 'a' and 'a '
	{text("varchar(11)", "utf8mb4_nopad_bin"), "VARCHAR(11) COLLATE utf8mb4_bin", false},
	{text("char(11)", "utf8mb4_0900_bin"), "VARCHAR(11) COLLATE utf8mb4_bin", true}, // CHAR stores no trailing spaces
	{text("varchar(11)", "utf8mb4_0900_bin"), "CHAR(11) COLLATE utf8mb4_bin", true}, // CHAR rejects trailing spaces
	{mysql.SourceColumn{Type: "varbinary(11)"}, "VARCHAR(11) COLLATE utf8mb4_bin", false},
	{mysql.SourceColumn{Type: "varbinary(11)"}, "VARBINARY(11)", true},
	{mysql.SourceColumn{Type: "binary(4)"}, "VARCHAR(11) COLLATE utf8mb4_bin", true},
	{mysql.SourceColumn{Type: "binary(4)"}, "VARCHAR(11) COLLATE utf8mb4_general_ci", false},
	{mysql.SourceColumn{Type: "binary(16)"}, "CHAR(36) COLLATE utf8mb4_general_ci", true},
	{mysql.SourceColumn{Type: "bigint unsigned"}, "VARCHAR(20) COLLATE utf8mb4_general_ci", true},
	{mysql.SourceColumn{Type: "datetime(6)"}, "VARCHAR(30) COLLATE utf8mb4_general_ci", true},
	{mysql.SourceColumn{}, "VARCHAR(11) COLLATE utf8mb4_general_ci", true}, // the source's column is unknown
}

func text(typ, collation string) mysql.SourceColumn {
	set, _, _ := strings.Cut(collation, "_")
	return mysql.SourceColumn{Type: typ, Charset: set, Collation: collation}
}

func TestTablesThatTakeTwoKeysForOneAreRefused(t *testing.T) {
	servertest.EachKindOf(t, servers.AllSourceKinds(), func(t *testing.T, kind servers.Kind) {
		s := servertest.Shared(t, kind)
		var ddl []string
		var views []*replicator.View
		for i, p := range pairs {
			name := fmt.Sprintf("v%d", i)
			ddl = append(ddl, "CREATE TABLE "+name+" (id "+p.target+" PRIMARY KEY, email TEXT)")
			v := view("row", name, "email")
			v.From = from(name)
			set(v, func(s *mysql.Settings) { s.KeyFrom = []replicator.Field{{Name: "id", Path: "$key"}} })
			views = append(views, v)
		}
		db, dsn := database(t, s, ddl...)
		c := mysql.Config{Name: "main", DSN: dsn, Columns: func(_ context.Context, _,
			table string) ([]mysql.SourceColumn, error) {
			var i int
			if _, err := fmt.Sscanf(table, "v%d", &i); err != nil {
				return nil, err
			}
			column := pairs[i].source
			if column.Name = "key"; column.Type == "" {
				return nil, nil
			}
			return []mysql.SourceColumn{column}, nil
		}}
		for _, v := range views {
			c.Tables = append(c.Tables, replicator.Table{Name: v.Name, Table: v.Name, Key: []string{"key"}})
		}
		sink := newSinkOf(t, c)
		found := sink.Check(t.Context(), views)
		found = found[len(found)-len(views):]
		for i, p := range pairs {
			switch refused := found[i].Level == replicator.Fail; {
			case refused == p.apart:
				t.Errorf("%+v into %s: %+v", p.source, p.target, found[i])
			case refused: // the ALTER in the message must be enough
				_, alter, _ := strings.Cut(found[i].Detail, "ALTER TABLE")
				alter, _, _ = strings.Cut(alter, ", and then")
				exec(t, db, "ALTER TABLE"+alter)
				again := sink.Check(t.Context(), views[i:i+1])
				if last := again[len(again)-1]; last.Level != replicator.OK {
					t.Errorf("%+v into %s, after %s: %+v", p.source, p.target, alter, last)
				}
			}
		}
	})
}

func TestTypesThatOnlyMariaDBHasAreCreatedAsTextsElsewhere(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		_, dsn := database(t, s)
		types := []string{"uuid", "inet4", "inet6"}
		c := mysql.Config{Name: "main", DSN: dsn, Columns: func(_ context.Context, _,
			table string) ([]mysql.SourceColumn, error) {
			return []mysql.SourceColumn{{Name: "key", Type: table}}, nil
		}}
		var views []*replicator.View
		for _, typ := range types {
			v := view("row", "of_"+typ, "email")
			v.From = from(typ)
			set(v, func(s *mysql.Settings) { s.KeyFrom, s.Create = []replicator.Field{{Name: "id", Path: "$key"}}, true })
			views = append(views, v)
			c.Tables = append(c.Tables, replicator.Table{Name: typ, Table: typ, Key: []string{"key"}})
		}
		sink := newSinkOf(t, c)
		target := openTarget(t, sink, views...)
		for i, value := range []string{"71f0c4d2-2918-44cc-a2df-6f486e960000", "10.0.0.1", "2001:db8::ff00:42:8329"} {
			key, err := replicator.MakeKey(value)
			if err != nil {
				t.Fatal(err)
			}
			op := replicator.Op{Cell: replicator.Cell{Table: types[i], Key: key}, Version: 1, Order: 1,
				Values: []replicator.Value{{View: i, Entries: []replicator.Entry{{Fields: []any{"x"}}}}}}
			if a, err := target.Apply(t.Context(), []replicator.Op{op}); err != nil || len(a.Rejected) > 0 {
				t.Fatal(a, err)
			}
			cells, _, err := target.Held(t.Context(), i, "", 10)
			if err != nil || len(cells) != 1 || cells[0].Key != key {
				t.Errorf("%s: it holds %+v (%v)", types[i], cells, err)
			}
		}
	})
}

// If two groups shared a counter's row before the program checked that, Strays finds the wrong sums.
func TestGroupsThatMetInOneRowAreFound(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		for _, met := range []struct{ collation, one, other string }{
			{"utf8mb4_bin", "a", "a "}, {"utf8mb4_general_ci", "A", "a"},
		} {
			db, dsn := database(t, s, "CREATE TABLE c (city VARCHAR(50) CHARACTER SET utf8mb4 COLLATE "+met.collation+
				" PRIMARY KEY, amount INT NOT NULL)")
			unaware := newSink(t, dsn)
			applyAll(t, openTarget(t, unaware, counter("c")), amountOp(1, 1, met.one, int64(5)),
				amountOp(2, 1, met.other, int64(6)))
			expectSums(t, db, "c", map[string]string{met.one: "11"})

			sink, err := mysql.New(mysql.Config{Name: "main", DSN: dsn, Tables: tables, Columns: func(context.Context, string,
				string) ([]mysql.SourceColumn, error) {
				return []mysql.SourceColumn{{Name: "row_key", Type: "binary(16)"}}, nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer sink.Close()
			target := openTarget(t, sink, counter("c"))
			want := []string{met.one + " stale", met.other + " missing"}
			wrongGroups(t, target, want...)
			found := sink.Check(t.Context(), []*replicator.View{counter("c")})
			last := found[len(found)-1]
			statement, _, _ := strings.Cut(last.Fix, ", and then")
			if last.Level != replicator.Warn || !strings.HasPrefix(statement, "ALTER TABLE") {
				t.Fatalf("check says %+v", last)
			}
			exec(t, db, statement)
			target = openTarget(t, sink, counter("c"))
			strays := wrongGroups(t, target, want...)
			if _, err := target.(replicator.Tidier).Tidy(t.Context(), 0, strays); err != nil {
				t.Fatal(err)
			}
			expectSums(t, db, "c", map[string]string{met.one: "5", met.other: "6"})
		}
	})
}
