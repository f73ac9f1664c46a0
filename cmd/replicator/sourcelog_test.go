package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// In these tests, the binlog of a checkpoint was purged or replaced.

// purge removes every binlog file except the current one. MariaDB silently keeps files that InnoDB still needs for its
// own recovery.
func (l *lab) purge() {
	l.t.Helper()
	last := strings.Split(l.position(), ":")[0]
	eventually(l.t, func() error {
		l.exec("PURGE BINARY LOGS TO '" + last + "'")
		if files := l.rows("SHOW BINARY LOGS"); len(files) != 1 {
			return fmt.Errorf("%d binlog files are left", len(files))
		}
		return nil
	})
}

func TestAPurgedBinlogStopsOrRebuilds(t *testing.T) {
	t.Parallel()
	for _, onLost := range []string{"stop", "rebuild"} {
		t.Run(onLost, func(t *testing.T) {
			t.Parallel()
			servertest.FirstKind(t, func(t *testing.T, kind servers.Kind) {
				l := newLab(t, servertest.Own(t, kind))
				l.configure(source, "on_lost = \""+onLost+"\"\n", program, mainSink, emailView, usersView, phoneView)
				l.put("a", 1, `{"email": "a@x.org"}`)
				l.put("b", 1, `{"email": "b@x.org"}`)
				l.must("run", "--until-caught-up")
				l.exec("DELETE FROM cell WHERE row_key = 0x"+keyText("a"), "FLUSH BINARY LOGS")
				l.put("c", 1, `{"email": "c@x.org"}`)
				l.exec("FLUSH BINARY LOGS")
				l.purge()
				check, plan := l.run("check"), l.must("plan")
				if onLost == "stop" {
					if check.code != 1 || strings.Count(check.out, "oldest file left") != 3 || strings.Count(plan, " refused ") != 3 {
						t.Errorf("a run would stop, but check says\n%s\nand plan\n%s", check.out, plan)
					}
				} else if check.code != 0 || strings.Count(plan, "  fill  ") != 3 {
					t.Errorf("a run would fill the views, but check says\n%s\nand plan\n%s", check.out, plan)
				}
				p := l.running()
				if onLost == "stop" {
					l.failsWith("users", "binlog.000001", "binlog_expire_logs_seconds")
					l.expect(emails, "a@x.org a", "b@x.org b")
					l.remedied("users")
				}
				l.reaches("users", "running")
				l.caughtUp()
				l.expect(emails, "b@x.org b", "c@x.org c") // rows that were deleted in the meantime are gone, too
				p.stop()
			})
		})
	}
}

// With gtid_mode = ON, a server doesn't send transactions that were written without GTIDs.
func TestGTIDsThatWereTurnedOnStopOrRebuild(t *testing.T) {
	t.Parallel()
	for name, onLost := range map[string]string{"stop": "stop", "stop, remedied": "stop", "rebuild": "rebuild"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, servertest.Own(t, servers.MySQL))
			l.configure(source, "on_lost = \""+onLost+"\"\n", program, mainSink, emailView, usersView, phoneView)
			mode := func(all ...string) {
				for _, m := range all {
					l.exec("SET GLOBAL gtid_mode = " + m)
				}
			}
			mode("ON_PERMISSIVE", "OFF_PERMISSIVE", "OFF")
			l.put("a", 1, `{"email": "a@x.org"}`)
			l.must("run", "--until-caught-up")
			l.put("b", 1, `{"email": "b@x.org"}`)
			mode("OFF_PERMISSIVE", "ON_PERMISSIVE", "ON")
			l.put("c", 1, `{"email": "c@x.org"}`)
			if onLost == "stop" {
				p := l.running()
				l.failsWith("users", "ON_PERMISSIVE", "replicator rebuild")
				if name != onLost {
					l.remedied("users")
					l.allRun()
				}
				p.stop()
				mode("ON_PERMISSIVE")
			}
			if name != onLost {
				l.expect(emails, "a@x.org a", "b@x.org b", "c@x.org c")
			}
			l.must("run", "--until-caught-up")
			l.expect(emails, "a@x.org a", "b@x.org b", "c@x.org c")
		})
	}
}

// Another server has the same address. With GTIDs, the program follows it if it has everything that was applied.
// Otherwise the program reads nothing from it.
func TestAReplacedServer(t *testing.T) {
	t.Parallel()
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		l := newLab(t, servertest.Own(t, kind))
		sink := servertest.Shared(t, kind)
		l.sinkOn(sink)
		l.put("a", 1, `{"email": "a@x.org"}`)
		l.must("run", "--until-caught-up")
		other := servertest.Own(t, kind)
		l.account(other, l.user, "SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.*")
		execAll(t, l.connect(other, ""), "CREATE DATABASE "+l.database)
		execAll(t, l.connect(other, l.database), cellTable)
		l.env["DSN"] = l.dsn(other.Addr(), l.database)
		l.running()
		// The reason is either the other server or its table's other collation, whichever the program notices first.
		l.failsWith("users", "replicator rebuild")
		if got := rowsOf(t, l.connect(sink, l.database), "SELECT email FROM users"); len(got) != 1 || got[0] != "a@x.org" {
			t.Errorf("the view holds %v", got)
		}
	})
}

func TestAReplacedServerWithoutGTIDs(t *testing.T) {
	t.Parallel()
	off := servers.GTIDs(servers.MySQL, false)
	first := servertest.Own(t, servers.MySQL, off...)
	l := newLab(t, first)
	if r := l.run("check"); !strings.Contains(r.out, "warn  gtid_mode") {
		t.Errorf("check: %s", r.out)
	}
	l.sinkOn(servertest.MySQL(t))
	l.put("a", 1, `{"email": "a@x.org"}`)
	l.must("run", "--until-caught-up")
	// copied restarts the server as a restored backup: with the same files but another server_uuid.
	copied := func() {
		if err := first.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(first.Dir + "/data/auto.cnf"); err != nil {
			t.Fatal(err)
		}
		if err := first.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	copied()
	p := l.running()
	l.remedied("users", "no GTIDs prove", "checkpoint set")
	l.allRun()
	p.stop()
	copied()
	p = l.running()
	l.failsWith("users", "no GTIDs prove")
	p.stop()
	l.must("checkpoint", "set", "--pos", l.position(), "--yes")
	l.put("b", 1, `{"email": "b@x.org"}`)
	l.must("run", "--until-caught-up")
	if got := rowsOf(t, l.connect(servertest.MySQL(t), l.database),
		"SELECT email FROM users ORDER BY 1"); strings.Join(got, " ") != "a@x.org b@x.org" {
		t.Errorf("the view holds %v", got)
	}
}

func TestTheSourceComesBackInTheMiddle(t *testing.T) {
	t.Parallel()
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		s := servertest.Own(t, kind)
		l := newLab(t, s)
		p := l.running()
		for round := range 2 {
			for i := range 20 {
				l.put("a", int64(round*100+i), fmt.Sprintf(`{"email": "%d.%d@x.org"}`, round, i))
			}
			if err := s.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := s.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		l.put("b", 1, `{"email": "b@x.org"}`)
		l.caughtUp()
		l.expect(emails, "1.19@x.org a", "b@x.org b")
		p.stop()
	})
}
