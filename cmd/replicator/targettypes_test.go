package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/verify"

	clients "replicator/internal/lab"
)

// extremes are the column types that MySQL and MariaDB share, with their lowest and highest values, and values that are
// likely not to fit into a target's type.
var extremes = [][]string{
	{"TINYINT", "-128", "127"}, {"TINYINT UNSIGNED", "0", "255"}, {"BOOLEAN", "TRUE", "FALSE"},
	{"SMALLINT", "-32768", "32767"}, {"MEDIUMINT UNSIGNED", "0", "16777215"},
	{"INT(8) UNSIGNED ZEROFILL", "4294967295", "42"}, {"BIGINT", "-9223372036854775808", "9223372036854775807"},
	{"BIGINT UNSIGNED", "0", "18446744073709551615"},
	{"DECIMAL(12,2)", "-9999999999.99", "9999999999.99"},
	{"DECIMAL(65,30)", "99999999999999999999999999999999999.999999999999999999999999999999",
		"-0.000000000000000000000000000001"},
	{"FLOAT", "-3.4028234e38", "1.1"}, {"FLOAT(7,2)", "99999.99", "1.1"},
	{"DOUBLE", "-1.7976931348623157e308", "2.2250738585072014e-308"},
	{"BIT(1)", "b'1'", "b'0'"}, {"BIT(64)", "0xFFFFFFFFFFFFFFFF", "0"}, {"YEAR", "1901", "0", "2155"},
	{"DATE", "'0000-00-00'", "'1000-01-01'", "'2024-00-10'", "'9999-12-31'"},
	{"DATETIME", "'0000-00-00 00:00:00'", "'1000-01-01 00:00:00'", "'9999-12-31 23:59:59'"},
	{"DATETIME(6)", "'0001-01-01 00:00:00.000001'", "'9999-12-31 23:59:59.999999'"},
	{"TIMESTAMP(3) NULL", "'0000-00-00 00:00:00'", "'1970-01-01 00:00:01.000'", "'2038-01-19 03:14:07.499'"},
	{"TIME(6)", "'-838:59:58.999999'", "'838:59:58.999999'", "'00:00:00.000001'"},
	{"CHAR(255)", "'abc'", "REPEAT('😀', 255)"}, {"VARCHAR(20)", "'abc  '", "'😀'", "''"},
	{"VARCHAR(4000) CHARACTER SET latin1", "REPEAT('é', 4000)"}, {"VARCHAR(500) CHARACTER SET sjis", "REPEAT('日', 500)"},
	{"TINYTEXT CHARACTER SET latin1", "REPEAT('é', 255)"}, {"TEXT CHARACTER SET latin1", "REPEAT('é', 65535)"},
	{"TEXT", "REPEAT('x', 65535)"}, {"MEDIUMTEXT", "REPEAT('x ', 40000)"}, {"LONGTEXT", "REPEAT('x', 70000)"},
	{"BINARY(16)", "0x00112233445566778899AABBCCDD0000"}, {"BINARY(255)", "REPEAT(0xFF, 255)", "''"},
	{"VARBINARY(400)", "REPEAT(0xFF, 400)", "''"}, {"TINYBLOB", "REPEAT(0xFF, 255)"}, {"BLOB", "REPEAT(0xFF, 65535)"},
	{"LONGBLOB", "REPEAT(0xFF, 70000)"},
	{"ENUM('a','it''s','ü')", "'it''s'", "'ü'", "'no member'"},
	{"SET('a','b','c')", "'a,c'", "''", "'a,b,c'"},
	{"GEOMETRY", "ST_GeomFromText('POINT(1 2)')"},
}

