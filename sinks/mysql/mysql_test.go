package mysql_test

import (
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	driver "github.com/go-sql-driver/mysql"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/sinks/judge"
	"replicator/sinks/mysql"
	"replicator/sinks/sinktest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

var tables = []replicator.Table{
	{Name: "cell", Table: "cell", Key: []string{"row_key"}, Column: "column_name", Version: "ref_key"},
	{Name: "fav", Table: "favorite", Key: []string{"object_id", "user_id"}},
}

// settings returns a view's MySQL settings; zero if it has none.
func settings(v *replicator.View) mysql.Settings {
	s, _ := v.Settings.(mysql.Settings)
	return s
}

// set changes the settings of a view.
func set(v *replicator.View, change func(s *mysql.Settings)) {
	s := settings(v)
	change(&s)
	v.Settings = s
}

func fields(paths ...string) []replicator.Field {
	var out []replicator.Field
	for _, p := range paths {
		out = append(out, replicator.Field{Name: strings.TrimSuffix(p, "[]"), Path: p})
	}
	return out
}

func rowKey(name string) []replicator.Field {
	return []replicator.Field{{Name: name, Path: "$row_key"}}
}

func from(columns ...string) []replicator.Feed {
	var out []replicator.Feed
	for _, c := range columns {
		table, column, _ := strings.Cut(c, ".")
		out = append(out, replicator.Feed{Table: table, Column: column})
	}
	return out
}

// suiteViews are views of every shape that a MySQL sink keeps. suiteDDL creates their tables: some as in the seed, some
// without a UNIQUE key on the entity, with a version, merged, or with composite keys.
var suiteViews = []*replicator.View{
	{Name: "by_email", Kind: "index", From: from("cell.users"), Fields: fields("email"),
		Settings: mysql.Settings{KeyFrom: rowKey("row_key"), Table: "by_email"}, Fingerprint: "1"},
	{Name: "by_tag", Kind: "index", From: from("cell.users"), Fields: fields("tags[]", "city"),
		Settings: mysql.Settings{KeyFrom: rowKey("row_key"), Table: "by_tag"}, Fingerprint: "1"},
	{Name: "by_city", Kind: "index", From: from("cell.users", "cell.profile"), Fields: fields("city"),
		Settings: mysql.Settings{KeyFrom: rowKey("entity"), Table: "by_city", VersionColumn: "version"}, Fingerprint: "1"},
	{Name: "users", Kind: "row", From: from("cell.users"), Fields: fields("email", "city"),
		Settings: mysql.Settings{KeyFrom: rowKey("id"), Table: "users"}, Fingerprint: "1"},
	{Name: "people", Kind: "row", From: from("cell.profile", "cell.users"), Fields: fields("email", "city"),
		Settings: mysql.Settings{KeyFrom: rowKey("id"), Table: "people", VersionColumn: "version"}, Fingerprint: "1"},
	{Name: "everything", Kind: "row", From: from("cell"), Fields: fields("city"),
		Settings: mysql.Settings{KeyFrom: rowKey("id"), Table: "everything"}, Fingerprint: "1"},
	{Name: "favorites", Kind: "row", From: from("fav"), Fields: fields("email"),
		Settings: mysql.Settings{Table: "favorites", KeyFrom: []replicator.Field{{Name: "u", Path: "$user_id"},
			{Name: "o", Path: "$object_id"}}}, Fingerprint: "1"},
	{Name: "city_total", Kind: "counter", From: from("cell.users", "cell.profile"), Fields: fields("city", "amount"),
		Sum: "amount", Settings: mysql.Settings{Table: "city_total"}, Fingerprint: "1"},
	{Name: "tag_count", Kind: "counter", From: from("cell.users"),
		Fields:   []replicator.Field{{Name: "tags", Path: "tags[]"}, {Name: "city", Path: "city"}, {Name: "cnt"}},
		Settings: mysql.Settings{Table: "tag_count"}, Fingerprint: "1"},
	{Name: "fav_total", Kind: "counter", From: from("fav"), Fields: fields("city", "amount"), Sum: "amount",
		Settings: mysql.Settings{Table: "fav_total"}, Fingerprint: "1"},
	{Name: "fav_by_city", Kind: "index", From: from("fav"), Fields: fields("city"),
		Settings: mysql.Settings{Table: "fav_by_city", KeyFrom: []replicator.Field{{Name: "u", Path: "$user_id"},
			{Name: "o", Path: "$object_id"}}}, Fingerprint: "1"},
}

var suiteDDL = []string{
	"CREATE TABLE by_email (email VARCHAR(254) NOT NULL, row_key BINARY(16) NOT NULL UNIQUE, PRIMARY KEY (email, row_key)) ENGINE=InnoDB",
	"CREATE TABLE by_tag (tags VARCHAR(50) NOT NULL, city VARCHAR(50) NOT NULL, row_key BINARY(16) NOT NULL, PRIMARY KEY (tags, city, row_key), KEY (row_key)) ENGINE=InnoDB",
	"CREATE TABLE by_city (city VARCHAR(50) NOT NULL, entity BINARY(16) NOT NULL, version BIGINT NOT NULL, PRIMARY KEY (entity, city)) ENGINE=InnoDB",
	"CREATE TABLE users (id BINARY(16) PRIMARY KEY, email VARCHAR(254), city TEXT, remark VARCHAR(10) DEFAULT 'mine') ENGINE=InnoDB",
	"CREATE TABLE people (id BINARY(16) PRIMARY KEY, email VARCHAR(254), city TEXT, version BIGINT) ENGINE=InnoDB",
	"CREATE TABLE everything (n INT AUTO_INCREMENT PRIMARY KEY, id BINARY(16) NOT NULL UNIQUE, city TEXT) ENGINE=InnoDB",
	"CREATE TABLE favorites (o BINARY(16), u BINARY(16), email VARCHAR(100), PRIMARY KEY (o, u)) ENGINE=InnoDB",
	"CREATE TABLE city_total (city VARCHAR(100) PRIMARY KEY, amount BIGINT NOT NULL) ENGINE=InnoDB",
	"CREATE TABLE tag_count (cnt INT UNSIGNED NOT NULL, tags VARCHAR(50), city VARCHAR(50), PRIMARY KEY (city, tags)) ENGINE=InnoDB",
	"CREATE TABLE fav_total (city VARCHAR(100) NOT NULL UNIQUE, amount DECIMAL(20,0), remark VARCHAR(10)) ENGINE=InnoDB",
	"CREATE TABLE fav_by_city (city VARCHAR(100), o BINARY(16), u BINARY(16), PRIMARY KEY (city, o, u), KEY (o)) ENGINE=InnoDB",
}

// enforcesChecks skips a test on servers that parse CHECK and ignore it: MySQL before 8.0.16.
func enforcesChecks(t testing.TB, s *servers.Server) {
	t.Helper()
	if s.Kind.IsOldMySQL() {
		t.Skip("this server ignores CHECK")
	}
}

// database creates a database with tables. It returns a pool for looking into the database, and the database's DSN.
func database(t testing.TB, s *servers.Server, ddl ...string) (*sql.DB, string) {
	t.Helper()
	db, dsn := openPool(t, s.DSN(servertest.Database(t, s)))
	for _, d := range ddl {
		exec(t, db, d)
	}
	return db, dsn
}

func exec(t testing.TB, db *sql.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.Exec(statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// limitedUser makes a user who has the given rights on tables of a DSN's database ("*": on all of it). It returns the
// user's name and DSN.
func limitedUser(t testing.TB, db *sql.DB, dsn string, rights map[string]string) (user, own string) {
	t.Helper()
	c, err := driver.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	user = "u" + strings.ReplaceAll(c.DBName, "t", "_")
	exec(t, db, "CREATE USER "+user+"@'%' IDENTIFIED BY 'geheim'")
	t.Cleanup(func() { exec(t, db, "DROP USER "+user+"@'%'") })
	for table, r := range rights {
		exec(t, db, "GRANT "+r+" ON "+c.DBName+"."+table+" TO "+user+"@'%'")
	}
	c.User, c.Passwd = user, "geheim"
	return user, c.FormatDSN()
}

func newSink(t testing.TB, dsn string) *mysql.Sink {
	t.Helper()
	return newSinkOf(t, mysql.Config{Name: "main", DSN: dsn, Tables: tables,
		Sources: judge.Sources{Shards: []string{"one", "other", "one/0", "other/0"}}})
}

// newSinkOf makes a sink that is closed when the test ends.
func newSinkOf(t testing.TB, c mysql.Config) *mysql.Sink {
	t.Helper()
	s, err := mysql.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// read reads a view's table by plain SQL, in the form of sinktest.Subject.Read.
func read(t testing.TB, db *sql.DB, v *replicator.View) map[string]string {
	t.Helper()
	var names []string
	for _, f := range v.Fields {
		names = append(names, "`"+f.Name+"`")
	}
	table := map[string]replicator.Table{"cell": tables[0], "fav": tables[1]}[v.From[0].Table]
	for _, part := range table.Key { // in the order of the cell's key
		for _, f := range settings(v).KeyFrom {
			if f.Path == "$"+part {
				names = append(names, "`"+f.Name+"`")
			}
		}
	}
	rows, err := db.Query("SELECT " + strings.Join(names, ", ") + " FROM `" + settings(v).Table + "`")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	out := map[string]string{}
	for rows.Next() {
		values := make([]sql.NullString, len(names))
		into := make([]any, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		fields := make([]any, len(v.Fields))
		for i := range fields {
			if values[i].Valid {
				fields[i] = values[i].String
			}
		}
		var key []string
		for _, k := range values[len(fields):] {
			key = append(key, hex.EncodeToString([]byte(k.String)))
		}
		if last := len(fields) - 1; v.Kind == "counter" {
			out[sinktest.EntryID(fields[:last], "")] = replicator.FormatValue(fields[last])
		} else if id := strings.Join(key, ":"); v.Kind == "index" {
			out[sinktest.EntryID(fields, id)] = ""
		} else {
			out[id] = sinktest.RowText(v, fields)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestConformance(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, dsn := database(t, s, suiteDDL...)
		sinktest.Run(t, sinktest.Subject{
			Tables: tables, Views: suiteViews, Histories: 6,
			New:  func(t testing.TB) replicator.Sink { return newSink(t, dsn) },
			Read: func(t testing.TB, v *replicator.View) map[string]string { return read(t, db, v) },
			Bad:  map[string]any{"email": strings.Repeat("é", 300), "amount": replicator.Number("0.5")},
			SetMark: func(t testing.TB, source, view string, at *replicator.Standing) {
				if at == nil {
					exec(t, db, "DELETE FROM replicator_views WHERE source = ? AND name = ?", source, view)
					return
				}
				setMark(t, db, source, view, *at)
			},
			DamageMark: func(t testing.TB, source, view string) { damageMark(t, db, source, view) },
			Plant: func(t testing.TB, v *replicator.View, c replicator.Cell, entries []replicator.Entry) {
				plant(t, db, v, c, entries)
			},
			Remove: func(t testing.TB, v *replicator.View, c replicator.Cell, entries []replicator.Entry) {
				remove(t, db, v, c, entries)
			},
		})
	})
}

func damageMark(t testing.TB, db *sql.DB, source, view string) {
	t.Helper()
	exec(t, db, "UPDATE replicator_views SET mark_token = ? WHERE source = ? AND name = ?", "p\n{", source, view)
}

// setMark changes a view's mark.
func setMark(t testing.TB, db *sql.DB, source, view string, at replicator.Standing) {
	t.Helper()
	token, phase := at.Position.Token, "filled"
	if at.Filling() {
		fill, err := json.Marshal(at.Fill)
		if err != nil {
			t.Fatal(err)
		}
		token, phase = fmt.Sprintf("%s\n{\"fill\": %s, \"from\": %d, \"epoch\": %d}", token, fill,
			at.FillFrom, at.Epoch), "filling"
	} else if at.Epoch != 0 {
		token = fmt.Sprintf("%s\n{\"epoch\": %d}", token, at.Epoch)
	}
	exec(t, db, "UPDATE replicator_views SET mark_order = ?, mark_token = ?, phase = ? WHERE source = ? AND name = ?",
		at.Position.Order, token, phase, source, view)
}

// openPool opens a pool for looking into a database.
func openPool(t testing.TB, dsn string) (*sql.DB, string) {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db, dsn
}

// schemaOf is the database that a DSN names.
func schemaOf(t testing.TB, dsn string) string {
	t.Helper()
	c, err := driver.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return c.DBName
}
