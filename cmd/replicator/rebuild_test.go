package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/server"
)

// slowly makes a rebuild take seconds, so that a test can act during the rebuild.
const slowly = "[rebuild]\nrate = 200\n"

// fillLab writes this many users and runs the program until the views include them.
func (l *lab) fillLab(users int) *process {
	l.t.Helper()
	l.session(fmt.Sprintf("INSERT INTO cell (row_key, column_name, ref_key, body) "+
		"SELECT UNHEX(LPAD(HEX(a.n * 40 + b.n), 32, '0')), 'users', 1, CONCAT('{\"username\": \"', a.n, '\", \"email\": \"', b.n, '@x.org\"}') "+
		"FROM (%s) AS a, (%s) AS b", numbers(users/40), numbers(40)))
	l.must("run", "--until-caught-up")
	return l.running()
}

func numbers(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("SELECT %d AS n", i))
	}
	return strings.Join(all, " UNION ALL ")
}

// rebuilding starts a rebuild of users and waits until part of it is done.
func (l *lab) rebuilding() *process {
	l.t.Helper()
	r := l.start("rebuild", "users", "-c", l.file())
	l.reaches("users", "rebuilding")
	return r
}

// rebuilt checks that the view users is right and that nothing remains of the rebuild.
func (l *lab) rebuilt(users int) {
	l.t.Helper()
	l.caughtUp()
	l.must("verify", "users", "index_users_email")
	l.expect("SELECT COUNT(*) FROM users", fmt.Sprint(users))
	l.expect("SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME LIKE '%\\_\\_%'")
}

func TestARebuildThatCanNotBeginSaysWhy(t *testing.T) {
	t.Parallel()
	l := newLab(t, servertest.MySQL(t))
	l.configure(cellViews, slowly)
	if r := l.run("rebuild", "user"); r.code != exitUsage || !strings.Contains(r.errors, `"user"`) ||
		!strings.Contains(r.errors, "replicator.toml") {
		t.Errorf("a view that is not there: %+v", r)
	}
	p := l.fillLab(800)
	c := server.Client{Address: l.listen}
	if err := c.Rebuild(t.Context(), "user", server.Rebuild{}); !errors.Is(err, server.ErrUnknown) ||
		!strings.Contains(err.Error(), `"user"`) {
		t.Errorf("a view that is not there, over HTTP: %v", err)
	}
	first := l.rebuilding()
	if r := l.run("rebuild", "--from", "1", "users"); r.code != exitFailed ||
		!strings.Contains(r.errors, "view users: it is being rebuilt already") {
		t.Errorf("another rebuild: %+v", r)
	}
	if r := l.run("rebuild", "users", "index_users_email"); r.code != exitDone { // it follows one and starts one
		t.Errorf("the same rebuild once more: %+v", r)
	}
	if code := first.wait(); code != 0 {
		t.Errorf("the first one: exit status %d\n%s", code, first.Log())
	}
	l.rebuilt(800)
	p.stop()
}

// A rebuild needs rights that keeping a view doesn't need. If they are missing, the error names them before the live
// view is touched. A rebuild in place, which doesn't need them, works.
func TestARebuildWithoutTheRightsForItNamesThem(t *testing.T) {
	t.Parallel()
	s := servertest.MySQL(t)
	for _, right := range []string{"CREATE", "DROP", "ALTER"} {
		t.Run(right, func(t *testing.T) {
			l := newLab(t, s)
			l.fillLab(40).stop()
			root := l.connect(s, "")
			execAll(t, root, fmt.Sprintf("REVOKE %s ON %s.* FROM %s@'%%'", right, l.database, l.user))
			p := l.running() // open connections may still have the right
			l.caughtUp()
			r := l.run("rebuild", "users")
			if r.code != exitFailed || !strings.Contains(r.errors, "view users") || !strings.Contains(r.errors, right) ||
				!strings.Contains(r.errors, "rebuild --in-place") {
				t.Errorf("exit status %d: %s", r.code, r.errors)
			}
			l.put("a", 1, `{"email": "a@x.org"}`)
			l.caughtUp() // the live view is still kept up
			l.exec("UPDATE users SET email = 'spoilt'")
			l.must("rebuild", "--in-place", "users")
			l.must("verify", "users", "index_users_email")
			if right != "DROP" {
				l.expect("SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name LIKE '%\\_\\_rebuild%'")
			}
			p.stop()
			execAll(t, root, regexp.MustCompile(`GRANT .*? TO '[^']*'@'[^']*'`).FindString(r.errors))
			p = l.running() // new connections have the rights
			l.must("rebuild", "users")
			if strings.Contains(p.Log(), `"level":"ERROR"`) {
				t.Errorf("a rebuild that succeeds logs an error:\n%s", p.Log())
			}
		})
	}
}