// extremesOf returns the types of one kind of server.
func extremesOf(kind servers.Kind) [][]string {
	if kind == servers.MySQL {
		return append(slices.Clone(extremes),
			[]string{"JSON", `'{"a": {"b": [1, 1.5]}}'`, "'[1, \"x\", {}]'", "'\"text\"'", "'1.5'", "'null'"},
			[]string{"JSON", `'{"a": 1}'`, `'{"a": [{"b": true}, 3]}'`},
			[]string{"VECTOR(3)", "STRING_TO_VECTOR('[1,2,3]')"})
	}
	return append(slices.Clone(extremes), []string{"JSON", `'{"a": 1.50}'`, "'[1]'"},
		[]string{"INET6", "'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'", "'::ffff:192.0.2.1'"},
		[]string{"INET4", "'255.255.255.255'"}, []string{"UUID", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"},
		[]string{"VARCHAR(500) COMPRESSED", "REPEAT('abc', 100)"})
}

// extremeTables creates tables with columns of all types, a few in each table. It returns the configuration of these
// tables and of their views. settings returns the settings of a table's view.
func (l *lab) extremeTables(settings func(table string) string) string {
	l.t.Helper()
	var config strings.Builder
	all := extremesOf(l.server.Kind)
	statements := []string{"SET sql_mode = ''", "SET time_zone = '+00:00'", "SET NAMES utf8mb4"}
	n := 0
	for part := range slices.Chunk(all, 14) {
		table, ddl, fields := fmt.Sprintf("t%d", n), "id INT PRIMARY KEY", []string{}
		rows := 0
		for i, c := range part {
			ddl += fmt.Sprintf(", c%d %s", i, c[0])
			fields = append(fields, fmt.Sprintf("%q", fmt.Sprintf("c%d", i)))
			rows = max(rows, len(c)-1)
		}
		statements = append(statements, "CREATE TABLE "+table+" ("+ddl+")")
		for r := range rows + 1 { // the last row is all NULL
			values := []string{fmt.Sprint(r)}
			for _, c := range part {
				if r+1 < len(c) {
					values = append(values, c[r+1])
				} else {
					values = append(values, "NULL")
				}
			}
			statements = append(statements, "INSERT INTO "+table+" VALUES ("+strings.Join(values, ", ")+")")
		}
		fmt.Fprintf(&config, "[tables.%s]\nkey = \"id\"\n[views.%s_kept]\nfrom = %q\nfields = [%s]\n%s\n", table, table,
			table,
			strings.Join(fields, ", "), settings(table))
		n++
	}
	l.session(statements...)
	return config.String()
}

// holdsAll runs the program until it has caught up. It then checks that no view has differences or dead letters.
func (l *lab) holdsAll() {
	l.t.Helper()
	l.must("run", "--until-caught-up")
	for _, letter := range l.letters() {
		l.t.Errorf("a dead letter: %+v", letter)
	}
	for _, r := range jsonLines[verify.Result](l.t, l.must("verify", "--json")) {
		if r.Remaining() > 0 || r.Dead > 0 || r.Checked == 0 {
			l.t.Errorf("verify: %+v", r)
		}
	}
}

func TestATableThatIsCreatedHoldsWhatEverySourceColumnCan(t *testing.T) {
	t.Parallel()
	for _, kinds := range [][2]servers.Kind{
		{servers.MySQL, servers.MySQL}, {servers.MySQL, servers.MariaDB1011},
		{servers.MariaDB118, servers.MySQL}, {servers.MariaDB118, servers.MariaDB118},
	} {
		t.Run(fmt.Sprintf("from %s to %s", kinds[0], kinds[1]), func(t *testing.T) {
			t.Parallel()
			l := newBareLab(t, servertest.Shared(t, kinds[0]))
			sink := servertest.Shared(t, kinds[1])
			if sink != l.server {
				execAll(t, l.connect(sink, ""), "CREATE DATABASE "+l.database)
				t.Cleanup(func() { _, _ = l.connect(sink, "").Exec("DROP DATABASE " + l.database) })
				l.account(sink, l.user, "ALL ON "+l.database+".*")
			}
			l.env["SINK"] = l.dsn(sink.Addr(), l.database)
			tables := l.extremeTables(func(string) string { return "sink = \"main\"\nkind = \"row\"\ncreate = true\n" })
			main := strings.ReplaceAll(mainSink, "${DSN}", "${SINK}")
			l.configure(source, strings.Split(program, "[tables.cell]")[0], main, tables)
			l.holdsAll()
		})
	}
}

// search configures a sink in Elasticsearch.
const search = "[sinks.search]\ntype = \"elastic\"\naddresses = [\"${ELASTIC}\"]\n"

func TestAnIndexThatIsMadeTakesWhatEverySourceColumnHolds(t *testing.T) {
	t.Parallel()
	for _, kind := range []servers.Kind{servers.MySQL, servers.MariaDB118} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			l := newBareLab(t, servertest.Shared(t, kind))
			l.env["ELASTIC"] = servertest.Elasticsearch(t)
			cluster, begin := clients.Elastic{URL: l.env["ELASTIC"]}, servertest.Name()
			tables := l.extremeTables(func(table string) string {
				return fmt.Sprintf("sink = \"search\"\nkind = \"document\"\nindex = \"%s-%s\"\n", begin, table)
			})
			l.configure(source, strings.Split(program, "[tables.cell]")[0], search, tables)
			l.holdsAll()
			for table, want := range map[string]map[string]string{
				"t0": {"c6": "long", "c8": "double", "c13": "long"},
				"t1": {"c2": "date", "c3": "date", "c4": "date", "c5": "date", "c6": "keyword", "c8": "keyword",
					"c12": "text"},
			} {
				l.mapped(cluster, begin+"-"+table, want)
			}
			last := `c4:["9999-12-31T23:59:59" TO "9999-12-31 23:59:59.999999"]`
			if n, err := cluster.Count(t.Context(), begin+"-t1", last); n != 1 {
				t.Errorf("%d documents are found by a date: %v", n, err)
			}
		})
	}
}

