package main

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

func TestASecondProcessOnTheSameStateIsRefused(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"file", "mysql"} {
		t.Run(store, func(t *testing.T) {
			l := newLab(t, servertest.MySQL(t))
			says := "" // the holder in the message: the process, or its connection to the store's server
			if store == "mysql" {
				says = "another replicator uses these checkpoints (connection"
				l.configure(strings.Replace(cellViews, `path = "state"`, "store = \"mysql\"\ndsn = \"${DSN}\"", 1))
			}
			l.put("a", 1, `{"email": "a@x.org"}`)
			p := l.running()
			if store == "file" {
				says = strconv.Itoa(p.Pid())
			}
			l.caughtUp()
			l.env["LISTEN"] = servertest.FreeAddress(t)
			r := l.run("run", "--until-caught-up")
			if r.code != 1 || !strings.Contains(r.errors, says) {
				t.Errorf("a second one: exit status %d, want 1 and %q:\n%s", r.code, says, r.errors)
			}
			for _, args := range [][]string{{"checkpoint", "reset", "--yes"},
				{"checkpoint", "set", "--yes", "--pos", l.position()}} {
				if r := l.run(args...); r.code != 1 || !strings.Contains(r.errors, says) {
					t.Errorf("%v beside a running program: %+v", args, r)
				}
			}
			l.env["LISTEN"] = l.listen
			p.stop()
			l.must("run", "--until-caught-up")
		})
	}
}

func TestASecondProcessWithAStateOfItsOwnDoesNoHarm(t *testing.T) {
	t.Parallel()
	l := newLab(t, servertest.MySQL(t))
	l.put("a", 1, `{"email": "a@x.org"}`)
	l.running()
	second := *l
	second.dir, second.listen = t.TempDir(), servertest.FreeAddress(t)
	second.env = map[string]string{"DSN": l.env["DSN"], "LISTEN": second.listen}
	second.configure(cellViews)
	second.running()
	for i := range 50 {
		l.put("b", int64(i), fmt.Sprintf(`{"email": "b%d@x.org"}`, i))
		if i%5 == 4 {
			l.exec("DELETE FROM cell WHERE column_name = 'users' AND ref_key = " + strconv.Itoa(i) +
				" AND row_key = 0x" + keyText("b"))
		}
	}
	l.caughtUp()
	second.caughtUp()
	l.expect(emails, "a@x.org a", "b48@x.org b")
}

func TestTheSecondSignalStopsAtOnce(t *testing.T) {
	sink := servertest.Own(t, servers.MySQL)
	l := newLab(t, servertest.MySQL(t))
	l.sinkOn(sink)
	p := l.running()
	l.caughtUp()
	if err := sink.Suspend(); err != nil { // so that the changes in flight can't be applied
		t.Fatal(err)
	}
	l.put("a", 1, `{"email": "a@x.org"}`)
	eventually(t, func() error {
		s := l.status("users")
		return as(s.LagSeconds != nil && *s.LagSeconds > 0, "the change is on its way")
	})
	p.signal(syscall.SIGTERM)
	eventually(t, func() error {
		code, text := l.answer("/readyz")
		return as(code == 503 && strings.Contains(text, "stopping"), "not ready: "+text)
	})
	eventually(t, func() error { // the log arrives with a delay
		return as(strings.Contains(p.Log(), "A second signal ends the program"), "the log says that it stops: "+p.Log())
	})
	eventually(t, func() error { // the process may not have handled the first signal yet
		p.signal(syscall.SIGTERM)
		return as(p.Ended(), "the program has ended")
	})
	if code := p.wait(); code != -1 {
		t.Errorf("exit status %d, want the signal's", code)
	}
	if err := sink.Resume(); err != nil {
		t.Fatal(err)
	}
	l.must("run", "--until-caught-up")
	if got := rowsOf(t, l.connect(sink, l.database), "SELECT email FROM users"); len(got) != 1 {
		t.Errorf("users in the sink: %v", got)
	}
}

func TestAKilledProgramGoesOnFromItsCheckpoint(t *testing.T) {
	t.Parallel()
	l := newLab(t, servertest.MySQL(t))
	for round := range 3 {
		p := l.running()
		for i := range 40 {
			l.put(string(rune('a'+i%5)), int64(100*round+i), fmt.Sprintf(`{"email": "%d.%d@x.org"}`, round, i))
		}
		p.kill()
	}
	l.must("run", "--until-caught-up")
	l.expect(emails, "2.35@x.org a", "2.36@x.org b", "2.37@x.org c", "2.38@x.org d", "2.39@x.org e")
}

// sinkOn moves the sink to another server, with the same tables and account.
func (l *lab) sinkOn(s *servers.Server) {
	l.t.Helper()
	execAll(l.t, l.connect(s, ""), "CREATE DATABASE "+l.database)
	execAll(l.t, l.connect(s, l.database), usersTable, emailTable, phoneTable)
	l.account(s, l.user, "ALL ON "+l.database+".*")
	l.env["SINK"] = l.dsn(s.Addr(), l.database)
	l.configure(source, program, strings.ReplaceAll(mainSink, "${DSN}", "${SINK}"), emailView, usersView, phoneView)
}
