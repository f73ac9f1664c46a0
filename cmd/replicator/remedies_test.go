package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"replicator/internal/servers/servertest"
)

// One program keeps views in MySQL and Redis. For each failed state, the test causes the state and waits for the view's
// status. It then runs the first command that the status names, in another directory while the program runs. The view
// must then match the source.
func TestEveryFailedStateNamesACommandThatMendsIt(t *testing.T) {
	t.Parallel()
	l := newBareLab(t, servertest.MySQL(t))
	l.dir = filepath.Join(l.dir, "it's here") // a shell needs quotes for this name
	if err := os.Mkdir(l.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	redis, rdb := ownRedis(t)
	l.env["REDIS"] = "redis://" + redis.Addr() + "/0"
	l.exec("CREATE TABLE t (id INT PRIMARY KEY, a INT NOT NULL, n VARCHAR(9))",
		"CREATE TABLE u (id INT PRIMARY KEY, full_name VARCHAR(9), a INT NOT NULL)",
		"CREATE TABLE by_hand (id INT PRIMARY KEY, a INT)")
	configure := func(rows string) {
		views := "[tables.t]\nkey = \"id\"\n[tables.u]\nkey = \"id\"\n[sinks.cache]\ntype = \"redis\"\nurl = \"${REDIS}\"\n"
		for name, of := range map[string]string{
			"by_hand": "from = \"t\"\nsink = \"main\"\nkind = \"row\"\nfields = [\"a\"]",
			"made":    "from = \"t\"\nsink = \"main\"\nkind = \"row\"\nfields = [\"a\"]\ncreate = true",
			"names":   "from = \"u\"\nsink = \"main\"\nkind = \"row\"\nfields = [\"full_name\"]\ncreate = true",
			"sums":    "from = \"t\"\nsink = \"cache\"\nkind = \"counter\"\nkey = \"sum:{a}\"\nsum = \"id\"",
			"count":   "from = \"t\"\nsink = \"cache\"\nkind = \"counter\"\nkey = \"n:{a}\"",
			"rows":    "from = \"t\"\nsink = \"cache\"\nkind = \"hash\"\nkey = \"t:{id}\"\nfields = " + rows,
		} {
			views += "[views." + name + "]\n" + of + "\n"
		}
		l.configure(source, strings.Split(program, "[tables.cell]")[0], mainSink, views)
	}
	l.exec("INSERT INTO t VALUES (1, 1, 'x'), (2, 2, 'y'), (3, 1, 'z')", "INSERT INTO u VALUES (1, 'ada', 1)")
	ctx := t.Context()
	cli := func(args ...any) {
		t.Helper()
		if err := rdb.Do(ctx, args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	configure("[\"a\"]")
	p := l.running()
	l.caughtUp()
	for _, c := range []struct {
		state, view string
		hurt        func()
		before      func() // what the status says must be done before the command
	}{
		{"its table was dropped", "by_hand", func() { l.exec("DROP TABLE by_hand") }, nil},
		{"a table that it made was dropped", "made", func() { l.exec("DROP TABLE made") }, nil},
		{"a mark in Redis is damaged", "rows", func() { cli("HSET", "replicator:marks:", "rows", "theirs") }, nil},
		{"all in Redis is gone", "sums", func() { cli("FLUSHALL") }, nil},
		{"a mark in MySQL is damaged", "names", func() {
			l.exec("UPDATE replicator_views SET mark_token = CONCAT(mark_token, '\n{') WHERE name = 'names'")
		}, nil},
		{"a state in MySQL is damaged", "made", func() { l.exec("UPDATE replicator_state SET state = x'01ff'") },
			func() { l.exec("DELETE FROM replicator_state WHERE state = x'01ff'") }},
		{"its column was renamed", "names", func() { l.exec("ALTER TABLE u RENAME COLUMN full_name TO name") },
			func() { l.exec("ALTER TABLE u RENAME COLUMN name TO full_name") }},
		{"its definition was changed", "rows", func() {
			configure("[\"n\"]")
			p.signal(syscall.SIGHUP)
		}, nil},
	} {
		t.Run(c.state, func(t *testing.T) {
			l := *l
			l.t = t
			c.hurt()
			l.exec("UPDATE t SET a = 3 - a", "INSERT INTO t SELECT COALESCE(MAX(id), 0) + 1, 1, 'w' FROM t",
				"UPDATE u SET a = a + 1")
			l.failsWith(c.view)
			if c.before != nil {
				c.before()
			}
			l.remedied(c.view)
			l.allRun()
			l.caughtUp()
			l.must("verify")
		})
	}
	p.stop()
}

// The program repairs its own keys in Redis after another program has changed them. No operator is needed.
func TestWhatSomebodyWroteToTheSinksOwnKeysInRedisIsMended(t *testing.T) {
	t.Parallel()
	l := newKeysLab(t)
	views, _ := everyKind("of_")
	l.define(views)
	p := l.running()
	l.caughtUp()
	for _, key := range l.rdb.Keys(t.Context(), "replicator:*").Val() {
		switch {
		case strings.HasPrefix(key, "replicator:sum:"), strings.HasPrefix(key, "replicator:claims:"):
			l.rdb.Del(t.Context(), key)
			l.rdb.RPush(t.Context(), key, "theirs")
		case strings.HasPrefix(key, "replicator:entity:"):
			if key[len(key)-1]%2 == 0 {
				l.rdb.Set(t.Context(), key, "theirs", 0)
			}
		}
	}
	l.exec("UPDATE t SET a = 1 - a, b = 1 - b")
	l.caughtUp()
	eventually(t, func() error { r := l.run("verify"); return as(r.code == 0, r.out+r.errors) })
	p.stop()
}
