package main

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/verify"

	clients "replicator/internal/lab"
)

// keyType is a type that a unique key can have, with four of its values.
type keyType struct {
	ddl    string
	values [4]string // literals
	shown  string    // SQL for the column's form in Redis keys and Elasticsearch ids; "": id
	second bool      // the key has a second column (1, 1, 2, 2), because the type has too few values
	// Indexes in Elasticsearch are expensive, so a similar type is tested there instead. Keys there are integers, texts
	// or bytes.
	alike bool
}

// keyTypes are types of keys that MySQL and MariaDB share, one for each rule by which a key is read, compared or shown.
// Their values would be wrong if they were compared as another type, with another precision or in another collation.
// Package canal tests that the binlog and a scan read all types in the same way.
var keyTypes = []keyType{
	{ddl: "TINYINT", values: [4]string{"-128", "127", "0", "-1"}},
	{ddl: "TINYINT UNSIGNED", values: [4]string{"0", "255", "127", "128"}, alike: true},
	{ddl: "MEDIUMINT UNSIGNED", values: [4]string{"0", "16777215", "8388607", "8388608"}, alike: true},
	{ddl: "INT(8) ZEROFILL", values: [4]string{"0", "7", "70", "4294967295"}, shown: "id + 0", alike: true},
	{ddl: "BIGINT", values: [4]string{"-9223372036854775808", "9223372036854775807",
		"9223372036854775806", "-1"}, alike: true},
	{ddl: "BIGINT UNSIGNED", values: [4]string{"0", "18446744073709551615", "18446744073709551614", "9007199254740993"}},
	{ddl: "BIT(1)", values: [4]string{"b'0'", "b'1'", "b'0'", "b'1'"}, shown: "id + 0", second: true},
	{ddl: "BIT(64)", values: [4]string{"0", "18446744073709551615", "18446744073709551614", "9007199254740993"},
		shown: "id + 0", alike: true},
	{ddl: "DECIMAL(10,3)", values: [4]string{"-1.5", "0", "12.345", "1.5"}},
	{ddl: "DECIMAL(60,0)", values: [4]string{strings.Repeat("9", 60), strings.Repeat("9", 59) + "8",
		"-1", "7"}, alike: true},
	{ddl: "DECIMAL(65,30)", values: [4]string{"0.000000000000000000000000000001", "0.000000000000000000000000000002",
		"-0.1", "99999999999999999999999999999999999.1"}, alike: true},
	{ddl: "CHAR(5) CHARACTER SET ascii COLLATE ascii_bin", values: [4]string{"'zz'", "'ZZ'", "''", "'zZ'"}},
	{ddl: "VARCHAR(11) CHARACTER SET ascii COLLATE ascii_bin", values: [4]string{"'aB3'", "'Ab3'", "'ab3'", "'a%:3'"}},
	{ddl: "VARCHAR(11) CHARACTER SET latin1 COLLATE latin1_bin",
		values: [4]string{"'é'", "'É'", "'e'", "'€'"}, alike: true},
	{ddl: "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", values: [4]string{"'学校'", "'😀'", "'😁'", "'a'"}},
	{ddl: "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
		values: [4]string{"'a'", "'b'", "'c'", "'d'"}, alike: true},
	{ddl: "BINARY(16)", values: [4]string{"0x71f0c4d2291844cca2df6f486e960000", "0x71f0c4d2291844cca2df6f4800000000",
		"0x00", "0x20000000"}, shown: "LOWER(HEX(id))"},
	{ddl: "VARBINARY(16)", values: [4]string{"0x0100", "0x01", "0x20", "0x2020"}, shown: "LOWER(HEX(id))"},
	{ddl: "DATE", values: [4]string{"'2024-02-29'", "'1000-01-01'", "'9999-12-31'", "'1970-01-01'"}, alike: true},
	{ddl: "DATETIME(6)", values: [4]string{"'2024-05-06 07:08:09.120000'", "'2024-05-06 07:08:09.120001'",
		"'2024-05-06 07:08:09'", "'1000-01-01'"}},
	{ddl: "TIMESTAMP(3)", values: [4]string{"'2024-05-06 07:08:09.120'", "'2024-05-06 07:08:09.121'",
		"'2024-05-06 07:08:09'", "'1971-01-01 00:00:00'"}, alike: true},
	{ddl: "TIME(2)", values: [4]string{"'-838:59:58.50'", "'-12:00:00'", "'12:34:56.70'", "'838:59:59'"}, alike: true},
	{ddl: "YEAR", values: [4]string{"1901", "2155", "0", "2024"}, shown: "id + 0", alike: true},
	{ddl: "ENUM('b','a','c,d','x y')", values: [4]string{"'b'", "'a'", "'c,d'", "'x y'"}, alike: true},
	{ddl: "SET('b','a','c')", values: [4]string{"''", "'b,a'", "'c'", "'b,a,c'"}, alike: true},
	{ddl: "VARCHAR(20) COLLATE utf8mb4_bin", values: [4]string{"'a:b'", "'a%3Ab'", "'a'", "'b:'"}, second: true,
		shown: "REPLACE(REPLACE(id, '%', '%25'), ':', '%3A')"},
}

