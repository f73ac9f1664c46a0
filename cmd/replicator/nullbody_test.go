package main

import (
	"encoding/json"
	"strings"
	"testing"

	"replicator/internal/servers/servertest"
)

// A NULL body has no properties. Views must still show what the row's columns contribute, in every sink, whether the
// row comes from a scan or from the binlog.
func TestOfANullBodyWhatColumnsGiveIsShown(t *testing.T) {
	t.Parallel()
	l := newBareLab(t, servertest.MySQL(t))
	redis, rdb := ownRedis(t)
	l.env["REDIS"], l.env["INDEX"] = "redis://"+redis.Addr()+"/0", servertest.Name()
	l.env["ELASTIC"] = servertest.Elasticsearch(t)
	l.exec("CREATE TABLE thing (id INT PRIMARY KEY, sort VARCHAR(20) NOT NULL, body JSON)",
		"CREATE TABLE things (id INT PRIMARY KEY, sort VARCHAR(20) NOT NULL, name VARCHAR(20))",
		"CREATE TABLE named (id INT PRIMARY KEY, sort VARCHAR(20) NOT NULL)",
		`INSERT INTO thing VALUES (1, 'old', NULL), (2, 'old', '{"name": "two"}'), (3, 'old', '{}')`)
	l.configure(source, program[:strings.Index(program, "[tables.cell]")], mainSink, `
[tables.thing]
key = "id"
body = "body"
codec = "json"
`+redisSink+elasticSink+`
[views.things]
from = "thing"
sink = "main"
kind = "row"
key = { id = "$id" }
fields = { sort = "$sort", name = "name" }

[views.named]
from = "thing"
sink = "main"
kind = "row"
key = { id = "$id" }
fields = { sort = "$sort" }
where = "len(name) > 0"

[views.thing_cache]
from = "thing"
sink = "cache"
kind = "hash"
key = "thing:{id}"
fields = { sort = "$sort", name = "name" }

[views.thing_search]
from = "thing"
sink = "search"
kind = "document"
index = "${INDEX}"
fields = { sort = "$sort", name = "name" }
`)
	shows := func(want, named []string, cached map[string]string) {
		t.Helper()
		l.caughtUp()
		l.expect("SELECT id, sort, COALESCE(name, '-') FROM things ORDER BY id", want...)
		l.expect("SELECT id, sort FROM named ORDER BY id", named...)
		for key, want := range cached {
			got, err := rdb.HGetAll(t.Context(), key).Result()
			if text, _ := json.Marshal(got); err != nil || string(text) != want {
				t.Errorf("%s: %s, %v; want %s", key, text, err, want)
			}
		}
		if letters := l.letters(); len(letters) > 0 {
			t.Errorf("dead letters: %+v", letters)
		}
		l.must("verify")
	}
	p := l.running()
	shows([]string{"1 old -", "2 old two", "3 old -"}, []string{"2 old"},
		map[string]string{"thing:1": `{"sort":"old"}`, "thing:2": `{"name":"two","sort":"old"}`})

	l.exec("UPDATE thing SET sort = 'new', body = NULL WHERE id = 2", "INSERT INTO thing VALUES (4, 'new', NULL)",
		`UPDATE thing SET body = '{"name": "one"}' WHERE id = 1`)
	shows([]string{"1 old one", "2 new -", "3 old -", "4 new -"}, []string{"1 old"},
		map[string]string{"thing:1": `{"name":"one","sort":"old"}`, "thing:2": `{"sort":"new"}`, "thing:4": `{"sort":"new"}`})
	p.stop()
}
