package main

import (
	"strings"
	"testing"

	"replicator/internal/servers/servertest"
)

// The source gets another name: [source.shards] replaces dsn, or a shard is renamed. The contributions under the former
// name must not stay next to those under the new name.
func TestASourceOfAnotherNameCountsNothingTwice(t *testing.T) {
	t.Parallel()
	l := newBareLab(t, servertest.MySQL(t))
	redis, rdb := ownRedis(t)
	l.env["REDIS"] = "redis://" + redis.Addr() + "/0"
	l.exec("CREATE TABLE likes (id INT PRIMARY KEY, post INT)", "INSERT INTO likes VALUES (1, 5), (2, 5), (3, 6)")
	views := `
[tables.likes]
key = "id"
` + redisSink + `
[views.cached]
from = "likes"
sink = "cache"
kind = "counter"
key = "likes:{post}"
[views.counted]
from = "likes"
sink = "main"
kind = "counter"
group = ["post"]
create = true
[views.by_post]
from = "likes"
sink = "main"
kind = "index"
fields = ["post"]
create = true
`
	rest := []string{strings.Split(program, "[tables.cell]")[0], mainSink, views}
	shows := func(want string) {
		t.Helper()
		got := strings.Join([]string{rdb.Get(t.Context(), "likes:5").Val(), rdb.Get(t.Context(), "likes:6").Val()}, ",")
		for _, query := range []string{"SELECT post, cnt FROM counted ORDER BY 1",
			"SELECT post, id FROM by_post ORDER BY 2"} {
			got += "; " + strings.Join(l.rows(query), ", ")
		}
		if got != want {
			t.Errorf("the views show %q, want %q", got, want)
		}
	}
	l.configure(append([]string{source}, rest...)...)
	l.must("run", "--until-caught-up")
	const before = "2,1; 5 2, 6 1; 5 1, 5 2, 6 3"
	shows(before)

	l.configure(append([]string{"[source.shards]\na = \"${DSN}\"\n"}, rest...)...)
	const says = "it was filled from [source] dsn, "
	for _, args := range [][]string{{"check"}, {"run", "--until-caught-up"}} {
		if r := l.run(args...); r.code != exitFailed || strings.Count(r.out+r.errors, says) < 3 {
			t.Errorf("%v: exit status %d, without %q of each view\n%s%s", args, r.code, says, r.out, r.errors)
		}
	}
	shows(before)

	l.exec("DELETE FROM likes WHERE id IN (2, 3)")
	l.must("checkpoint", "forget", "--yes", "cached", "counted", "by_post")
	l.must("run", "--until-caught-up")
	shows("1,; 5 1; 5 1")
	l.must("verify")
}