// mapped fails the test unless an index maps its fields to these types.
func (l *lab) mapped(cluster clients.Elastic, index string, want map[string]string) {
	l.t.Helper()
	got, err := cluster.Types(l.t.Context(), index)
	if err != nil {
		l.t.Fatal(err)
	}
	for field, typ := range want {
		if got[field] != typ {
			l.t.Errorf("%s: %s is mapped as %q, not %q", index, field, got[field], typ)
		}
	}
}

// bodiesLab returns a lab with cells of a shop: plain sales, and bodies with every kind of property.
func bodiesLab(t *testing.T, s *servers.Server) *lab {
	l := newBareLab(t, s)
	l.exec(cellTable,
		"CREATE TABLE page (id INT PRIMARY KEY, title VARCHAR(700), intro TEXT CHARACTER SET latin1, url VARCHAR(500))",
		"INSERT INTO page VALUES (1, REPEAT('t', 700), REPEAT('é', 65535), REPEAT('u', 500))",
		"CREATE TABLE sale (id INT PRIMARY KEY, shop ENUM('north','south'), price DECIMAL(12,2), qty INT, points BIGINT, "+
			"weight DOUBLE)",
		"INSERT INTO sale VALUES (1, 'north', 9999999999.99, 2147483647, 9223372036854775807, 0.1), "+
			"(2, 'north', 9999999999.99, 2147483647, 9223372036854775807, 1e20), (3, 'south', 0.01, -1, -1, 2.5)")
	l.put("a", 1, `{"email": "a@x.org", "n": 5, "big": 18446744073709551615, "price": 12.50, "ok": true,
		"note": "`+strings.Repeat("long ", 300)+`", "tags": ["x", "y"], "address": {"city": "Paris", "no..": 1},
		"mixed": 1, "odd": [1, {"a": 1}], "day": "2024-05-06"}`)
	l.put("b", 1, `{"email": "b@x.org", "n": -5, "big": 1, "price": 3, "ok": false, "note": "short", "tags": [],
		"address": {"city": "Rome"}, "mixed": "text", "odd": "text", "day": "someday"}`)
	return l
}

// bodiesViews returns views of bodiesLab's cells that name no types.
func bodiesViews(settings string) string {
	counter := "from = \"sale\"\nsink = \"main\"\nkind = \"counter\"\ngroup = [\"shop\"]\n" + settings
	return `[tables.sale]
key = "id"
[views.people]
from = "cell.users"
sink = "main"
kind = "row"
fields = ["email", "n", "big", "price", "ok", "note", "tags", "address", "mixed", "never", "day"]
` + settings + `
[views.by_email]
from = "cell.users"
sink = "main"
kind = "index"
fields = ["email", "n"]
` + settings + `
[views.by_note]
from = "cell.users"
sink = "main"
kind = "index"
fields = ["note"]
` + settings + `
[views.by_tag]
from = "cell.users"
sink = "main"
kind = "index"
fields = ["tags[]"]
` + settings + `
[tables.page]
key = "id"
[views.by_intro]
from = "page"
sink = "main"
kind = "index"
fields = ["title", "intro", "url"]
` + settings + `
[views.titles]
from = "page"
sink = "main"
kind = "counter"
group = ["title"]
` + settings + `
[views.pairs]
from = "page"
sink = "main"
kind = "counter"
group = ["title", "url"]
where = "id > 1"
` + settings + `
[views.sales]
` + counter + `
[views.turnover]
` + counter + `
sum = "price"
[views.pieces]
` + counter + `
sum = "qty"
[views.points]
` + counter + `
sum = "points"
[views.weight]
` + counter + `
sum = "weight"
[views.spent]
from = "cell.users"
sink = "main"
kind = "counter"
group = ["email"]
sum = { spent = "=price * n" }
` + settings
}

