package mysql_test

import (
	"context"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/sinks/mysql"
	"replicator/sinks/sinktest"
)

// refusals are tables that can't hold a view, and a text that the error must contain.
var refusals = []struct {
	name string
	ddl  string
	view replicator.View
	want string
}{
	{"a missing table", "", replicator.View{Kind: "row"}, "replicator schema"},
	{"a missing column", "CREATE TABLE v (id BINARY(16) PRIMARY KEY)", replicator.View{Kind: "row"}, "no column email"},
	{"a table without transactions", "CREATE TABLE v (id BINARY(16) PRIMARY KEY, email TEXT) ENGINE=MyISAM",
		replicator.View{Kind: "row"}, "ENGINE=InnoDB"},
	{"a row without a unique key", "CREATE TABLE v (id BINARY(16), email TEXT, KEY (id))",
		replicator.View{Kind: "row"}, "PRIMARY KEY"},
	{"a row with a unique property", "CREATE TABLE v (id BINARY(16) PRIMARY KEY, email VARCHAR(100) UNIQUE)",
		replicator.View{Kind: "row"}, "unique key email"},
	{"an index with a unique property", "CREATE TABLE v (id BINARY(16), email VARCHAR(100) PRIMARY KEY, KEY (id))",
		replicator.View{Kind: "index"}, "unique key PRIMARY"},
	{"an index that no key leads to", "CREATE TABLE v (id BINARY(16), email VARCHAR(100), PRIMARY KEY (email, id))",
		replicator.View{Kind: "index"}, "ADD KEY"},
	{"several values with one row a key", "CREATE TABLE v (id BINARY(16) UNIQUE, email VARCHAR(100))",
		replicator.View{Kind: "index", Fields: []replicator.Field{{Name: "email", Path: "emails[]"}}},
		"DROP INDEX `id`"},
	{"a unique prefix and several values", "CREATE TABLE v (id BINARY(16), email TEXT, PRIMARY KEY (id, email(10)))",
		replicator.View{Kind: "index", Fields: []replicator.Field{{Name: "email", Path: "emails[]"}}}, "beginning"},
	{"a column that nobody fills", "CREATE TABLE v (id BINARY(16) PRIMARY KEY, email TEXT, must INT NOT NULL)",
		replicator.View{Kind: "row"}, "column must"},
	{"a generated column", "CREATE TABLE v (id BINARY(16) PRIMARY KEY, email VARCHAR(10) AS ('x') STORED)",
		replicator.View{Kind: "row"}, "generated"},
	{"a type without conversion", "CREATE TABLE v (id BINARY(16) PRIMARY KEY, email POINT)",
		replicator.View{Kind: "row"}, "point"},
	{"a view", "CREATE VIEW v AS SELECT 1 AS id, 2 AS email", replicator.View{Kind: "row"}, "not a table"},
	{"half a key", "CREATE TABLE v (id BINARY(16) PRIMARY KEY, email TEXT)",
		replicator.View{Kind: "row", From: from("fav"),
			Settings: mysql.Settings{KeyFrom: []replicator.Field{{Name: "id", Path: "$object_id"}}}}, "the whole key of table fav (object_id, user_id), and nothing else"},
	{"a counter without a key on its group", "CREATE TABLE v (email VARCHAR(50), n INT, KEY (email))",
		replicator.View{Kind: "counter", From: from("cell.users"), Fields: fields("email", "n")}, "exactly the group"},
	{"a counter with another unique key", "CREATE TABLE v (email VARCHAR(50) PRIMARY KEY, n INT UNIQUE)",
		replicator.View{Kind: "counter", From: from("cell.users"), Fields: fields("email", "n")}, "unique key n"},
	{"a counter that is not exact", "CREATE TABLE v (email VARCHAR(50) PRIMARY KEY, n DOUBLE)",
		replicator.View{Kind: "counter", From: from("cell.users"), Fields: fields("email", "n")}, "DECIMAL"},
	{"a table to be created with a type without conversion", "",
		replicator.View{Kind: "row", Settings: mysql.Settings{Create: true,
			Types: map[string]string{"email": "GEOMETRY"}}}, "geometry"},
	{"a table to be created whose shard_on leads nowhere", "",
		replicator.View{Kind: "row", Settings: mysql.Settings{Create: true, ShardOn: "email",
			Types: map[string]string{"email": "YEAR"}}}, "its shard_on, email, would be year"},
	{"a table to be created with a type that there is none of", "",
		replicator.View{Kind: "row", Settings: mysql.Settings{Create: true, Types: map[string]string{"email": "VARCAR(20)"}}},
		"creating table v from its types"},
	{"a table to be created with a key that is too long", "",
		replicator.View{Kind: "counter", From: from("cell.users"), Fields: fields("email", "city", "n"),
			Settings: mysql.Settings{Create: true, Types: map[string]string{"email": "VARCHAR(450)",
				"city": "VARCHAR(450)"}}}, "creating table v from its types"},
	{"a key that changes by itself", "CREATE TABLE v (id TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE " +
		"CURRENT_TIMESTAMP PRIMARY KEY, email TEXT)", replicator.View{Kind: "row"},
		"MODIFY `id` timestamp NOT NULL DEFAULT '2000-01-01 00:00:00'"},
	{"a group that changes by itself", "CREATE TABLE v (email DATETIME(3) DEFAULT '2000-01-01' ON UPDATE " +
		"CURRENT_TIMESTAMP(3) PRIMARY KEY, n INT)",
		replicator.View{Kind: "counter", From: from("cell.users"), Fields: fields("email", "n")},
		"MODIFY `email` datetime(3) NOT NULL DEFAULT '2000-01-01 00:00:00'"},
	{"a key that a trigger sets", "CREATE TABLE v (id BINARY(16) PRIMARY KEY, email TEXT)\nCREATE TRIGGER own BEFORE " +
		"UPDATE ON v FOR EACH ROW BEGIN IF NEW.email = 'x' THEN SET NEW.email = 'y', new.`id` = 'z'; END IF; END",
		replicator.View{Kind: "row"}, "trigger own sets column id"},
	{"a generated key", "CREATE TABLE v (n INT, id BINARY(16) AS (n) STORED, email TEXT, UNIQUE (id))",
		replicator.View{Kind: "row"}, "id is generated"},
	{"another kind", "CREATE TABLE v (id BINARY(16) PRIMARY KEY, email TEXT)", replicator.View{Kind: "hash"}, "hash"},
}

