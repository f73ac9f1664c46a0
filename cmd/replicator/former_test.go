package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"replicator/internal/servers/servertest"
)

// After a rebuild, nothing remains of what a view in Redis showed under its previous definition, whichever cells or
// kind that had.
func TestARedefinedViewInRedisHoldsNothingOfBefore(t *testing.T) {
	t.Parallel()
	s := servertest.MySQL(t)
	const columns, tables, kinds = `from = "cell.p"`, `from = ["a", "b"]`, `from = "a"`
	hash := func(key string) string { return "kind = \"hash\"\nkey = \"" + key + "\"\nfields = [\"x\"]" }
	index := func(key string) string { return "kind = \"index\"\nkey = \"" + key + "\"" }
	for name, c := range map[string]struct {
		from, before, to, after string
		want                    []string
	}{
		"another column, counted": {columns, "kind = \"counter\"\nkey = \"v:all\"\nsum = \"x\"",
			`from = "cell.s"`, "kind = \"counter\"\nkey = \"v:all\"\nsum = \"x\"", []string{"v:all 50"}},
		"another column, listed":  {columns, index("v:{x}"), `from = "cell.s"`, index("v:{x}"), []string{"v:20 [2]", "v:30 [3]"}},
		"a table less":            {tables, hash("v:{id}"), `from = "b"`, hash("v:{id}"), []string{"v:2 map[x:1]", "v:3 map[x:3]"}},
		"a hash that is JSON now": {kinds, hash("v:{id}"), kinds, "kind = \"json\"\nkey = \"v:{id}\"\nfields = [\"x\"]", []string{`v:1 {"x":2}`, `v:2 {"x":1}`}},
		"JSON under one's own key, unique under another's": {kinds, "kind = \"json\"\nkey = \"v:{id}\"\nfields = [\"x\"]",
			kinds, index("v:{x}") + "\nunique = true", []string{"v:1 2", "v:2 1"}},
		"unique no more": {kinds, index("v:{x}") + "\nunique = true", kinds, index("v:{x}"), []string{"v:1 [2]", "v:2 [1]"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newBareLab(t, s)
			redis, rdb := ownRedis(t)
			l.env["REDIS"] = "redis://" + redis.Addr() + "/0"
			l.exec("CREATE TABLE cell (id INT, n VARCHAR(9), v BIGINT, body JSON, PRIMARY KEY (id, n, v))",
				"CREATE TABLE a (id INT PRIMARY KEY, x INT)", "CREATE TABLE b LIKE a",
				`INSERT INTO cell VALUES (1, 'p', 1, '{"x": 1}'), (2, 'p', 1, '{"x": 2}'), (2, 's', 1, '{"x": 20}'), (3, 's', 1, '{"x": 30}')`,
				"INSERT INTO a VALUES (1, 2), (2, 1)", "INSERT INTO b VALUES (2, 1), (3, 3)")
			define := func(from, view string) {
				l.configure(source, strings.Split(program, "[tables.cell]")[0], "[tables.cell]\nkey = \"id\"\ncolumn = \"n\"\nversion = \"v\"\n"+
					"body = \"body\"\ncodec = \"json\"\n[tables.a]\nkey = \"id\"\n[tables.b]\nkey = \"id\"\n"+
					"[sinks.cache]\ntype = \"redis\"\nurl = \"${REDIS}\"\n[views.v]\nsink = \"cache\"\non_change = \"rebuild\"\n"+from+"\n"+view+"\n")
			}
			define(c.from, c.before)
			l.must("run", "--until-caught-up")
			define(c.to, c.after)
			l.must("run", "--until-caught-up")
			held := map[string]string{}
			for _, key := range rdb.Keys(t.Context(), "v:*").Val() {
				switch rdb.Type(t.Context(), key).Val() {
				case "string":
					held[key] = rdb.Get(t.Context(), key).Val()
				case "set":
					held[key] = fmt.Sprint(rdb.SMembers(t.Context(), key).Val())
				case "hash":
					held[key] = fmt.Sprint(rdb.HGetAll(t.Context(), key).Val())
				}
			}
			var got []string
			for _, key := range slices.Sorted(maps.Keys(held)) {
				got = append(got, key+" "+held[key])
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("it holds %q, want %q", got, c.want)
			}
			l.must("verify")
			if letters := l.letters(); len(letters) > 0 {
				t.Errorf("dead letters: %+v", letters)
			}
		})
	}
}

// If the program is stopped while a sink is down, it logs that changes were not applied.
func TestTheEndInAnOutageSaysWhatIsLeft(t *testing.T) {
	t.Parallel()
	l := newBareLab(t, servertest.MySQL(t))
	redis, _ := ownRedis(t)
	l.env["REDIS"] = "redis://" + redis.Addr() + "/0"
	l.exec("CREATE TABLE a (id INT PRIMARY KEY, x INT)")
	l.configure(source, strings.Split(program, "[tables.cell]")[0], "[tables.a]\nkey = \"id\"\n[sinks.cache]\ntype = \"redis\"\n"+
		"url = \"${REDIS}\"\n[views.v]\nsink = \"cache\"\nfrom = \"a\"\nkind = \"hash\"\nkey = \"v:{id}\"\nfields = [\"x\"]\n")
	p := l.running()
	l.caughtUp()
	if err := redis.Kill(); err != nil {
		t.Fatal(err)
	}
	l.exec("INSERT INTO a VALUES (1, 1)")
	l.reaches("v", "retrying")
	p.stop()
	if log := p.Log(); strings.Contains(log, "all changes in flight are") || !strings.Contains(log, "next start") {
		t.Errorf("the log says\n%s", log)
	}
}
