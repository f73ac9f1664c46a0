package main

import (
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"replicator/internal/servers/servertest"
	"replicator/verify"
)

// repairLab returns a lab with views in Redis that match two cells.
func repairLab(t *testing.T, more ...string) (*lab, *goredis.Client) {
	l := newBareLab(t, servertest.MySQL(t))
	redis, rdb := ownRedis(t)
	l.env["REDIS"] = "redis://" + redis.Addr() + "/0"
	l.exec("CREATE TABLE thing (id INT PRIMARY KEY, name VARCHAR(20))", "INSERT INTO thing VALUES (1, 'a'), (2, 'b')")
	l.configure(append([]string{source, program[:strings.Index(program, "[tables.cell]")], `
[tables.thing]
key = "id"
` + redisSink + `
[views.things]
from = "thing"
sink = "cache"
kind = "hash"
key = "thing:{$id}"
fields = ["name"]

[views.names]
from = "thing"
sink = "cache"
kind = "index"
key = "name:{name}"
member = "{$id}"
`}, more...)...)
	l.must("run", "--until-caught-up")
	return l, rdb
}

// repairs runs `verify --repair` on a view and returns the result.
func (l *lab) repairs(view string, code int) verify.Result {
	l.t.Helper()
	r := l.run("verify", "--repair", "--json", view)
	found := jsonLines[verify.Result](l.t, r.out)
	if r.code != code || len(found) != 1 {
		l.t.Fatalf("verify --repair %s: exit %d, not %d: %s%s", view, r.code, code, r.out, r.errors)
	}
	return found[0]
}

// holds fails the test unless the views of repairLab match the source.
func (l *lab) holds(rdb *goredis.Client) {
	l.t.Helper()
	if name, err := rdb.HGet(l.t.Context(), "thing:3", "name").Result(); name != "c" {
		l.t.Errorf("thing:3 has the name %q, %v", name, err)
	}
	if members, err := rdb.SMembers(l.t.Context(), "name:c").Result(); len(members) != 1 || members[0] != "3" {
		l.t.Errorf("name:c has %v, %v", members, err)
	}
	for _, view := range []string{"things", "names"} {
		l.dead(view, 0, 3)
	}
	if left := l.letters(); len(left) > 0 {
		l.t.Errorf("letters that are left: %+v", left)
	}
}

// occupy adds a row without the binlog, and writes foreign keys where the views would show that row. The views have no
// entries for it yet; otherwise they would overwrite the foreign keys.
func (l *lab) occupy(rdb *goredis.Client) {
	l.t.Helper()
	for _, key := range []string{"thing:3", "name:c"} {
		if err := rdb.Set(l.t.Context(), key, "junk", 0).Err(); err != nil {
			l.t.Fatal(err)
		}
	}
	l.session("SET sql_log_bin = 0", "INSERT INTO thing VALUES (3, 'c')")
}

// free removes the foreign keys.
func (l *lab) free(rdb *goredis.Client) {
	l.t.Helper()
	if err := rdb.Del(l.t.Context(), "thing:3", "name:c").Err(); err != nil {
		l.t.Fatal(err)
	}
}

// blocked runs repairs that fail because of the foreign keys.
func (l *lab) blocked(rdb *goredis.Client) {
	l.t.Helper()
	l.occupy(rdb)
	for _, view := range []string{"things", "names"} {
		r := l.repairs(view, 3)
		why := "" // a running program re-reads the cell for all its views, so names has its letter by then
		if view == "things" {
			why = "something else put there"
		}
		if r.Dead != 1 || len(r.Differences) != 1 || !strings.Contains(r.Differences[0].Reason, why) {
			l.t.Errorf("a repair of %s that can't be: %+v", view, r)
		}
		listed := l.letters("--view", view)
		if len(listed) != 1 || listed[0].Key != "3" || listed[0].Position == "" ||
			!strings.Contains(listed[0].Reason, "something else put there") {
			l.t.Errorf("letters of %s after a repair that can't be: %+v", view, listed)
		}
		if s := l.status(view); s.DeadLetters != 1 {
			l.t.Errorf("status of %s counts %d letters", view, s.DeadLetters)
		}
		if again := l.repairs(view, 3); again.Dead != 1 || again.Remaining() != 1 {
			l.t.Errorf("another repair of %s: %+v", view, again)
		}
	}
	l.free(rdb)
}

// A cell that a repair can't write becomes a dead letter, whether the command or the program repairs. Once the obstacle
// is removed, a retry makes the view right.
func TestWhatARepairCantWriteIsADeadLetter(t *testing.T) {
	t.Parallel()
	t.Run("while nothing runs", func(t *testing.T) {
		l, rdb := repairLab(t)
		l.blocked(rdb)
		l.must("deadletters", "retry", "--all")
		l.holds(rdb)
	})
	t.Run("beside the program", func(t *testing.T) {
		l, rdb := repairLab(t)
		p := l.running()
		l.caughtUp()
		l.blocked(rdb)
		l.must("deadletters", "retry", "--all")
		l.holds(rdb)
		p.stop()
	})
	t.Run("by the program", func(t *testing.T) {
		l, rdb := repairLab(t)
		p := l.running()
		l.occupy(rdb)
		// The binlog does not tell which row changed, so the program compares the views with the table.
		l.session("SET SESSION binlog_format = 'STATEMENT'", "UPDATE thing SET name = 'z' WHERE id = 1")
		for _, view := range []string{"things", "names"} {
			l.dead(view, 1, 3)
		}
		if listed := l.letters("--view", "things"); len(listed) != 1 {
			t.Errorf("letters: %+v", listed)
		}
		l.free(rdb)
		l.must("deadletters", "retry", "--all")
		l.holds(rdb)
		p.stop()
	})
}

// A dead cell may have no letter, because the letter was dropped or could not be saved. A repair tries such a cell
// again.
func TestARepairTriesWhatNoLetterExplains(t *testing.T) {
	t.Parallel()
	l, rdb := repairLab(t)
	l.occupy(rdb)
	l.repairs("things", 3)
	l.must("deadletters", "drop", "--all")
	if e := l.explains("things", "3"); e.Holds != "dead" || !strings.Contains(e.Why, "`replicator verify --repair things -c "+l.file()) {
		t.Errorf("explain of what has no letter: %+v", e)
	}
	if r := l.repairs("things", 3); r.Dead != 1 || r.Repaired != 0 || len(l.letters("--view", "things")) != 1 {
		t.Errorf("while it is in the way: %+v, letters %v", r, l.letters())
	}
	l.must("deadletters", "drop", "--all")
	l.free(rdb)
	if r := l.repairs("things", 0); r.Missing != 1 || r.Repaired != 1 || r.Dead != 0 {
		t.Errorf("once it is gone: %+v", r)
	}
	if r := l.repairs("names", 0); r.Checked != 3 || r.Repaired != 0 { // the repair of things also wrote this view
		t.Errorf("then the other view: %+v", r)
	}
	l.holds(rdb)
}
