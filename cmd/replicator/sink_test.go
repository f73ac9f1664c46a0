package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

const otherSink = `
[sinks.other]
type = "mysql"
dsn = "${OTHER}"

[views.other_email]
from = "cell.users"
sink = "other"
kind = "index"
table = "index_users_email"
fields = ["email"]
`

// sinkEmails returns the emails in a sink's server.
func (l *lab) sinkEmails(s *servers.Server) []string {
	l.t.Helper()
	return rowsOf(l.t, l.connect(s, l.database), "SELECT email FROM index_users_email ORDER BY 1")
}

func TestASinkThatIsDownDelaysNoOtherAndLosesNothing(t *testing.T) {
	t.Parallel()
	down := servertest.Own(t, servers.MySQL)
	l := newLab(t, servertest.MySQL(t))
	l.sinkOn(down)
	l.env["OTHER"] = l.env["DSN"]
	l.configure(cellViews[:strings.Index(cellViews, mainSink)], strings.ReplaceAll(mainSink, "${DSN}", "${SINK}"),
		emailView, usersView, phoneView, otherSink)
	p := l.running()
	l.put("a", 1, `{"email": "a@x.org"}`)
	l.caughtUp()
	if err := down.Kill(); err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		l.put("b", int64(i), fmt.Sprintf(`{"email": "b%d@x.org"}`, i))
	}
	l.exec("DELETE FROM cell WHERE row_key = 0x" + keyText("a"))
	l.caughtUp("other_email") // the other sink's view is still kept up
	l.expect(emails, "b29@x.org b")
	if st := l.reaches("users", "retrying"); st.Error == "" {
		t.Error("retrying, and no word why")
	}
	if st := l.status("other_email"); st.State != "running" {
		t.Errorf("the other sink's view is %s", st.State)
	}
	if code, text := l.get("/readyz"); code != 503 || !strings.Contains(text, "users") ||
		strings.Contains(text, "other_email") {
		t.Errorf("/readyz: %d %s", code, text)
	}
	if err := down.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.caughtUp()
	if got := l.sinkEmails(down); !slices.Equal(got, []string{"b29@x.org"}) {
		t.Errorf("the sink that was down holds %v", got)
	}
	p.stop()
}

// The program notices that a sink lost data. If the sink came back as a backup, the program applies the missing changes
// again. If the data is gone, the view stops or is filled again.
func TestASinkThatLostWhatWasApplied(t *testing.T) {
	t.Parallel()
	sink := servertest.MySQL(t)
	for _, onLost := range []string{"stop", "rebuild"} {
		t.Run("dropped, "+onLost, func(t *testing.T) {
			l := newLab(t, servertest.MySQL(t))
			l.sinkOn2(sink, "on_lost = \""+onLost+"\"\n")
			l.put("a", 1, `{"email": "a@x.org"}`)
			p := l.running()
			l.caughtUp()
			root := l.connect(sink, "")
			execAll(t, root, "DROP DATABASE "+l.database+"_s", "CREATE DATABASE "+l.database+"_s")
			execAll(t, l.connect(sink, l.database+"_s"), usersTable, emailTable, phoneTable)
			l.put("b", 1, `{"email": "b@x.org"}`)
			if onLost == "stop" {
				l.remedied("users", "sink main")
			}
			l.reaches("users", "running")
			l.caughtUp()
			if got := rowsOf(t, l.connect(sink, l.database+"_s"), "SELECT email FROM users ORDER BY 1"); !slices.Equal(got,
				[]string{"a@x.org", "b@x.org"}) {
				t.Errorf("the sink holds %v", got)
			}
			p.stop()
		})
	}
	t.Run("restored", func(t *testing.T) {
		l := newLab(t, servertest.MySQL(t))
		l.sinkOn2(sink, "")
		db := l.connect(sink, l.database+"_s")
		l.put("a", 1, `{"email": "a@x.org"}`)
		l.must("run", "--until-caught-up")
		var tables []string
		for _, name := range rowsOf(t, db, "SHOW TABLES") {
			tables = append(tables, name)
			execAll(t, db, "CREATE TABLE backup_"+name+" LIKE "+name, "INSERT INTO backup_"+name+" SELECT * FROM "+name)
		}
		l.put("a", 2, `{"email": "b@x.org"}`)
		l.put("b", 1, `{"email": "c@x.org"}`)
		p := l.running()
		l.caughtUp()
		p.stop()
		for _, name := range tables {
			execAll(t, db, "DELETE FROM "+name, "INSERT INTO "+name+" SELECT * FROM backup_"+name)
		}
		p = l.running()
		l.caughtUp()
		if got := rowsOf(t, db, "SELECT email FROM users ORDER BY 1"); !slices.Equal(got, []string{"b@x.org", "c@x.org"}) {
			t.Errorf("the sink holds %v", got)
		}
		p.stop()
	})
}

