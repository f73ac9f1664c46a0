package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"replicator/internal/servers/servertest"
)

// keysLab has a table with rows, and its own Redis for views of the table.
type keysLab struct {
	*lab
	rdb *goredis.Client
}

func newKeysLab(t *testing.T) *keysLab {
	l := newBareLab(t, servertest.MySQL(t))
	redis, rdb := ownRedis(t)
	l.env["REDIS"] = "redis://" + redis.Addr() + "/0"
	l.exec("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, n VARCHAR(9))",
		"INSERT INTO t VALUES (1, 1, 1, 'x:y'), (2, 2, 0, 'x:y'), (3, 0, 1, 'x:y'), (4, 1, 0, 'x:y')",
		"INSERT INTO t VALUES (5, 2, 1, 'p'), (6, 0, 0, 'p')")
	return &keysLab{l, rdb}
}

// define configures the views, which are given by name.
func (l *keysLab) define(views map[string]string) {
	l.t.Helper()
	text := "[tables.t]\nkey = \"id\"\n[sinks.cache]\ntype = \"redis\"\nurl = \"${REDIS}\"\n"
	for name, of := range views {
		text += "[views." + name + "]\nfrom = \"t\"\nsink = \"cache\"\non_change = \"rebuild\"\n" + of + "\n"
	}
	l.configure(source, strings.Split(program, "[tables.cell]")[0], text)
}

// holds compares all keys in Redis, except the sink's own, with the results of queries.
func (l *keysLab) holds(when string, queries ...string) {
	l.t.Helper()
	ctx, got := context.Background(), []string{}
	for _, key := range l.rdb.Keys(ctx, "?:*").Val() {
		var values []string
		switch l.rdb.Type(ctx, key).Val() {
		case "string":
			values = []string{l.rdb.Get(ctx, key).Val()}
		case "set":
			values = slices.Sorted(slices.Values(l.rdb.SMembers(ctx, key).Val()))
		case "hash":
			hash := l.rdb.HGetAll(ctx, key).Val()
			for _, name := range slices.Sorted(maps.Keys(hash)) {
				values = append(values, name+"="+hash[name])
			}
		case "zset":
			values = []string{fmt.Sprint(l.rdb.ZRangeWithScores(ctx, key, 0, -1).Val())}
		}
		got = append(got, key+" "+strings.Join(values, ","))
	}
	slices.Sort(got)
	want := l.rows(strings.Join(queries, " UNION ALL "))
	if slices.Sort(want); !slices.Equal(got, want) {
		l.t.Errorf("%s\n got %q\nwant %q", when, got, want)
	}
	l.must("verify")
	if letters := l.letters(); len(letters) > 0 {
		l.t.Errorf("%s: dead letters: %+v", when, letters)
	}
}

// everyKind returns views of every kind in Redis, whose names begin with a word, and queries for their expected
// contents.
func everyKind(word string) (views map[string]string, queries []string) {
	views = map[string]string{
		"h": "kind = \"hash\"\nkey = \"h:{id}\"\nfields = [\"a\"]",
		"j": "kind = \"json\"\nkey = \"j:{id}\"\nfields = [\"a\"]",
		"s": "kind = \"index\"\nkey = \"s:{b}\"",
		"m": "kind = \"index\"\nkey = \"m:{n}\"\nmember = \"x{a}\"",
		"u": "kind = \"index\"\nkey = \"u:{id}\"\nunique = true",
		"c": "kind = \"counter\"\nkey = \"c:{n}\"\nsum = \"a\"",
		"z": "kind = \"ranking\"\nkey = \"z:{b}\"\nmember = \"all\"\nsum = \"a\"",
	}
	for name, of := range views {
		delete(views, name)
		views[word+name] = of
	}
	return views, []string{
		"SELECT CONCAT('h:', id, ' a=', a) FROM t",
		"SELECT CONCAT('j:', id, ' {\"a\":', a, '}') FROM t",
		"SELECT CONCAT('s:', b, ' ', GROUP_CONCAT(id ORDER BY id)) FROM t GROUP BY b",
		"SELECT CONCAT('m:', n, ' ', GROUP_CONCAT(DISTINCT CONCAT('x', a) ORDER BY a)) FROM t GROUP BY n",
		"SELECT CONCAT('u:', id, ' ', id) FROM t",
		"SELECT CONCAT('c:', n, ' ', SUM(a)) FROM t GROUP BY n HAVING SUM(a) > 0",
		"SELECT CONCAT('z:', b, ' [{', SUM(a), ' all}]') FROM t GROUP BY b",
	}
}