func TestARebuildOutlivesTheServersItNeeds(t *testing.T) {
	t.Parallel()
	for _, down := range []string{"sink", "source"} {
		t.Run(down, func(t *testing.T) {
			t.Parallel()
			sink, from := servertest.Own(t, servers.MySQL), servertest.Own(t, servers.MySQL)
			l := newLab(t, from)
			l.sinkOn(sink)
			l.configure(source, program, strings.ReplaceAll(mainSink, "${DSN}", "${SINK}"), emailView,
				usersView, phoneView, slowly)
			p := l.fillLab(800)
			at := l.connect(sink, l.database)
			execAll(t, at, "DELETE FROM users LIMIT 100")
			r := l.rebuilding()
			s := sink
			if down == "source" {
				s = from
			}
			if err := s.Kill(); err != nil {
				t.Fatal(err)
			}
			eventually(t, func() error {
				return as(strings.Contains(l.status("users").Error, down), "status says what is down")
			})
			if err := s.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			if code := r.wait(); code != 0 && !strings.Contains(r.Log(), down) {
				t.Errorf("rebuild: exit status %d\n%s", code, r.Log())
			}
			eventually(t, func() error {
				st := l.status("users")
				return as(st.State == "running", fmt.Sprintf("the view runs: %+v", st))
			})
			l.put("a", 2, `{"email": "a@x.org"}`)
			l.caughtUp()
			l.must("verify", "users", "index_users_email")
			p.stop()
		})
	}
}

// A scan continues after DDL that removes nothing that a view needs. Otherwise the rebuild's error names what is
// missing, and the live view stays as it is.
func TestDDLDuringARebuild(t *testing.T) {
	t.Parallel()
	l := newLab(t, servertest.MySQL(t))
	l.configure(cellViews, slowly)
	p := l.fillLab(800)
	l.exec("DELETE FROM users LIMIT 100")
	r := l.rebuilding()
	l.exec("ALTER TABLE cell ADD COLUMN note VARCHAR(20) NULL FIRST")
	l.put("a", 2, `{"username": "a", "email": "a@x.org"}`)
	if code := r.wait(); code != 0 {
		t.Errorf("with a column added: exit status %d\n%s", code, r.Log())
	}
	l.rebuilt(800)

	r = l.rebuilding()
	l.exec("ALTER TABLE cell CHANGE body content LONGBLOB")
	if code := r.wait(); code != exitFailed || !strings.Contains(r.Log(), "body") || !strings.Contains(r.Log(), "cell") {
		t.Errorf("without the body: exit status %d\n%s", code, r.Log())
	}
	l.expect("SELECT COUNT(*) FROM users", "800")
	l.exec("ALTER TABLE cell CHANGE content body LONGBLOB")
	p.kill()
}

// The disk is full while the shadow is filled. The rebuild waits for space and then continues.
func TestARebuildOnAFullDiskWaitsForRoom(t *testing.T) {
	t.Parallel()
	sink := servertest.Own(t, servers.MySQL, "--innodb-file-per-table=0",
		"--innodb-data-file-path=ibdata1:12M:autoextend:max:48M")
	l := newLab(t, servertest.MySQL(t))
	l.sinkOn(sink)
	p := l.fillLab(4000)
	at := l.connect(sink, l.database)
	execAll(t, at, "CREATE TABLE filler (id INT AUTO_INCREMENT PRIMARY KEY, text LONGBLOB)")
	for size := 1 << 20; size >= 1<<10; { // until the disk is full
		if _, err := at.ExecContext(t.Context(), "INSERT INTO filler (text) VALUES (REPEAT('x', ?))", size); err != nil {
			if size /= 4; !strings.Contains(err.Error(), "1114") {
				t.Fatal(err)
			}
		}
	}
	r := l.run("rebuild", "users")
	if r.code != exitFailed || !strings.Contains(r.errors, "view users") || !strings.Contains(r.errors, "1114") {
		t.Errorf("exit status %d: %s", r.code, r.errors)
	}
	if st := l.status("users"); st.State != "rebuilding" || !strings.Contains(st.Error, "full") {
		t.Errorf("status: %+v", st)
	}
	execAll(t, at, "DROP TABLE filler")
	l.reaches("users", "running")
	l.caughtUp()
	l.must("verify", "users", "index_users_email")
	p.stop()
}

