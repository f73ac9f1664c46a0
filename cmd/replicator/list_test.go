package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/service"
)

const listedViews = `
[checkpoint]
path = "state"
interval = "100ms"

[http]
listen = "${LISTEN}"

[tables.fav]
key = "id"

[sinks.cache]
type = "redis"
url = "redis://${REDIS}/0"

[views.by_name]
from = "fav"
sink = "main"
kind = "index"
fields = ["name", "day"]
key_column = "fav_id"
create = true

[views.per_object]
from = "fav"
sink = "main"
kind = "counter"
group = ["object"]
sum = "cnt"
create = true

[views.cached]
from = "fav"
sink = "cache"
kind = "index"
key = "by:{name}:{day}"

[views.holder]
from = "fav"
sink = "cache"
kind = "index"
key = "one:{name}"
unique = true

[views.total]
from = "fav"
sink = "cache"
kind = "counter"
key = "total:{object}"
sum = "cnt"

[views.ranks]
from = "fav"
sink = "cache"
kind = "ranking"
key = "ranks"
member = "{object}"
sum = "cnt"

[views.whole]
from = "fav"
sink = "cache"
kind = "hash"
key = "fav:{id}"
fields = ["name"]
`

// `explain --value` shows the entities that are listed under a value, and `--group` the cells that make up a sum. Both
// show where the sink differs from the source.
func TestExplainShowsWhatStandsBehindAValue(t *testing.T) {
	t.Parallel()
	servertest.FirstKind(t, func(t *testing.T, kind servers.Kind) {
		l := newBareLab(t, servertest.Shared(t, kind))
		redis, client := ownRedis(t)
		l.env["REDIS"] = redis.Addr()
		l.exec(`CREATE TABLE fav (id BIGINT PRIMARY KEY, name VARCHAR(40), day DATE, object INT, cnt DECIMAL(10,2))`,
			`INSERT INTO fav VALUES (1, 'a:b', '2026-01-02', 12, 1.5), (2, 'a:b', '2026-01-02', 12, -1), (3, 'c', '2026-01-02', 7, 2)`)
		for i := range 60 {
			l.exec(fmt.Sprintf("INSERT INTO fav VALUES (%d, 'many', '2026-01-03', 99, 2)", 100+i))
		}
		l.configure(source, listedViews, mainSink)
		l.running()
		l.caughtUp()

		list := func(args ...string) (service.Listing, []service.Explanation) {
			t.Helper()
			out := l.must(append([]string{"explain", "--json"}, args...)...)
			first, rest, _ := strings.Cut(out, "\n")
			return jsonLines[service.Listing](t, first)[0], jsonLines[service.Explanation](t, rest)
		}
		expect := func(cells int, shown, sum string, holds []string, args ...string) service.Listing {
			t.Helper()
			found, all := list(args...)
			var got []string
			for _, e := range all {
				got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s", e.Key, e.Holds, e.Amount)))
			}
			slices.Sort(got)
			if found.Cells != cells || found.Shown != shown || string(found.Sum) != sum ||
				fmt.Sprint(got) != fmt.Sprint(holds) {
				t.Errorf("%q: %+v, %q, want %d, %q, %q, %q", args, found, got, cells, shown, sum, holds)
			}
			return found
		}
		right := []string{"1 as expected", "2 as expected"}
		expect(2, "", "", right, "by_name", "--value", "a:b", "--value", "2026-01-02")
		expect(2, "", "", right, "by_name", "--value", "a%3Ab:2026-01-02")
		expect(0, "", "", nil, "by_name", "--value", "a", "--value", "2026-01-02")
		expect(2, "", "", right, "cached", "--value", "a:b", "--value", "2026-01-02")
		expect(2, client.Get(t.Context(), "one:a:b").Val(), "", right, "holder", "--value", "a:b")
		amounts := []string{"1 as expected 1.5", "2 as expected -1"}
		expect(2, "0.5", "0.5", amounts, "per_object", "--group", "12")
		expect(2, "0.5", "0.5", amounts, "total", "--group", "12")
		expect(2, "0.5", "0.5", amounts, "ranks", "--group", "12")
		expect(0, "", "0", nil, "per_object", "--group", "13")
		for _, view := range []string{"per_object", "total", "ranks"} {
			found, all := list(view, "--group", "99")
			if found.Cells != 60 || len(all) != service.MaxListed || string(found.Sum) != "120" || found.Why != "" {
				t.Errorf("%s: %+v, %d shown", view, found, len(all))
			}
		}

		// Some rows are changed by hand in the sink. The source's later changes are not applied.
		l.exec("UPDATE per_object SET cnt = 8 WHERE object = 12", "INSERT INTO by_name (name, day, fav_id) "+
			"VALUES ('a:b', '2026-01-02', 77)")
		pipe := client.Pipeline()
		pipe.SAdd(t.Context(), "by:a%3Ab:2026-01-02", "55")
		pipe.Set(t.Context(), "total:12", "9", 0)
		if _, err := pipe.Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
		expect(3, "", "", []string{"1 as expected", "2 as expected", "77 extra"}, "by_name", "--value", "a%3Ab:2026-01-02")
		if found, _ := list("cached", "--value", "a%3Ab:2026-01-02"); fmt.Sprint(found.Orphans) != "[55]" ||
			!strings.Contains(found.Why, "verify --repair cached") {
			t.Errorf("%+v", found)
		}
		if found, _ := list("per_object", "--group", "12"); found.Shown != "8" || string(found.Sum) != "0.5" ||
			!strings.Contains(found.Why, "verify --repair per_object") {
			t.Errorf("%+v", found)
		}
		if found, _ := list("total", "--group", "12"); found.Shown != "9" || string(found.Sum) != "0.5" || found.Why == "" {
			t.Errorf("%+v", found)
		}
		l.must("pause", "ranks")
		l.exec("UPDATE fav SET object = 7 WHERE id = 2")
		text := l.must("explain", "ranks", "--group", "12")
		for _, want := range []string{"shows  0.5", "cells  2, add up to 0.5", "AMOUNT", "fav 2: the view is behind"} {
			if !strings.Contains(text, want) {
				t.Errorf("%q is not in\n%s", want, text)
			}
		}
		t.Log("\n" + text + l.must("explain", "by_name", "--value", "a%3Ab:2026-01-02"))

		for _, refused := range [][]string{{"by_name", "--group", "1"}, {"per_object", "--value", "1"},
			{"whole", "--value", "a"}, {"whole", "--group", "a"}, {"by_name", "--value", "a"}, {"by_name"},
			{"per_object", "--group", "twelve"}, {"by_name", "5", "--value", "a"},
			{"by_name", "--value", "a", "--group", "b"}} {
			if r := l.run(append([]string{"explain"}, refused...)...); r.code != exitUsage || r.errors == "" {
				t.Errorf("%q: exit status %d, %s", refused, r.code, r.errors)
			} else {
				t.Log(strings.TrimSpace(r.errors))
			}
		}
	})
}