func (l *lab) expectBodies() {
	l.t.Helper()
	l.expect("SELECT email, n, big, price, ok, LENGTH(note), mixed, never, day FROM people ORDER BY email",
		"a@x.org 5 18446744073709551615 12.50000000000000000000 1 1500 1 NULL 2024-05-06",
		"b@x.org -5 1 3.00000000000000000000 0 5 text NULL someday")
	l.expect("SELECT tag FROM (SELECT tags tag FROM by_tag) t ORDER BY 1", "x", "y")
	l.expect("SELECT CHAR_LENGTH(title), CHAR_LENGTH(intro), CHAR_LENGTH(url) FROM by_intro", "700 65535 500")
	l.expect("SELECT * FROM sales ORDER BY cnt", "south 1", "north 2")
	l.expect("SELECT * FROM turnover ORDER BY price", "south 0.01", "north 19999999999.98")
	l.expect("SELECT * FROM points ORDER BY points", "south -1", "north 18446744073709551614")
	l.expect("SELECT * FROM pieces ORDER BY qty", "south -1", "north 4294967294")
	l.expect("SELECT COUNT(*) FROM weight WHERE shop = 'north' AND weight = 100000000000000000000.1", "1")
	l.expect("SELECT COUNT(*) FROM spent", "2")
}

func TestTablesWithoutTypesHoldWhatTheSourceHas(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		t.Run("created", func(t *testing.T) {
			l := bodiesLab(t, s)
			l.configure(source, program, mainSink, bodiesViews("create = true\n"))
			l.must("check")
			l.holdsAll()
			l.expectBodies()
		})
		t.Run("as schema prints them", func(t *testing.T) {
			l := bodiesLab(t, s)
			l.configure(source, program, mainSink, bodiesViews(""))
			text := l.must("schema")
			for _, want := range []string{
				"`never` LONGTEXT NULL /* nothing is known", "`cnt` BIGINT NOT NULL,", "`price` DECIMAL(32,2) NOT NULL,",
				"`points` DECIMAL(38,0) NOT NULL,", "`title` VARCHAR(268) NOT NULL /* longer values",
			} {
				if !strings.Contains(text, want) {
					t.Errorf("schema lacks %s:\n%s", want, text)
				}
			}
			for statement := range strings.SplitSeq(strings.TrimSpace(text), ";\n") {
				l.exec(strings.TrimSuffix(strings.TrimSpace(statement), ";"))
			}
			l.holdsAll()
			l.expectBodies()
		})
	})
}

func TestAnIndexThatIsMadeTakesWhatBodiesHold(t *testing.T) {
	t.Parallel()
	l := bodiesLab(t, servertest.MySQL(t))
	l.env["ELASTIC"] = servertest.Elasticsearch(t)
	cluster, index := clients.Elastic{URL: l.env["ELASTIC"]}, servertest.Name()
	l.configure(source, program, search, `
[views.people]
from = "cell.users"
sink = "search"
kind = "document"
index = "`+index+`"
fields = ["email", "n", "big", "price", "ok", "note", "tags", "address", "mixed", "odd", "day", "later"]
`)
	l.must("check")
	l.holdsAll()
	address, query := "flattened", "address.city:Paris AND price:12.5 AND tags:y"
	if cluster.IsOpenSearch(t.Context()) { // OpenSearch has no such type
		address, query = "object", "price:12.5 AND tags:y"
	}
	l.mapped(cluster, index, map[string]string{"email": "text", "n": "long", "big": "double", "price": "double",
		"ok": "boolean", "tags": "text", "address": address, "odd": "object", "day": "text"})
	if n, err := cluster.Count(t.Context(), index, query); n != 1 {
		t.Errorf("%d documents are found: %v", n, err)
	}

	// Values that the samples didn't contain are stored, too.
	l.put("c", 1, `{"email": 7, "n": "many", "big": 1e400, "price": "dear", "ok": "perhaps", "tags": 1.5,
		"address": {"x": {"y": [1, {"": 2}]}}, "later": "2024-05-06"}`)
	l.put("d", 1, `{"n": 18446744073709551615, "price": true, "later": "tomorrow"}`)
	l.holdsAll()
}
