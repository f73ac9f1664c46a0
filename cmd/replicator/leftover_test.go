package main

import (
	"slices"
	"strings"
	"testing"

	"replicator/internal/servers/servertest"
)

const leavingViews = redisSink + `
[views.made]
from = "cell.users"
sink = "main"
kind = "row"
key = { id = "$row_key" }
fields = ["username"]
create = true

[views.tally]
from = "cell.users"
sink = "main"
kind = "counter"
group = ["username"]
create = true

[views.cached]
from = "cell.users"
sink = "cache"
kind = "hash"
key = "cached:{row_key}"
fields = ["email"]

[views.by_name]
from = "cell.users"
sink = "cache"
kind = "index"
key = "by_name:{username}"

[views.names]
from = "cell.users"
sink = "cache"
kind = "counter"
key = "names:{username}"
`

const stayingView = `
[views.staying]
from = "cell.users"
sink = "cache"
kind = "hash"
key = "staying:{row_key}"
fields = ["email"]
`

// `checkpoint forget --data` shows what ended views left in the sinks, and removes all of it and nothing else.
func TestWhatAnEndedViewLeftIsRemoved(t *testing.T) {
	t.Parallel()
	l := newLab(t, servertest.MySQL(t))
	redis, rdb := ownRedis(t)
	l.env["REDIS"] = "redis://" + redis.Addr()
	l.configure(source, program, mainSink, emailView, leavingViews, stayingView)
	l.put("a", 1, `{"email": "a@x.org", "username": "ann"}`)
	l.put("b", 1, `{"email": "b@x.org", "username": "bob"}`)
	l.must("run", "--until-caught-up")
	sinks, _, _ := strings.Cut(leavingViews, "[views.made]")
	l.configure(source, program, mainSink, strings.ReplaceAll(emailView, "index_users_email", "other")+"table = \"index_users_email2\"\ncreate = true\n",
		sinks, stayingView)
	for _, c := range []struct{ view, says string }{
		{"made", "made: table " + l.database + ".made, 2 rows"}, {"tally", "tally, 2 rows"}, {"cached", "2 cells"},
		{"by_name", "2 cells"}, {"names", "2 cells"},
	} {
		if r := l.run("checkpoint", "forget", c.view, "--data"); r.code != 2 || !strings.Contains(r.errors, "--yes") {
			t.Errorf("%s without --yes: %+v", c.view, r)
		}
		out := l.must("checkpoint", "forget", c.view, "--data", "--yes")
		if !strings.Contains(out, strings.TrimPrefix(c.says, "made: ")) {
			t.Errorf("of %s it says %s", c.view, out)
		}
		if out := l.must("checkpoint", "show"); strings.Contains(out, c.view) {
			t.Errorf("%s is known still:\n%s", c.view, out)
		}
	}
	l.expect("SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN ('made', 'tally')")
	keys, err := rdb.Keys(t.Context(), "*").Result()
	keys = slices.DeleteFunc(keys, func(key string) bool {
		return strings.HasPrefix(key, "replicator:") && !strings.HasPrefix(key, "replicator:sum") && !strings.HasPrefix(key, "replicator:claims")
	})
	if slices.Sort(keys); err != nil || len(keys) != 2 || !strings.HasPrefix(keys[0], "staying:") {
		t.Errorf("%v are left, %v", keys, err)
	}
	// A table that the program did not create is not dropped. The error has the statement to run instead.
	r := l.run("checkpoint", "forget", "index_users_email", "--data", "--yes")
	if r.code != 1 || !strings.Contains(r.errors, "DELETE FROM `"+l.database+"`.`index_users_email`") {
		t.Errorf("a table of somebody's own: %+v", r)
	}
	l.expect(emails, "a@x.org a", "b@x.org b")
	if r := l.run("checkpoint", "forget", "nobody", "--data", "--yes"); r.code != 2 || !strings.Contains(r.errors, "nobody") {
		t.Errorf("a view that nobody knows: %+v", r)
	}
	// If such a view is configured again, it is filled like a new one.
	l.configure(source, program, mainSink, leavingViews, stayingView)
	l.must("run", "--until-caught-up")
	l.must("verify")
}