// The program is killed at the two points where a swap is half done: after it wrote the intent, and after it renamed
// the tables. The next start completes the swap.
func TestASwapThatWasCutShortIsCompleted(t *testing.T) {
	t.Parallel()
	for _, renamed := range []bool{false, true} {
		t.Run(fmt.Sprintf("renamed=%t", renamed), func(t *testing.T) {
			l := newLab(t, servertest.MySQL(t))
			p := l.fillLab(40)
			l.exec("UPDATE users SET email = 'spoilt'")
			reader := l.holding("SELECT COUNT(*) FROM users") // RENAME waits for this reader's lock
			l.start("rebuild", "users", "-c", l.file())
			eventually(t, func() error {
				begun := l.rows("SELECT COUNT(*) FROM replicator_views WHERE phase = 'swapping'")
				return as(begun[0] == "1", "the swap has begun")
			})
			if renamed {
				names := l.holding("SELECT * FROM replicator_views FOR UPDATE") // the end of the swap waits for this
				reader()
				eventually(t, func() error {
					return as(len(l.rows("SHOW TABLES LIKE 'users\\_\\_replaced'")) == 1, "the tables are renamed")
				})
				p.kill()
				names()
			} else {
				p.kill()
				reader()
			}
			p = l.running()
			l.put("a", 2, `{"email": "a@x.org"}`)
			l.rebuilt(41)
			l.expect("SELECT COUNT(*) FROM users WHERE email = 'spoilt'", "0")
			p.stop()
		})
	}
}

// holding runs a statement in a transaction and keeps its locks until the returned function is called.
func (l *lab) holding(statement string) (release func()) {
	l.t.Helper()
	db := l.connect(l.server, l.database)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		l.t.Fatal(err)
	}
	rows, err := tx.QueryContext(ctx, statement)
	if err != nil {
		l.t.Fatal(err)
	}
	for rows.Next() {
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		l.t.Fatal(err)
	}
	return func() {
		l.t.Helper()
		err := tx.Rollback()
		cancel()
		if err != nil {
			l.t.Error(err)
		}
	}
}

// Without a running process, the command rebuilds the view itself. It opens no other sink.
func TestARebuildByItselfNeedsNoOtherSink(t *testing.T) {
	t.Parallel()
	l := newLab(t, servertest.MySQL(t))
	l.put("a", 1, `{"username": "a", "email": "a@x.org"}`)
	l.configure(cellViews, `
[sinks.away]
type = "redis"
url = "redis://127.0.0.1:1/0"

[views.user_away]
from = "cell.users"
sink = "away"
kind = "json"
key = "user:{row_key}"
fields = ["username"]
`)
	l.must("rebuild", "users")
	l.expect("SELECT username FROM users", "a")
	if r := l.run("rebuild", "user_away"); r.code != exitFailed ||
		!strings.Contains(r.errors, "view user_away: sink away") {
		t.Errorf("of the sink that is away: exit status %d\n%s", r.code, r.errors)
	}
}

// If a rebuild of the view is already running, another rebuild command follows it. This holds even if the running one
// is itself a command.
func TestARebuildThatIsAskedForAgainFollowsTheOneThatRuns(t *testing.T) {
	t.Parallel()
	l := newLab(t, servertest.MySQL(t))
	for i := range 60 {
		l.put(string(rune('A'+i)), 1, fmt.Sprintf(`{"email": "%d@x.org"}`, i))
	}
	l.must("run", "--until-caught-up")
	l.configure(cellViews, "[rebuild]\nrate = 60\n")
	first := l.start("rebuild", "index_users_email", "-c", l.file())
	again := l.start("rebuild", "index_users_email", "-c", l.file())
	l.reaches("index_users_email", "rebuilding")                                   // either command may run the rebuild
	other := l.start("rebuild", "index_users_email", "--in-place", "-c", l.file()) // the result is the same
	third := l.run("rebuild", "index_users_email")
	if code := first.wait(); code != 0 || again.wait() != 0 || third.code != 0 || other.wait() != 0 {
		t.Errorf("exit status %d, %d and %d:\n%s%s%s", code, again.wait(), third.code, first.Log(), again.Log(), third.errors)
	}
	if n := len(l.rows("SHOW TABLES LIKE 'index_users_email%'")); n != 1 {
		t.Errorf("%d tables", n)
	}
	for _, c := range []*process{first, again, other} {
		if !strings.Contains(c.Log(), "rebuilt: index_users_email") {
			t.Errorf("it did not follow to the end:\n%s", c.Log())
		}
	}
}