// The source and the sink have several shards. The cells behind a value are searched in all of them.
func TestExplainListsFromEveryShard(t *testing.T) {
	t.Parallel()
	l := newBareLab(t, servertest.MySQL(t))
	other := newBareLab(t, servertest.MySQL(t))
	const table = "CREATE TABLE fav (id BIGINT PRIMARY KEY, name VARCHAR(40), object INT, cnt INT)"
	l.exec(table, "INSERT INTO fav VALUES (1, 'x', 5, 1), (2, 'x', 6, 2)")
	other.exec(table, "INSERT INTO fav VALUES (3, 'x', 5, 4), (4, 'x', 6, 8)")
	l.env["OTHER"] = other.env["DSN"]
	head, _, _ := strings.Cut(program, "[tables.cell]")
	l.configure("[source.shards]\na = \"${DSN}\"\nb = \"${OTHER}\"\n", head, `
[tables.fav]
key = "id"

[sinks.main]
type = "mysql"

[sinks.main.shards]
x = "${DSN}"
y = "${OTHER}"

[views.by_name]
from = "fav"
sink = "main"
kind = "index"
fields = ["name", "object"]
key_column = "fav_id"
shard_on = "object"
create = true

[views.per_object]
from = "fav"
sink = "main"
kind = "counter"
group = ["object"]
sum = "cnt"
shard_on = "object"
create = true
`)
	l.must("run", "--until-caught-up")
	for _, args := range [][]string{{"by_name", "--value", "x:5"}, {"by_name", "--value", "x:6"},
		{"per_object", "--group", "5"}, {"per_object", "--group", "6"}} {
		out := l.must(append([]string{"explain", "--json"}, args...)...)
		first, rest, _ := strings.Cut(out, "\n")
		found := jsonLines[service.Listing](t, first)[0]
		var got []string
		for _, e := range jsonLines[service.Explanation](t, rest) {
			got = append(got, fmt.Sprint(e.Source, e.Key, e.Holds, string(e.Amount)))
		}
		slices.Sort(got)
		want := map[string]string{"x:5": "[a1as expected b3as expected]", "x:6": "[a2as expected b4as expected]",
			"5": "[a1as expected1 b3as expected4]", "6": "[a2as expected2 b4as expected8]"}[args[2]]
		if fmt.Sprint(got) != want || found.Cells != 2 || found.Why != "" {
			t.Errorf("%q: %+v, %q, want %s", args, found, got, want)
		}
	}
}
