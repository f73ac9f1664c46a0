package main

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

const labelViews = `
[source]
dsn = "${DSN}"

[checkpoint]
path = "state"
interval = "100ms"

[http]
listen = "${LISTEN}"

[tables.item]
key = "id"

[sinks.main]
type = "mysql"
dsn = "${SINK}"
` + redisSink + `
[views.items]
from = "item"
sink = "main"
kind = "row"
create = true
fields = ["label"]

[views.cached]
from = "item"
sink = "cache"
kind = "hash"
key = "item:{id}"
fields = ["label"]
`

// pairLab is a pair of servers, one of which is the source. Each has everything that was written to the other. Views of
// their rows are in sinks elsewhere. A row's version is its log position.
type pairLab struct {
	*lab
	servers [2]*servers.Server
	dbs     [2]*sql.DB
	at      int // the index of the server that is the source
	rdb     *goredis.Client
}

func newPairLab(t *testing.T) *pairLab {
	t.Helper()
	l := &pairLab{}
	for i := range l.servers {
		l.servers[i] = servertest.Own(t, servers.MySQL)
	}
	redis, rdb := ownRedis(t)
	l.lab, l.rdb = newBareLab(t, servertest.MySQL(t)), rdb
	l.env["SINK"], l.env["REDIS"] = l.env["DSN"], "redis://"+redis.Addr()+"/0"
	for i, s := range l.servers {
		l.dbs[i] = l.connect(s, "")
		l.dbs[i].SetMaxOpenConns(1)
		execAll(t, l.dbs[i], "RESET BINARY LOGS AND GTIDS")
	}
	l.replicate(1, 0)
	execAll(t, l.dbs[0], "CREATE DATABASE app", "CREATE TABLE app.item (id INT PRIMARY KEY, label VARCHAR(20))",
		fmt.Sprintf("CREATE USER %s@'%%' IDENTIFIED BY '%s'", l.user, password),
		fmt.Sprintf("GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO %s@'%%'", l.user))
	for id := range 5 {
		execAll(t, l.dbs[0], fmt.Sprintf("INSERT INTO app.item VALUES (%d, 'new')", id))
	}
	l.reads(l.lab, 0)
	return l
}

// replicate makes the server to a replica of the server from.
func (l *pairLab) replicate(to, from int) {
	l.t.Helper()
	execAll(l.t, l.dbs[to], fmt.Sprintf("CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=%d, "+
		"SOURCE_USER='root', SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1", l.servers[from].Port), "START REPLICA")
}

// reads configures a program to read one of the servers.
func (l *pairLab) reads(m *lab, server int) {
	l.t.Helper()
	m.env["DSN"] = l.dsn(l.servers[server].Addr(), "app")
	m.configure(labelViews)
}

// beside returns a second program with the same views, which reads one of the servers. It has its own state directory.
func (l *pairLab) beside(server int) *lab {
	other := *l.lab
	other.dir, other.listen, other.env = l.t.TempDir(), servertest.FreeAddress(l.t), map[string]string{}
	for name, value := range l.env {
		other.env[name] = value
	}
	other.env["LISTEN"] = other.listen
	l.reads(&other, server)
	return &other
}

// replicated waits until the replica has applied everything.
func (l *pairLab) replicated() {
	l.t.Helper()
	all := rowsOf(l.t, l.dbs[l.at], "SELECT @@GLOBAL.gtid_executed")[0]
	if got := rowsOf(l.t, l.dbs[1-l.at], "SELECT WAIT_FOR_EXECUTED_GTID_SET('"+all+"', 60)")[0]; got != "0" {
		l.t.Fatal("the replica does not follow")
	}
}

// failsOver makes the replica the source, and the source its replica.
func (l *pairLab) failsOver() {
	l.t.Helper()
	l.replicated()
	execAll(l.t, l.dbs[1-l.at], "STOP REPLICA", "RESET REPLICA ALL")
	l.replicate(l.at, 1-l.at)
	l.at = 1 - l.at
	l.reads(l.lab, l.at)
}

// labels gives every row a label. It returns the end of the source's log after that.
func (l *pairLab) labels(label string) (fence string) {
	l.t.Helper()
	execAll(l.t, l.dbs[l.at], "UPDATE app.item SET label = '"+label+"'")
	return strings.Join(strings.Fields(rowsOf(l.t, l.dbs[l.at], "SHOW BINARY LOG STATUS")[0])[:2], ":")
}