// A view that is removed from the file during its rebuild is not rebuilt. The command must fail, even if it only
// followed a rebuild.
func TestARebuildOfAViewThatTheFileLosesFails(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(l *lab, p *process) *process{
		"SIGHUP": func(_ *lab, p *process) *process {
			p.signal(syscall.SIGHUP)
			return p
		},
		"restart": func(l *lab, p *process) *process {
			p.stop()
			return l.running()
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, servertest.MySQL(t))
			for i := range 60 {
				l.put(string(rune('A'+i)), 1, fmt.Sprintf(`{"username": "%[1]d", "email": "%[1]d@x.org"}`, i))
			}
			slow := "[rebuild]\nrate = 10\n"
			l.configure(cellViews)
			l.must("run", "--until-caught-up")
			l.configure(cellViews, slow)
			p := l.running()
			followed := l.start("rebuild", "index_users_email", "-c", l.file())
			l.reaches("index_users_email", "rebuilding")
			l.configure(source, program, mainSink, phoneView, slow)
			p = lose(l, p)
			if code := followed.wait(); code != exitFailed || strings.HasPrefix(followed.Log(), "rebuilt") ||
				strings.Contains(followed.Log(), "\nrebuilt") {
				t.Errorf("exit status %d:\n%s", code, followed.Log())
			}
			if name == "SIGHUP" && !strings.Contains(followed.Log(), "not rebuilt: index_users_email. ") {
				t.Errorf("it does not say why:\n%s", followed.Log())
			}
			p.stop()
		})
	}
}

// The running process has refused a changed definition. A rebuild by this process would use the old definition, which
// the next start would refuse again. So the command must fail.
func TestAViewIsRebuiltAsTheFileDefinesItOrNotAtAll(t *testing.T) {
	t.Parallel()
	l := newLab(t, servertest.MySQL(t))
	l.put("a", 1, `{"username": "a", "email": "a@x.org"}`)
	l.configure(cellViews)
	p := l.running()
	l.caughtUp()
	l.configure(strings.Replace(cellViews, "\n[views.users]\n", "\n[views.users]\nwhere = \"email == ''\"\n", 1))
	if r := l.run("rebuild", "users"); r.code != exitFailed ||
		!strings.Contains(r.errors, `different definition of view "users" than the configuration file`) {
		t.Errorf("exit status %d\n%s", r.code, r.errors)
	}
	l.must("rebuild", "index_users_email") // this view's definition didn't change
	p.stop()
	l.must("rebuild", "users")
	l.expect("SELECT username FROM users")
}

// If the source is idle, a repair and a rebuild have the same log position. The rebuild must still correct later
// changes in the sink.
func TestARebuildInPlaceMendsWhatWasChangedSinceARepair(t *testing.T) {
	t.Parallel()
	l := newBareLab(t, servertest.Own(t, servers.MySQL))
	redis, rdb := ownRedis(t)
	l.env["REDIS"] = "redis://" + redis.Addr() + "/0"
	l.exec(cellTable)
	l.put("a", 1, `{"username": "a"}`)
	l.configure(source, program, redisSink+`
[views.user]
from = "cell.users"
sink = "cache"
kind = "hash"
key = "user:{row_key}"
fields = ["username"]
`)
	p := l.running()
	l.caughtUp()
	for _, mend := range [][]string{{"verify", "--repair"}, {"rebuild", "user"}, {"verify", "--repair"},
		{"rebuild", "user"}, {"rebuild", "user"}} {
		if n, err := rdb.Del(t.Context(), "user:"+keyText("a")).Result(); err != nil || n != 1 {
			t.Fatal(n, err)
		}
		l.must(mend...)
		if got, err := rdb.HGet(t.Context(), "user:"+keyText("a"), "username").Result(); err != nil || got != "a" {
			t.Fatalf("after %v it is %q (%v)", mend, got, err)
		}
	}
	p.stop()
}
