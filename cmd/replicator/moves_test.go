package main

import (
	"fmt"
	"strings"
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// TestEntitiesMoveBetweenShards moves entities between shards. A last update in the old shard, the insert in the new
// one and the delete in the old one happen within milliseconds, but the shards are read separately.
func TestEntitiesMoveBetweenShards(t *testing.T) {
	t.Parallel()
	l := newBareLab(t, servertest.MySQL(t))
	second := servertest.Own(t, servers.MySQL)
	l.account(second, l.user, "SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.*")
	execAll(t, l.connect(second, ""), "CREATE DATABASE shard_b")
	other := l.connect(second, "shard_b")
	redis, rdb := ownRedis(t)
	l.env["REDIS"], l.env["B"] = "redis://"+redis.Addr()+"/0", l.dsn(second.Addr(), "shard_b")
	const table = "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(40))"
	l.exec(table)
	execAll(t, other, table)
	l.configure("[source.shards]\na = \"${DSN}\"\nb = \"${B}\"\n", strings.Split(program, "[tables.cell]")[0], mainSink, `
[tables.people]
key = "id"
`+redisSink+`
[views.cached]
from = "people"
sink = "cache"
kind = "hash"
key = "person:{id}"
fields = ["name"]
[views.person]
from = "people"
sink = "main"
kind = "row"
fields = ["name"]
create = true
[views.by_name]
from = "people"
sink = "main"
kind = "index"
fields = ["name"]
create = true
`)
	const many = 100
	shows := func(when, name string, letters int) {
		t.Helper()
		eventually(t, func() error {
			for i := range many {
				cached := rdb.HGet(t.Context(), fmt.Sprint("person:", i), "name").Val()
				if want := fmt.Sprint(name, " ", i); cached != want {
					return as(false, fmt.Sprintf("%s, person %d is %q in Redis, not %q", when, i, cached, want))
				}
			}
			for _, view := range []string{"person", "by_name"} {
				got := l.rows("SELECT COUNT(*), COALESCE(SUM(name = CONCAT('" + name + " ', id)), 0) FROM " + view)[0]
				if want := fmt.Sprint(many, " ", many); got != want {
					return as(false, fmt.Sprintf("%s, %s has rows, and right ones: %s, not %s", when, view, got, want))
				}
			}
			found := strings.Count(l.must("deadletters", "list", "--json"), "another shard of the source has a row of this key")
			return as(found == letters, fmt.Sprintf("%s, there are %d letters, not %d", when, found, letters))
		})
	}
	for i := range many {
		l.exec(fmt.Sprintf("INSERT INTO people VALUES (%d, 'old %d')", i, i))
	}
	l.must("run", "--until-caught-up")
	p := l.running()
	shows("at first", "old", 0)
	for i := range many {
		l.exec(fmt.Sprintf("UPDATE people SET name = 'late %d' WHERE id = %d", i, i))
		execAll(t, other, fmt.Sprintf("INSERT INTO people VALUES (%d, 'new %d')", i, i))
		l.exec(fmt.Sprintf("DELETE FROM people WHERE id = %d", i))
	}
	shows("after all moved", "new", 0)
	l.must("verify")

	for i := range many {
		l.exec(fmt.Sprintf("INSERT INTO people VALUES (%d, 'both %d')", i, i))
	}
	shows("while both shards have all", "new", 3*many)
	if r := l.run("verify"); r.code == 0 || !strings.Contains(r.out, "dead") {
		t.Errorf("verify while both shards have all: exit status %d\n%s%s", r.code, r.out, r.errors)
	}
	execAll(t, other, "DELETE FROM people")
	shows("after the others were deleted", "both", 0)
	l.must("verify")

	// The first shard's rows have no index entry now. Entries of the second shard's rows would lead to the wrong rows.
	l.exec("UPDATE people SET name = NULL")
	for i := range many {
		execAll(t, other, fmt.Sprintf("INSERT INTO people VALUES (%d, 'late %d')", i, i))
	}
	eventually(t, func() error {
		found := strings.Count(l.must("deadletters", "list", "--json"), "another shard of the source has a row of this key")
		return as(found == 3*many, fmt.Sprintf("while the first row has no entry, there are %d letters", found))
	})
	got := l.rows("SELECT (SELECT COUNT(*) FROM person), (SELECT COUNT(name) FROM person), (SELECT COUNT(*) FROM by_name)")[0]
	if want := fmt.Sprint(many, " 0 0"); got != want {
		t.Errorf("while the first row has no entry, there are rows, with a name, and entries: %s, not %s", got, want)
	}
	l.exec("DELETE FROM people")
	shows("after the first were deleted", "late", 0)
	l.must("verify")
	p.stop()
}
