package main

import (
	"fmt"
	"testing"

	"replicator/internal/servers/servertest"
)

// A Redis without an append-only file is killed during a fill. It comes back with its last snapshot. The source is
// idle, so no position reveals the loss. The fill must continue from the snapshot's progress.
func TestARedisThatComesBackWithItsLastSnapshotInAFill(t *testing.T) {
	t.Parallel()
	const users = 600
	l := newLab(t, servertest.MySQL(t))
	redis, rdb := ownRedis(t, "--save", "")
	l.env["REDIS"] = "redis://" + redis.Addr() + "/0"
	l.session(fmt.Sprintf("INSERT INTO cell (row_key, column_name, ref_key, body) "+
		"SELECT UNHEX(LPAD(HEX(a.n * 40 + b.n), 32, '0')), 'users', 1, CONCAT('{\"email\": \"', b.n, '@x.org\"}') "+
		"FROM (%s) AS a, (%s) AS b", numbers(users/40), numbers(40)))
	l.configure(source, program, "[sinks.cache]\ntype = \"redis\"\nurl = \"${REDIS}\"\n", cacheView,
		"[rebuild]\nrate = 100\n")
	held := func() int {
		t.Helper()
		keys, err := rdb.Keys(t.Context(), "user:*").Result()
		if err != nil {
			t.Fatal(err)
		}
		return len(keys)
	}
	until := func(rows int) {
		t.Helper()
		eventually(t, func() error {
			n := held()
			return as(n >= rows, fmt.Sprintf("it holds %d rows of %d", n, rows))
		})
	}
	p := l.running()
	until(users / 4)
	if err := rdb.Save(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	snapshot := held()
	until(snapshot + users/4)
	if err := redis.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := redis.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := held(); n > snapshot+100 {
		t.Fatalf("it came back with %d rows, its snapshot had %d", n, snapshot)
	}
	l.caughtUp()
	if n := held(); n != users {
		t.Errorf("it holds %d rows of %d", n, users)
	}
	l.must("verify", "user_cache")
	p.stop()
}