// sinkOn2 moves the sink to a new database on a shared server. more is added to [source].
func (l *lab) sinkOn2(s *servers.Server, more string) {
	l.t.Helper()
	database, user := l.database+"_s", l.database+"_w"
	root := l.connect(s, "")
	execAll(l.t, root, "CREATE DATABASE "+database)
	l.t.Cleanup(func() { _, _ = l.connect(s, "").Exec("DROP DATABASE IF EXISTS " + database) })
	execAll(l.t, l.connect(s, database), usersTable, emailTable, phoneTable)
	l.account(s, user, "ALL ON "+database+".*")
	l.env["SINK"] = strings.Replace(l.dsn(s.Addr(), database), l.user+":", user+":", 1)
	l.configure(source, more, program, strings.ReplaceAll(mainSink, "${DSN}", "${SINK}"), emailView, usersView, phoneView)
}

func TestRightsAndTablesThatTheSinkLacks(t *testing.T) {
	t.Parallel()
	s := servertest.MySQL(t)
	l := newLab(t, servertest.MySQL(t))
	l.sinkOn2(s, "")
	writer := l.database + "_w@'%'"
	root := l.connect(s, "")
	execAll(t, root, "REVOKE ALL PRIVILEGES ON "+l.database+"_s.* FROM "+writer,
		"GRANT SELECT ON "+l.database+"_s.* TO "+writer)
	if r := l.run("check"); r.code != 1 || !strings.Contains(r.out, "GRANT CREATE") {
		t.Errorf("check: exit status %d\n%s", r.code, r.out)
	}
	l.put("a", 1, `{"email": "a@x.org"}`)
	p := l.running()
	l.failsWith("users", "sink main", "denied")
	p.stop()
	execAll(t, root, "GRANT ALL ON "+l.database+"_s.* TO "+writer)
	db := l.connect(s, l.database+"_s")
	execAll(t, db, "ALTER TABLE users DROP COLUMN phone")
	if r := l.run("check"); r.code != 1 || !strings.Contains(r.out, "fail  view users") ||
		!strings.Contains(r.out, "phone") {
		t.Errorf("check: exit status %d\n%s", r.code, r.out)
	}
	p = l.running()
	l.failsWith("users", "users", "phone")
	p.stop()
	execAll(t, db, "ALTER TABLE users ADD COLUMN phone INT, ADD COLUMN needed INT NOT NULL")
	if r := l.run("check"); r.code != 1 || !strings.Contains(r.out, "needed") {
		t.Errorf("check of a table with a column that nobody fills: exit status %d\n%s", r.code, r.out)
	}
	execAll(t, db, "ALTER TABLE users DROP COLUMN needed")
	l.must("check")
	l.must("run", "--until-caught-up")
}

// A link is cut without a FIN or an RST. The program notices the silence and reads over a new connection.
func TestALinkThatIsCutWithoutAWord(t *testing.T) {
	t.Parallel()
	s := servertest.MySQL(t)
	l := newLab(t, s)
	link := servertest.NewLink(t, s.Addr())
	l.env["SINK"] = l.env["DSN"]
	l.env["DSN"] = l.dsn(link.Address(), l.database) + "?readTimeout=2s"
	l.configure(source, program, strings.ReplaceAll(mainSink, "${DSN}", "${SINK}"), emailView, usersView, phoneView)
	l.put("a", 1, `{"email": "a@x.org"}`)
	p := l.running()
	l.caughtUp()
	link.Cut()
	l.put("b", 1, `{"email": "b@x.org"}`)
	l.caughtUp()
	l.expect(emails, "a@x.org a", "b@x.org b")
	p.stop()
}
