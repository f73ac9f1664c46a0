package main

import (
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"replicator/internal/servers/servertest"
)

// TestAKeyIsOneViewsOnly: the text of a value can make one view's key another's. Neither takes the other's place there:
// the row is a dead letter of the view whose template says less of the key.
func TestAKeyIsOneViewsOnly(t *testing.T) {
	t.Parallel()
	l := newBareLab(t, servertest.MySQL(t))
	prefix := l.database
	l.exec("CREATE TABLE person (id VARCHAR(20) PRIMARY KEY, name VARCHAR(20), n INT)",
		"INSERT INTO person VALUES ('a', 'ann', 5), ('a:x', 'bob', 7)")
	redis := servertest.Redis(t)
	rdb := goredis.NewClient(&goredis.Options{Addr: redis.Addr(), Protocol: 2})
	defer rdb.Close()
	l.env["REDIS"] = "redis://" + redis.Addr() + "/0"
	l.configure(source, `
[checkpoint]
path = "state"
interval = "100ms"

[http]
listen = "${LISTEN}"

[tables.person]
key = "id"

[sinks.cache]
type = "redis"
url = "${REDIS}"

[views.plain]
from = "person"
sink = "cache"
kind = "hash"
key = "`+prefix+`:{id}"
fields = ["name"]

[views.ends]
from = "person"
sink = "cache"
kind = "hash"
key = "`+prefix+`:{id}:x"
fields = ["n"]
`)
	p := l.running()
	l.caughtUp()
	for key, want := range map[string]string{"a": "map[name:ann]", "a:x": "map[n:5]", "a:x:x": "map[n:7]"} {
		if got := rdb.HGetAll(t.Context(), prefix+":"+key); !strings.HasSuffix(got.String(), want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if st := l.status("plain"); st.DeadLetters != 1 {
		t.Errorf("view plain has %d dead letters", st.DeadLetters)
	}
	l.exec("DELETE FROM person WHERE id = 'a:x'")
	l.caughtUp()
	if got := rdb.HGet(t.Context(), prefix+":a:x", "n").Val(); got != "5" {
		t.Errorf("another entity's delete leaves %q", got)
	}
	l.must("verify")
	p.stop()
}
