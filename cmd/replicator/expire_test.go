package main

import (
	"strings"
	"testing"
	"time"

	"replicator/internal/servers/servertest"
)

// Keys expire some time after the last change, and only another change restores them. verify doesn't count expired keys
// as differences.
func TestKeysInRedisExpire(t *testing.T) {
	t.Parallel()
	l := newBareLab(t, servertest.MySQL(t))
	redis, rdb := ownRedis(t)
	l.env["REDIS"] = "redis://" + redis.Addr() + "/0"
	l.exec("CREATE TABLE thing (id INT PRIMARY KEY, name VARCHAR(20), n INT)",
		"INSERT INTO thing VALUES (1, 'a', 1), (2, 'a', 1)")
	views := `
[tables.thing]
key = "id"
` + redisSink + `
[views.things]
from = "thing"
sink = "cache"
kind = "hash"
key = "thing:{id}"
fields = ["name"]
expire = "24h"

[views.by_name]
from = "thing"
sink = "cache"
kind = "index"
key = "by_name:{name}"
expire = "24h"
`
	configure := func(views string) {
		l.configure(source, program[:strings.Index(program, "[tables.cell]")], views)
	}
	goesIn := func(when, key string, from, upto time.Duration) {
		t.Helper()
		if d := rdb.PTTL(t.Context(), key).Val(); d < from || d > upto {
			t.Errorf("%s: %s goes in %v, want %v to %v", when, key, d, from, upto)
		}
	}
	const day = 24 * time.Hour
	configure(views)
	p := l.running()
	l.caughtUp()
	for _, key := range []string{"thing:1", "thing:2", "by_name:a"} {
		goesIn("after the fill", key, day-time.Hour, day)
		if rdb.Del(t.Context(), key).Err() != nil {
			t.Fatal("it can't be deleted")
		}
	}
	l.must("verify")
	if e := l.explains("things", "1"); e.Holds != "as expected" || !strings.Contains(e.Why, "they have expired") {
		t.Errorf("explain: %+v", e)
	}
	l.exec("UPDATE thing SET n = 2 WHERE id = 1") // no view shows this column
	l.caughtUp()
	for key, upto := range map[string]time.Duration{"thing:1": day, "by_name:a": day, "thing:2": -2} {
		goesIn("after a change of one", key, min(upto, day-time.Hour), upto)
	}
	if got := rdb.SMembers(t.Context(), "by_name:a").Val(); len(got) != 1 || got[0] != "1" {
		t.Errorf("the index lists %q", got)
	}
	l.must("verify")
	p.stop()
	l.must("run", "--until-caught-up")
	goesIn("after a restart", "thing:2", -2, -2)

	views = strings.ReplaceAll(views, `expire = "24h"`, `expire = "48h"`)
	configure(views)
	if r := l.run("run", "--until-caught-up"); r.code == 0 || !strings.Contains(r.errors, "on_change") {
		t.Errorf("with another time: %+v", r)
	}
	configure(strings.ReplaceAll(views, `expire = "48h"`, "expire = \"48h\"\non_change = \"rebuild\""))
	l.must("run", "--until-caught-up")
	for _, key := range []string{"thing:1", "thing:2", "by_name:a"} {
		goesIn("after a rebuild with another time", key, 2*day-time.Hour, 2*day)
	}
	configure(strings.ReplaceAll(views, `expire = "48h"`, `on_change = "rebuild"`))
	l.must("run", "--until-caught-up")
	for _, key := range []string{"thing:1", "thing:2", "by_name:a"} {
		goesIn("after a rebuild without any", key, -1, -1)
	}
	l.must("verify")
}