// A view in Redis was renamed. It must not run until the former view's data is removed, because its contributions would
// be counted twice.
func TestAViewInRedisThatWasRenamedWaitsForItsPlace(t *testing.T) {
	t.Parallel()
	l := newKeysLab(t)
	before, queries := everyKind("one_")
	l.define(before)
	l.must("run", "--until-caught-up")
	l.exec("DELETE FROM t WHERE id = 5", "UPDATE t SET b = 7, n = 'z' WHERE id = 1")
	after, _ := everyKind("two_")
	l.define(after)
	r := l.run("run", "--until-caught-up")
	for _, view := range slices.Sorted(maps.Keys(before)) {
		command := "replicator checkpoint forget " + view + " --data -c "
		if r.code != 1 || !strings.Contains(r.errors, command) {
			t.Errorf("%q is not in %+v", command, r)
		}
		l.must("checkpoint", "forget", view, "--data", "--yes")
	}
	l.must("run", "--until-caught-up")
	l.holds("renamed", queries...)
}

// Two views in Redis exchange their keys. They are of the same kind or of different kinds.
func TestViewsInRedisMayExchangeTheirKeys(t *testing.T) {
	t.Parallel()
	const a, b = "kind = \"hash\"\nfields = [\"a\"]\nkey = ", "kind = \"hash\"\nfields = [\"b\"]\nkey = "
	const unique, set = "kind = \"index\"\nunique = true\nkey = ", "kind = \"index\"\nkey = "
	for name, c := range map[string]struct{ before, after map[string]string }{
		"hashes": {map[string]string{"one": a + `"h:{id}"`, "two": b + `"g:{id}"`},
			map[string]string{"one": b + `"g:{id}"`, "two": a + `"h:{id}"`}},
		"kinds": {map[string]string{"one": unique + `"h:{id}"`, "two": set + `"g:{id}"`},
			map[string]string{"one": unique + `"g:{id}"`, "two": set + `"h:{id}"`}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newKeysLab(t)
			l.define(c.before)
			l.must("run", "--until-caught-up")
			l.define(c.after)
			l.must("run", "--until-caught-up")
			if name == "kinds" {
				l.holds(name, "SELECT CONCAT('h:', id, ' ', id) FROM t", "SELECT CONCAT('g:', id, ' ', id) FROM t")
			} else {
				l.holds(name, "SELECT CONCAT('h:', id, ' a=', a) FROM t", "SELECT CONCAT('g:', id, ' b=', b) FROM t")
			}
		})
	}
}

// A table's key in the file gets a second column and loses it again. The sink has cells under the former key, which the
// table no longer has.
func TestATableWhoseKeyGetsMoreColumnsOrLess(t *testing.T) {
	t.Parallel()
	l := newKeysLab(t)
	l.exec("CREATE TABLE k (a INT NOT NULL UNIQUE, b INT NOT NULL, n INT, PRIMARY KEY (a, b))",
		"INSERT INTO k VALUES (1, 1, 5), (2, 1, 5), (3, 2, 6)")
	for _, c := range []struct{ key, shown string }{{`"a"`, "a"}, {`["a", "b"]`, "CONCAT(a, ':', b)"}, {`"a"`, "a"}} {
		l.configure(source, strings.Split(program, "[tables.cell]")[0], "[tables.k]\nkey = "+c.key+"\n"+
			"[sinks.cache]\ntype = \"redis\"\nurl = \"${REDIS}\"\n"+
			"[views.v]\nfrom = \"k\"\nsink = \"cache\"\nkind = \"index\"\n"+
			"key = \"v:{n}\"\non_change = \"rebuild\"\n")
		l.must("run", "--until-caught-up")
		l.holds("the key is "+c.key,
			"SELECT CONCAT('v:', n, ' ', GROUP_CONCAT("+c.shown+" ORDER BY 1)) FROM k GROUP BY n")
		l.exec("INSERT INTO k VALUES (4, 2, 6)")
		l.must("run", "--until-caught-up")
		l.exec("DELETE FROM k WHERE a = 4")
	}
}

// A renamed counter counts from zero, so its table must be emptied first.
func TestACounterThatIsRenamedCountsAnew(t *testing.T) {
	t.Parallel()
	l := newBareLab(t, servertest.MySQL(t))
	l.exec("CREATE TABLE t (id INT PRIMARY KEY, b INT)", "INSERT INTO t VALUES (1, 1), (2, 1), (3, 2)")
	for _, c := range []struct{ name, change string }{
		{"one", "INSERT INTO t VALUES (4, 1)"}, {"two", "DELETE FROM t WHERE id = 1"}} {
		l.configure(source, strings.Split(program, "[tables.cell]")[0], "[tables.t]\nkey = \"id\"\n", mainSink,
			"[views."+c.name+"]\nfrom = \"t\"\nsink = \"main\"\nkind = \"counter\"\ngroup = [\"b\"]\n"+
				"table = \"sums\"\ncreate = true\n")
		l.must("run", "--until-caught-up")
		l.expectLike("SELECT b, cnt FROM sums ORDER BY b", "SELECT b, COUNT(*) FROM t GROUP BY b ORDER BY b")
		l.must("verify")
		l.exec(c.change)
		l.must("run", "--until-caught-up")
		l.expectLike("SELECT b, cnt FROM sums ORDER BY b", "SELECT b, COUNT(*) FROM t GROUP BY b ORDER BY b")
	}
}