// ofMySQL and ofMariaDB are types that only one of them has.
var (
	ofMySQL = []keyType{{ddl: "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin",
		values: [4]string{"'a'", "'a '", "'A'", "' '"}}}

	ofMariaDB = []keyType{
		{ddl: "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin", values: [4]string{"'a'", "'a '", "'A'", "' '"}},
		{ddl: "UUID", values: [4]string{"'71f0c4d2-2918-44cc-a2df-6f486e960000'", "'00000000-0000-0000-0000-000000000000'",
			"'ffffffff-ffff-ffff-ffff-ffffffffffff'",
			"'71f0c4d2-2918-11cc-a2df-6f486e960000'"}},
		{ddl: "INET4", values: [4]string{"'0.0.0.0'", "'255.255.255.255'", "'10.0.0.1'", "'10.0.0.10'"}},
		{ddl: "INET6", values: [4]string{"'::'", "'ffff::1'", "'::ffff:10.0.0.1'", "'2001:db8::ff00:42:8329'"}},
	}
)

// keyTypesLab is a lab with a table and three or four views for each type.
type keyTypesLab struct {
	*lab
	types   []keyType
	redis   *goredis.Client
	elastic clients.Elastic
	index   string // the beginning of the indexes' names
}

func newKeyTypesLab(t *testing.T, s *servers.Server, types []keyType, searches bool) *keyTypesLab {
	l := &keyTypesLab{lab: newBareLab(t, s), types: types}
	l.program = built // with the race detector, a hundred views take a minute but show no more than three
	cache, client := ownRedis(t)
	l.redis = client
	l.env["REDIS"] = "redis://" + cache.Addr() + "/0"
	sinks := mainSink + "[sinks.cache]\ntype = \"redis\"\nurl = \"${REDIS}\"\n"
	if searches {
		l.index = servertest.Name()
		l.elastic.URL = servertest.Elasticsearch(t)
		l.env["ELASTIC"] = l.elastic.URL
		sinks += "[sinks.search]\ntype = \"elastic\"\naddresses = [\"${ELASTIC}\"]\n"
	}
	var config strings.Builder
	for i, k := range types {
		ddl, key, keys := "id "+k.ddl+" NOT NULL", `"id"`, "id"
		if k.second {
			ddl, key, keys = ddl+", n INT NOT NULL", `["id", "n"]`, "id, n"
		}
		l.exec(fmt.Sprintf("CREATE TABLE k%d (%s, v VARCHAR(20), PRIMARY KEY (%s))", i, ddl, keys))
		fmt.Fprintf(&config, "[tables.k%d]\nkey = %s\n", i, key)
		for _, view := range []struct{ name, sink, kind, more string }{
			{"row", "main", "row", "create = true\ntypes = { v = \"VARCHAR(20)\" }"},
			{"by", "main", "index", "create = true\ntypes = { v = \"VARCHAR(20)\" }"},
			{"hash", "cache", "hash", fmt.Sprintf("key = \"k%d:%s\"", i, k.template())},
			{"doc", "search", "document",
				fmt.Sprintf("index = \"%s-%d\"\nmapping_file = \"mapping.json\"\nsettings_file = \"settings.json\"", l.index, i)},
		} {
			if view.sink != "search" || searches && !k.alike {
				fmt.Fprintf(&config, "[views.k%d_%s]\nfrom = \"k%d\"\nsink = %q\nkind = %q\nfields = [\"v\"]\n%s\n", i, view.name,
					i, view.sink, view.kind, view.more)
			}
		}
	}
	for name, text := range map[string]string{"mapping.json": `{"dynamic": false}`,
		"settings.json": `{"number_of_shards": 1, "number_of_replicas": 0}`} {
		if err := os.WriteFile(filepath.Join(l.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l.configure(source, strings.Split(program, "[tables.cell]")[0], sinks, config.String())
	return l
}

func (k *keyType) template() string {
	if k.second {
		return "{id}:{n}"
	}
	return "{id}"
}

// name returns the SQL for a row's key in the form that templates use.
func (k *keyType) name() string {
	shown := k.shown
	if shown == "" {
		shown = "id"
	}
	if k.second {
		return "CONCAT(" + shown + ", ':', n)"
	}
	return "CONCAT(" + shown + ")"
}

// key returns a condition that selects the row with the n-th key.
func (k *keyType) key(n int) string {
	if k.second {
		return fmt.Sprintf("id = %s AND n = %d", k.values[n], 1+n/2)
	}
	return "id = " + k.values[n]
}

func (k *keyType) row(n int, v string) string {
	if k.second {
		return fmt.Sprintf("(%s, %d, '%s')", k.values[n], 1+n/2, v)
	}
	return fmt.Sprintf("(%s, '%s')", k.values[n], v)
}

// each executes a statement for each type.
func (l *keyTypesLab) each(statement func(table string, k *keyType) string) {
	l.t.Helper()
	statements := []string{"SET NAMES utf8mb4", "SET time_zone = '+00:00'", "SET sql_mode = ''"}
	for i := range l.types {
		statements = append(statements, statement(fmt.Sprintf("k%d", i), &l.types[i]))
	}
	l.session(statements...)
}

// compare compares all views with the rows of the source.
func (l *keyTypesLab) compare(when string) {
	l.t.Helper()
	for i := range l.types {
		k := &l.types[i]
		columns := "id, v"
		if k.second {
			columns = "id, n, v"
		}
		query := func(view string) string {
			return fmt.Sprintf("SELECT %s FROM k%d%s", columns, i, view)
		}
		want := slices.Sorted(slices.Values(l.rows(query("")))) // an ENUM is not sorted by its text
		for _, view := range []string{"_row", "_by"} {
			if got := slices.Sorted(slices.Values(l.rows(query(view)))); !slices.Equal(got, want) {
				l.t.Errorf("%s: %s: k%d%s holds %q, the source %q", when, k.ddl, i, view, got, want)
			}
		}
		expected := clients.Held{}
		for _, r := range l.rows(fmt.Sprintf("SELECT v, %s FROM k%d", k.name(), i)) {
			v, name, _ := strings.Cut(r, " ")
			expected[name] = v
		}
		l.differ(when, k, "Redis", expected, l.hashes(i))
		if l.index != "" && !k.alike {
			delete(expected, "") // a document needs an id, so this row is a dead letter
			l.differ(when, k, "Elasticsearch", expected, l.documents(i))
		}
	}
}

func (l *keyTypesLab) differ(when string, k *keyType, sink string, want, got clients.Held) {
	l.t.Helper()
	for _, d := range clients.Differences(sink, want, got) {
		l.t.Errorf("%s: %s: %s", when, k.ddl, d)
	}
}

func (l *keyTypesLab) hashes(i int) clients.Held {
	l.t.Helper()
	held, begin := clients.Held{}, fmt.Sprintf("k%d:", i)
	names, err := l.redis.Keys(l.t.Context(), begin+"*").Result()
	if err != nil {
		l.t.Fatal(err)
	}
	for _, name := range names {
		if held[strings.TrimPrefix(name, begin)], err = l.redis.HGet(l.t.Context(), name, "v").Result(); err != nil {
			l.t.Fatal(err)
		}
	}
	return held
}

func (l *keyTypesLab) documents(i int) clients.Held {
	l.t.Helper()
	held := clients.Held{}
	documents, err := l.elastic.Documents(l.t.Context(), fmt.Sprintf("%s-%d", l.index, i))
	if err != nil {
		l.t.Fatal(err)
	}
	for id, d := range documents {
		held[id] = fmt.Sprint(d["v"])
	}
	return held
}

// damage removes the entries of the second key from every sink. It also adds a row with the first key, which the source
// no longer has.
func (l *keyTypesLab) damage() {
	l.t.Helper()
	var removed []string
	for i := range l.types {
		name := l.rows(fmt.Sprintf("SELECT %s FROM k%d WHERE v = 'second'", l.types[i].name(), i))[0]
		removed = append(removed, fmt.Sprintf("k%d:%s", i, name))
		if l.index != "" && !l.types[i].alike {
			l.elastic.Exec(l.t, http.MethodDelete, fmt.Sprintf("/%s-%d/_doc/%s", l.index, i, url.PathEscape(name)), "")
		}
	}
	if n, err := l.redis.Del(l.t.Context(), removed...).Result(); err != nil || n != int64(len(removed)) {
		l.t.Fatalf("%d of %d hashes removed: %v", n, len(removed), err)
	}
	for _, view := range []string{"_row", "_by"} {
		l.each(func(table string, k *keyType) string { return "DELETE FROM " + table + view + " WHERE " + k.key(1) })
		columns := func(k *keyType) string {
			if k.second {
				return " (id, n, v) VALUES "
			}
			return " (id, v) VALUES "
		}
		l.each(func(table string, k *keyType) string {
			return "INSERT INTO " + table + view + columns(k) + k.row(0, "ghost")
		})
	}
}

func TestKeysOfEveryTypeAreKeptInEverySink(t *testing.T) {
	t.Parallel()
	l := newKeyTypesLab(t, servertest.MySQL(t), slices.Concat(keyTypes, ofMySQL), true)
	l.keepsKeysOfEveryType()
}

// Only types that MySQL lacks are tested on MariaDB, because the other types are read as on MySQL.
func TestKeysOfEveryTypeOfMariaDBAreKept(t *testing.T) {
	t.Parallel()
	l := newKeyTypesLab(t, servertest.Shared(t, servers.MariaDB118), ofMariaDB, false)
	l.keepsKeysOfEveryType()
}

func (l *keyTypesLab) keepsKeysOfEveryType() {
	l.each(func(table string, k *keyType) string {
		return "INSERT INTO " + table + " VALUES " + k.row(0, "first") + ", " + k.row(1, "second")
	})
	l.must("run", "--until-caught-up")
	l.compare("filled")
	p := l.running()

	l.each(func(table string, k *keyType) string { return "INSERT INTO " + table + " VALUES " + k.row(2, "third") })
	l.each(func(table string, k *keyType) string {
		return "UPDATE " + table + " SET v = 'changed' WHERE v = 'first'"
	})
	l.caughtUp()
	l.compare("inserted and updated")
	l.each(func(table string, k *keyType) string {
		set := "id = " + k.values[3]
		if k.second {
			set += ", n = 2"
		}
		return "UPDATE " + table + " SET " + set + " WHERE v = 'third'"
	})
	l.caughtUp()
	l.compare("the key changed")
	l.each(func(table string, k *keyType) string { return "DELETE FROM " + table + " WHERE v = 'changed'" })
	l.caughtUp()
	l.compare("deleted")
	if letters := l.letters(); len(letters) > 0 {
		l.t.Fatalf("%d dead letters: %+v", len(letters), letters[0])
	}
	l.must("verify")

	l.damage()
	l.verifies("verify", "--json", "--repair")
	l.compare("repaired")
	l.explains()

	// A rebuild in place corrects each key where it is. A rebuild by swap fills a new table as the first run did, so a
	// few types are enough for it.
	var views, some []string
	for i := range l.types {
		of := []string{fmt.Sprintf("k%d_row", i), fmt.Sprintf("k%d_by", i), fmt.Sprintf("k%d_hash", i)}
		if l.index != "" && !l.types[i].alike {
			of = append(of, fmt.Sprintf("k%d_doc", i))
		}
		views = append(views, of...)
		if !l.types[i].alike {
			some = append(some, of...)
		}
	}
	l.damage()
	l.must(append([]string{"rebuild", "--in-place"}, views...)...)
	l.compare("rebuilt in place")
	l.must(append([]string{"rebuild"}, some...)...)
	l.compare("rebuilt")
	p.stop()
}

// verifies fails the test unless a verification finds exactly the damage.
func (l *keyTypesLab) verifies(args ...string) {
	l.t.Helper()
	r := l.run(args...)
	for _, found := range jsonLines[verify.Result](l.t, r.out) {
		missing, extra := int64(1), int64(1)
		switch {
		case strings.HasSuffix(found.View, "_hash"), strings.HasSuffix(found.View, "_doc"):
			extra = 0
		case strings.HasSuffix(found.View, "_by"): // the repair of the row view also repaired this one
			missing, extra = 0, 0
		}
		if found.Missing != missing || found.Extra != extra || found.Stale != 0 {
			l.t.Errorf("%v: %+v", args, found)
		}
	}
	if r.code == exitFailed || r.code == exitUsage {
		l.t.Errorf("%v: exit status %d: %s", args, r.code, r.errors)
	}
}

// explains runs explain with keys as an operator would type them.
func (l *keyTypesLab) explains() {
	l.t.Helper()
	for i := range l.types {
		name := l.rows(fmt.Sprintf("SELECT %s FROM k%d WHERE v = 'second'", l.types[i].name(), i))[0]
		r := l.command("explain", "-c", l.file(), "--", fmt.Sprintf("k%d_row", i), name)
		if r.code != 0 || !strings.Contains(r.out, `"second"`) || !strings.Contains(r.out, "the view is right") {
			l.t.Errorf("%s: explain %s: exit status %d: %s%s", l.types[i].ddl, name, r.code, r.out, r.errors)
		}
	}
}

// Views show a decimal key as a number. In the cell's key it is a text, so that every sink finds the same cell.
func TestADecimalKeyIsANumberInViews(t *testing.T) {
	t.Parallel()
	l := newBareLab(t, servertest.MySQL(t))
	redis, rdb := ownRedis(t)
	l.env["REDIS"] = "redis://" + redis.Addr() + "/0"
	l.exec("CREATE TABLE o (price DECIMAL(9,2), id INT, PRIMARY KEY (price, id))",
		"INSERT INTO o VALUES (1.5, 1), (1.55, 2), (10, 3), (0, 4)")
	l.configure(source, strings.Split(program, "[tables.cell]")[0], mainSink, `
[tables.o]
key = ["price", "id"]
`+redisSink+`
[views.sums]
from = "o"
sink = "main"
kind = "counter"
group = { at = "price" }
sum = "price"
create = true
[views.twice]
from = "o"
sink = "main"
kind = "row"
where = "price > 1"
key = { price = "price", id = "id" }
fields = { same = "$price", twice = "=price * 2" }
types = { twice = "DECIMAL(9,2)" }
create = true
[views.shown]
from = "o"
sink = "cache"
kind = "json"
key = "o:{id}:{price}"
fields = ["price"]
`)
	p := l.running()
	l.caughtUp()
	l.exec("INSERT INTO o VALUES (2.5, 5), (0.5, 6)", "DELETE FROM o WHERE id = 2")
	for _, when := range []string{"followed", "filled"} {
		l.caughtUp()
		l.expectLike("SELECT at, price FROM sums ORDER BY at",
			"SELECT price, price FROM o WHERE price > 0 ORDER BY price")
		l.expectLike("SELECT price, id, same, twice FROM twice ORDER BY id",
			"SELECT price, id, price, 2 * price FROM o WHERE price > 1 ORDER BY id")
		if got := rdb.Get(t.Context(), "o:1:1.50").Val(); got != `{"price":1.50}` {
			t.Errorf("%s: Redis shows %s", when, got)
		}
		l.must("verify")
		l.must("rebuild", "sums", "twice", "shown")
	}
	p.stop()
}