func TestOpenRefusesTablesThatCannotHoldAView(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		for _, r := range refusals {
			t.Run(r.name, func(t *testing.T) {
				db, dsn := database(t, s)
				for _, ddl := range strings.Split(r.ddl, "\n") {
					if ddl != "" {
						exec(t, db, ddl)
					}
				}
				v := r.view
				v.Name, v.Fingerprint = "view", "1"
				set(&v, func(s *mysql.Settings) { s.Table = "v" })
				if v.From == nil {
					v.From = from("cell.users")
					set(&v, func(s *mysql.Settings) { s.KeyFrom = rowKey("id") })
				}
				if v.Fields == nil {
					v.Fields = fields("email")
				}
				sink := newSink(t, dsn)
				exec(t, db, "CREATE TABLE well (id BINARY(16) PRIMARY KEY, email VARCHAR(100) COLLATE utf8mb4_bin) CHARACTER SET utf8mb4")
				well := replicator.View{Name: "well", Kind: "row", Settings: mysql.Settings{Table: "well", KeyFrom: rowKey("id")},
					Fingerprint: "1", From: from("cell.users"), Fields: fields("email")}
				missing := well
				missing.Name = "missing"
				set(&missing, func(s *mysql.Settings) { s.Table = "missing" })
				views := []*replicator.View{&well, &v, &missing}
				_, err := sink.Open(t.Context(), "", views)
				sinktest.Refuses(t, err, views, "view", "missing")
				if _, err := sink.Open(t.Context(), "", views[:1]); err != nil {
					t.Errorf("the other view: %v", err)
				}
				_, err = sink.Open(t.Context(), "", []*replicator.View{&v})
				if err == nil || !replicator.IsFatal(err) || !strings.Contains(strings.ToLower(err.Error()),
					strings.ToLower(r.want)) {
					t.Errorf("Open says %v; %q is missing, or that it is fatal", err, r.want)
				}
				found := sink.Check(t.Context(), []*replicator.View{&v})
				if last := found[len(found)-1]; last.Level != replicator.Fail || err == nil ||
					!strings.Contains(err.Error(), last.Detail) {
					t.Errorf("Check says %+v, Open %v", last, err)
				}
			})
		}
	})
}

