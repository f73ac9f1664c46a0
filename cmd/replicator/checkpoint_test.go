package main

import (
	"path/filepath"
	"strings"
	"testing"

	"replicator/internal/servers/servertest"
)

// saved is one line of `checkpoint show --json`.
type saved struct{ View, Source, State, Position, GTID string }

func (l *lab) saved(views ...string) []saved {
	l.t.Helper()
	return jsonLines[saved](l.t, l.must(append([]string{"checkpoint", "show", "--json"}, views...)...))
}

func TestCheckpointsAreShownSetAndReset(t *testing.T) {
	t.Parallel()
	l := newLab(t, servertest.MySQL(t))
	if got := l.saved(); len(got) != 0 {
		t.Errorf("before anything ran: %+v", got)
	}
	l.put("a", 1, `{"email": "a@x.org"}`)
	l.must("run", "--until-caught-up")
	before := l.saved()
	if len(before) != 3 || before[0].State != "filled" ||
		!strings.HasPrefix(before[0].Position, "binlog.0") || before[0].GTID == "" {
		t.Errorf("checkpoint show: %+v", before)
	}
	if text := l.must("checkpoint", "show", "users"); !strings.Contains(text, "VIEW") ||
		!strings.Contains(text, before[0].Position) || strings.Contains(text, "index_") {
		t.Errorf("checkpoint show users:\n%s", text)
	}

	// Setting the position past a change skips the change.
	l.put("b", 1, `{"email": "b@x.org"}`)
	l.must("checkpoint", "set", "--pos", l.position(), "--yes")
	l.must("run", "--until-caught-up")
	l.expect(emails, "a@x.org a")
	// Setting it back reads the change. Repeating earlier changes does no harm.
	l.must("checkpoint", "set", "--pos", before[0].Position, "--yes")
	l.must("run", "--until-caught-up")
	l.expect(emails, "a@x.org a", "b@x.org b")
	l.put("c", 1, `{"email": "c@x.org"}`)
	l.must("checkpoint", "set", "--pos", l.position(), "--yes")
	if r := l.run("checkpoint", "set", "--pos", "binlog.777777:4", "--yes"); r.code != 1 ||
		!strings.Contains(r.errors, "777777") {
		t.Errorf("set to a file that is not there: %+v", r)
	}
	if r := l.run("checkpoint", "set", "--pos", "nowhere", "--yes"); r.code == 0 {
		t.Errorf("set to no place: %+v", r)
	}

	// Resetting one view fills only that view. Resetting all fills all.
	l.exec("DELETE FROM index_users_email")
	l.must("checkpoint", "reset", "index_users_email", "--yes")
	if got := l.saved(); len(got) != 2 {
		t.Errorf("after a reset of one view: %+v", got)
	}
	l.must("run", "--until-caught-up")
	l.expect(emails, "a@x.org a", "b@x.org b", "c@x.org c")
	l.expect("SELECT COUNT(*) FROM users", "2")
	l.must("checkpoint", "reset", "--yes")
	l.must("run", "--until-caught-up")
	l.expect("SELECT COUNT(*) FROM users", "3")
}

func TestTheMySQLStoreKeepsCheckpointsAndDeadLetters(t *testing.T) {
	t.Parallel()
	l := newLab(t, servertest.MySQL(t))
	l.configure(strings.Replace(cellViews, `path = "state"`, "store = \"mysql\"\ndsn = \"${DSN}\"", 1))
	if got := l.saved(); len(got) != 0 || l.status("users").State != "stopped" {
		t.Errorf("before anything ran: %+v", got)
	}
	l.put("a", 1, `{"email": "a@x.org", "phone": 4155550100}`)
	p := l.running()
	l.caughtUp()
	if got := l.letters(); len(got) != 2 {
		t.Errorf("dead letters: %+v", got)
	}
	p.kill()
	l.put("a", 2, `{"email": "b@x.org"}`)
	l.must("run", "--until-caught-up")
	if got := l.letters(); len(got) != 0 {
		t.Errorf("dead letters remain: %+v", got)
	}
	l.expect(emails, "b@x.org a")
	if got := l.saved(); len(got) != 3 {
		t.Errorf("checkpoints: %+v", got)
	}
	l.must("checkpoint", "reset", "--yes")
	l.must("run", "--until-caught-up")
}

// A rebuild in place continues from the same log position, which may be within a transaction. A reset must still work
// there.
func TestACheckpointWithinATransactionIsReset(t *testing.T) {
	t.Parallel()
	l := newLab(t, servertest.MySQL(t))
	l.configure(source, program, mainSink, usersView)
	l.must("run", "--until-caught-up")
	file, _, _ := strings.Cut(l.position(), ":")
	l.must("checkpoint", "set", "--pos", file+":5", "--yes")
	r := l.run("run", "--until-caught-up")
	remedy := "`replicator checkpoint reset users -c " + filepath.Join(l.dir, "replicator.toml") + "`"
	if r.code != 1 || !strings.Contains(r.errors, file+":5 is not between two transactions") ||
		!strings.Contains(r.errors, remedy) {
		t.Fatalf("run: %+v, want %s", r, remedy)
	}
	l.must("checkpoint", "reset", "users", "--yes")
	l.must("run", "--until-caught-up")
	l.must("verify", "users")
}
