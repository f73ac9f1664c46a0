package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"replicator/internal/servers/servertest"
)

// All three sinks remember which rows their servers rejected, here for rows whose version is their log position. verify
// and explain find these rows without a state directory. A new state directory gets their letters again, but a dropped
// letter stays dropped.
func TestDeadLettersAreKnownFromTheSinks(t *testing.T) {
	t.Parallel()
	l := newBareLab(t, servertest.MySQL(t))
	redis, rdb := ownRedis(t)
	l.env["REDIS"], l.env["ELASTIC"], l.env["INDEX"] = "redis://"+redis.Addr()+"/0", servertest.Elasticsearch(t), servertest.Name()
	l.exec("CREATE TABLE thing (id INT PRIMARY KEY, name VARCHAR(20) NOT NULL, n VARCHAR(20) NOT NULL)",
		"CREATE TABLE things (id INT PRIMARY KEY, name VARCHAR(20), CHECK (name <> 'refused'))",
		"INSERT INTO thing VALUES (1, 'fine', '1'), (2, 'refused', '2'), (3, 'fine', '3'), (4, 'fine', 'four')")
	if err := rdb.SAdd(t.Context(), "thing:3", "somebody else's").Err(); err != nil {
		t.Fatal(err)
	}
	mapping := filepath.Join(l.dir, "mapping.json")
	if err := os.WriteFile(mapping, []byte(`{"properties": {"n": {"type": "integer"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	l.configure(source, program[:strings.Index(program, "[tables.cell]")], mainSink, `
[tables.thing]
key = "id"
`+redisSink+elasticSink+`
[views.things]
from = "thing"
sink = "main"
kind = "row"
key = { id = "$id" }
fields = ["name"]

[views.thing_cache]
from = "thing"
sink = "cache"
kind = "json"
key = "thing:{id}"
fields = ["name"]

[views.thing_search]
from = "thing"
sink = "search"
kind = "document"
index = "${INDEX}"
mapping_file = "mapping.json"
fields = ["n"]
`)
	dead := map[string]string{"things": "2", "thing_cache": "3", "thing_search": "4"}
	listed := func(when string, want ...string) {
		t.Helper()
		var got []string
		for _, d := range l.letters() {
			got = append(got, d.View+" "+d.Key)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: letters of %v, want %v", when, got, want)
		}
	}
	found := func(when string, n int) {
		t.Helper()
		for view, key := range dead {
			l.dead(view, n, 4)
			if e := l.explains(view, key); n > 0 && (e.Holds != "dead" ||
				!strings.HasPrefix(e.Why, "not in the view: dead letter")) {
				t.Errorf("%s: explain %s %s: %+v", when, view, key, e)
			}
		}
	}
	all := []string{"thing_cache 3", "thing_search 4", "things 2"}
	l.must("run", "--until-caught-up")
	listed("at first", all...)
	found("at first", 1)

	if err := os.RemoveAll(filepath.Join(l.dir, "state")); err != nil {
		t.Fatal(err)
	}
	listed("without a state")
	found("without a state", 1)
	l.must("run", "--until-caught-up")
	listed("after the state was lost", all...)
	for _, d := range l.letters() {
		if d.Reason == "" || d.Position == "" {
			t.Errorf("a letter that came back: %+v", d)
		}
	}

	l.must("deadletters", "drop", "--all")
	l.must("run", "--until-caught-up")
	listed("after they were dropped")
	found("after they were dropped", 1)

	if err := rdb.Del(t.Context(), "thing:3").Err(); err != nil {
		t.Fatal(err)
	}
	for id := range 4 {
		l.exec(fmt.Sprintf("UPDATE thing SET name = 'mended', n = '7' WHERE id = %d", id+1))
	}
	l.must("run", "--until-caught-up")
	found("after something newer", 0)

	// A row that was deleted in the source before a reset is removed from the list, too.
	l.exec("INSERT INTO thing VALUES (5, 'refused', 'five')")
	l.must("run", "--until-caught-up")
	listed("once more", "thing_search 5", "things 5")
	l.exec("DELETE FROM thing WHERE id = 5")
	l.must("checkpoint", "reset", "--yes")
	l.must("run", "--until-caught-up")
	listed("after a reset")
	found("after a reset", 0)
}