// shows fails the test unless every row has that label in both views.
func (l *pairLab) shows(label string) {
	l.t.Helper()
	want := slices.Repeat([]string{label}, 5)
	l.expect("SELECT label FROM items", want...)
	var got []string
	for id := range 5 {
		got = append(got, l.rdb.HGet(l.t.Context(), fmt.Sprint("item:", id), "label").Val())
	}
	if !slices.Equal(got, want) {
		l.t.Errorf("in Redis they are %q, want %q", got, label)
	}
}

// The source failed over and back. Then a state directory from before both failovers is restored.
func TestAnOlderStateDirectoryIsHarmlessAfterFailovers(t *testing.T) {
	t.Parallel()
	l := newPairLab(t)
	l.must("run", "--until-caught-up")
	state, backup := filepath.Join(l.dir, "state"), filepath.Join(t.TempDir(), "state")
	if err := os.CopyFS(backup, os.DirFS(state)); err != nil {
		t.Fatal(err)
	}
	for _, label := range []string{"there", "back"} {
		l.failsOver()
		l.labels(label)
		l.must("run", "--until-caught-up")
		l.shows(label)
	}
	if err := os.RemoveAll(state); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(state, os.DirFS(backup)); err != nil {
		t.Fatal(err)
	}
	l.labels("first")
	p := l.running()
	fence := l.labels("second")
	l.waitFor(fence)
	l.shows("second")
	p.stop()
	l.labels("third")
	l.must("run", "--until-caught-up")
	l.shows("third")
	l.must("verify")
}

// A second replicator runs on a replica for a while and ends. The first one reports that it was overtaken. A rebuild
// takes the views over at once, and the changes that the sink had dropped are there. Package pipeline tests that the
// first one also continues without a rebuild.
func TestASecondReplicatorOnAReplicaForAWhile(t *testing.T) {
	t.Parallel()
	l := newPairLab(t)
	p := l.running()
	l.waitFor(l.labels("one"))
	other := l.beside(1)
	second := other.running()
	l.labels("two")
	for _, view := range []string{"items", "cached"} {
		l.failsWith(view, "another replicator", "Stop the replicator that should not run")
		other.reaches(view, "running")
	}
	l.replicated()
	eventually(t, func() error {
		return as(l.rdb.HGet(t.Context(), "item:4", "label").Val() == "two", "the second one follows")
	})
	second.stop()
	fence := l.labels("three")
	for _, view := range []string{"cached", "items"} {
		l.must("rebuild", view)
	}
	l.reaches("items", "running")
	l.reaches("cached", "running")
	l.waitFor(fence)
	l.shows("three")
	l.waitFor(l.labels("four"))
	l.shows("four")
	p.stop()
	l.must("verify")
}

// A repair must not read from a replica, because the sink would treat its writes as newer than all later changes from
// the source.
func TestARepairFromAReplicaIsRefused(t *testing.T) {
	t.Parallel()
	l := newPairLab(t)
	l.must("run", "--until-caught-up")
	l.replicated()
	damage := func() {
		t.Helper()
		l.exec("UPDATE items SET label = 'wrong' WHERE id = 1")
		if err := l.rdb.HSet(t.Context(), "item:1", "label", "wrong").Err(); err != nil {
			t.Fatal(err)
		}
	}
	damage()
	atReplica := l.beside(1)
	for _, runs := range []bool{false, true} {
		var p *process
		if runs {
			p = l.running()
			l.reaches("items", "running")
		}
		if r := atReplica.run("verify"); r.code != exitDiffer {
			t.Errorf("verify at the replica: exit status %d\n%s%s", r.code, r.out, r.errors)
		}
		r := atReplica.run("verify", "--repair")
		if r.code != exitFailed || strings.Count(r.errors, "the view is kept up from another log, of server") != 2 {
			t.Errorf("a repair at the replica: exit status %d\n%s%s", r.code, r.out, r.errors)
		}
		l.must("verify", "--repair")
		l.shows("new")
		if runs {
			l.waitFor(l.labels("later"))
			p.stop()
		} else {
			damage()
		}
	}
	l.shows("later")
	for _, view := range []string{"cached", "items"} {
		l.must("rebuild", view)
	}
	l.labels("last")
	l.must("run", "--until-caught-up")
	l.shows("last")
}