func TestOpenRefusesMissingGrants(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, dsn := database(t, s, suiteDDL[0])
		user, limited := limitedUser(t, db, dsn, map[string]string{"*": "SELECT, INSERT, CREATE"})
		sink := newSink(t, limited)
		_, err := sink.Open(t.Context(), "", suiteViews[:1])
		grant := "GRANT SELECT, INSERT, UPDATE, DELETE ON `" + schemaOf(t, dsn) + "`.* TO '" + user + "'@'%'"
		if err == nil || !replicator.IsFatal(err) || !strings.HasSuffix(err.Error(), grant) {
			t.Errorf("Open says %v", err)
		}
		found := sink.Check(t.Context(), suiteViews[:1])
		for _, f := range found[len(found)-2:] { // the sink's own tables, and the view
			if f.Level != replicator.Fail || f.Fix != grant || strings.Contains(f.Detail, grant) {
				t.Errorf("check says %+v", f)
			}
		}
		wrong, err := mysql.New(mysql.Config{Name: "main", DSN: user + ":wrong@tcp(" + s.Addr() + ")/" +
			schemaOf(t, dsn), Tables: tables})
		if err != nil {
			t.Fatal(err)
		}
		defer wrong.Close()
		if _, err = wrong.Open(t.Context(), "", suiteViews[:1]); !replicator.IsFatal(err) ||
			strings.Contains(err.Error(), "wrong@") {
			t.Errorf("Open says %v", err)
		}
	})
}

// TestAGrantMendsTheNextOpen: a session keeps the rights on its database that there were when it began.
func TestAGrantMendsTheNextOpen(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, dsn := database(t, s, namesTable)
		user, limited := limitedUser(t, db, dsn, map[string]string{"*": "SELECT, UPDATE, DELETE, CREATE"})
		sink := newSink(t, limited)
		names := view("row", "names", "email")
		if _, err := sink.Open(t.Context(), "", []*replicator.View{names}); !replicator.IsFatal(err) {
			t.Fatalf("without INSERT: %v", err)
		}
		sink.Check(t.Context(), nil) // leaves connections behind that were made before the GRANT
		exec(t, db, "GRANT INSERT ON "+schemaOf(t, dsn)+".* TO "+user+"@'%'")
		if _, err := openTarget(t, sink, names).Apply(t.Context(), []replicator.Op{userOp(1, 1, 1, "x")}); err != nil {
			t.Error(err)
		}
	})
}

// If a right was taken away after the views were opened, the next write fails and names the GRANT.
func TestApplyNamesTheGrantThatIsMissing(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, dsn := database(t, s, namesTable)
		own := newSink(t, dsn)
		openTarget(t, own, view("row", "names", "email")) // makes the sink's own tables
		user, limited := limitedUser(t, db, dsn, map[string]string{"names": "ALL", "replicator_views": "ALL",
			"replicator_locks": "ALL", "replicator_horizons": "ALL",
			"replicator_state": "SELECT, UPDATE, DELETE"})
		sink := newSink(t, limited)
		_, err := openTarget(t, sink, view("row", "names", "email")).Apply(t.Context(),
			[]replicator.Op{userOp(1, 1, 1, "x")})
		grant := "GRANT SELECT, INSERT, UPDATE, DELETE ON `" + schemaOf(t, dsn) + "`.* TO '" + user + "'@'%'"
		if !replicator.IsFatal(err) || !strings.Contains(err.Error(), "replicator_state") ||
			!strings.HasSuffix(err.Error(), grant) {
			t.Errorf("Apply says %v", err)
		}
	})
}

func TestNewRefusesADSNWithoutShowingIt(t *testing.T) {
	for _, dsn := range []string{"user:geheim@127.0.0.1/x", "user:geheim@tcp(127.0.0.1:3306)/",
		"user:geheim@tcp(127.0.0.1:3306"} {
		if _, err := mysql.New(mysql.Config{Name: "main", DSN: dsn}); err == nil || strings.Contains(err.Error(), "geheim") {
			t.Errorf("New(%q) says %v", dsn, err)
		}
	}
}

func TestCreateAndSchema(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, dsn := database(t, s)
		views := []*replicator.View{
			{Name: "by_email", Kind: "index", From: from("cell.users"), Fields: fields("email"),
				Settings: mysql.Settings{KeyFrom: rowKey("row_key"), Table: "by_email", Create: true,
					Types: map[string]string{"email": "VARCHAR(254)", "row_key": "BINARY(16)"}}, Fingerprint: "1"},
			{Name: "by_link", Kind: "index", From: from("cell.users"), Fields: fields("link[]"),
				Settings: mysql.Settings{KeyFrom: rowKey("row_key"), Table: "by_link", Create: true,
					Types: map[string]string{"link": "TEXT"}, VersionColumn: "version"}, Fingerprint: "1"},
			{Name: "users", Kind: "row", From: from("cell.users", "cell.profile"), Fields: fields("email"),
				Settings: mysql.Settings{KeyFrom: rowKey("id"), Table: "users", Create: true}, Fingerprint: "1"},
		}
		sink := newSink(t, dsn)
		ddl, err := sink.Schema(t.Context(), views)
		if err != nil || len(ddl) != 3 || !strings.Contains(ddl[2], "nothing is known") {
			t.Fatalf("Schema: %q, %v", ddl, err)
		}
		for i, f := range sink.Check(t.Context(), views) {
			if f.Level == replicator.Fail {
				t.Errorf("Check, line %d: %+v", i, f)
			}
		}
		if _, err := sink.Open(t.Context(), "", views); err != nil {
			t.Fatal(err)
		}
		if ddl, err := sink.Schema(t.Context(), views); err != nil || len(ddl) != 0 {
			t.Errorf("Schema after Open: %q, %v", ddl, err)
		}
		exec(t, db, "DROP TABLE by_email")
		exec(t, db, "DROP TABLE by_link")
		exec(t, db, "DROP TABLE users")
		for _, d := range ddl {
			exec(t, db, d)
		}
		if _, err := sink.Open(context.WithoutCancel(t.Context()), "", views); err != nil {
			t.Errorf("Open with the tables of Schema: %v", err)
		}
	})
}

// With explicit_defaults_for_timestamp off, a server adds ON UPDATE CURRENT_TIMESTAMP to a table's first TIMESTAMP that
// is NOT NULL and has no default.
func TestACreatedTableHasNoColumnThatChangesByItself(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, dsn := database(t, s)
		c := mysql.Config{Name: "main", DSN: dsn + "?explicit_defaults_for_timestamp=OFF", Tables: []replicator.Table{
			{Name: "event", Table: "event", Key: []string{"ts"}}}, Columns: func(context.Context, string,
			string) ([]mysql.SourceColumn, error) {
			return []mysql.SourceColumn{{Name: "ts", Type: "timestamp(3)"}}, nil
		}}
		sink := newSinkOf(t, c)
		row := view("row", "events", "email")
		row.From = from("event")
		set(row, func(s *mysql.Settings) { s.KeyFrom, s.Create = []replicator.Field{{Name: "ts", Path: "$ts"}}, true })
		total := counter("total")
		total.From = from("event")
		total.Fields[0] = replicator.Field{Name: "ts", Path: "$ts"}
		set(total, func(s *mysql.Settings) { s.Create = true })
		target := openTarget(t, sink, row, total)
		key, err := replicator.MakeKey("2020-01-01 00:00:00.000")
		if err != nil {
			t.Fatal(err)
		}
		for version := range int64(2) {
			applyAll(t, target, replicator.Op{Cell: replicator.Cell{Table: "event", Key: key}, Version: version + 1,
				Order: version + 1, Values: []replicator.Value{
					{View: 0, Entries: []replicator.Entry{{Fields: []any{version}}}},
					{View: 1, Entries: []replicator.Entry{{Fields: []any{"2020-01-01 00:00:00.000", version + 1}}}}}})
		}
		for table, value := range map[string]string{"events": "email = '1'", "total": "amount = 2"} {
			if n := count(t, db, table+" WHERE ts = '2020-01-01 00:00:00' AND "+value); n != 1 || count(t, db, table) != 1 {
				t.Errorf("%s: %d rows are right of %d", table, n, count(t, db, table))
			}
			var ddl string
			if err := db.QueryRow("SHOW CREATE TABLE "+table).Scan(new(string), &ddl); err != nil ||
				strings.Contains(strings.ToUpper(ddl), "ON UPDATE") {
				t.Errorf("%s (%v)", ddl, err)
			}
		}
	})
}

func TestATriggerThatLeavesTheKeyAloneIsNoProblem(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		_, dsn := database(t, s, "CREATE TABLE names (email VARCHAR(50), id VARBINARY(40) PRIMARY KEY, remark VARCHAR(50), "+
			"changed TIMESTAMP DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP)",
			"CREATE TRIGGER own BEFORE INSERT ON names FOR EACH ROW BEGIN IF NEW.id = 'x' THEN SET NEW.remark = NEW.id; "+
				"END IF; END")
		sink := newSink(t, dsn)
		applyAll(t, openTarget(t, sink, view("row", "names", "email")), userOp(1, 1, 1, "x"))
	})
}
