package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// The source is restored from an older state while the program is down. The program was killed after it had applied
// changes that the source no longer has. It must notice this from the checkpoint, which is saved before the first
// change of a binlog file is applied. If the state directory is restored, too, it must notice from the sink's mark.
func TestASourceThatWasSetBackWhileTheProgramWasDownIsNoticed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		interval string
		state    bool // an older state directory comes back, too
	}{
		"killed before the first mark in a binlog file": {interval: "1h"},
		"with an older state directory":                 {interval: "100ms", state: true},
	} {
		kinds := []servers.Kind{servers.MySQL, servers.MariaDB1011}
		if c.state { // marks work in the same way on all servers
			kinds = kinds[:1]
		}
		for _, kind := range kinds {
			t.Run(fmt.Sprint(name, ", ", kind), func(t *testing.T) {
				t.Parallel()
				l := newAccounts(t, servertest.Own(t, kind))
				s, sink := l.server, servertest.Shared(t, kind)
				atSink := l.connect(sink, "")
				execAll(t, atSink, "CREATE DATABASE "+l.database)
				l.account(sink, l.user, "ALL ON "+l.database+".*")
				atSink = l.connect(sink, l.database)
				execAll(t, atSink, emailTable, "CREATE TABLE mails (id INT PRIMARY KEY, email VARCHAR(100))")
				l.env["SINK"] = l.dsn(sink.Addr(), l.database)
				views := strings.NewReplacer("${DSN}", "${SINK}", `"100ms"`, `"`+c.interval+`"`).Replace(accounts)
				l.configure(source, views)
				shows := func(want string) {
					t.Helper()
					eventually(t, func() error {
						got := strings.Join(rowsOf(t, atSink, mails), ", ")
						return as(got == want, "the view shows "+got)
					})
				}
				l.exec("INSERT INTO account VALUES (1, 'a@x.org')")
				p := l.running()
				l.caughtUp()
				p.stop()

				keep := func(dir string) (back func()) {
					t.Helper()
					kept := t.TempDir()
					must := func(err error) {
						t.Helper()
						if err != nil {
							t.Fatal(err)
						}
					}
					must(os.CopyFS(kept, os.DirFS(dir)))
					return func() {
						t.Helper()
						must(os.RemoveAll(dir))
						must(os.CopyFS(dir, os.DirFS(kept)))
					}
				}
				killed := func() {
					t.Helper()
					if err := s.Kill(); err != nil {
						t.Fatal(err)
					}
				}
				restarted := func() {
					t.Helper()
					if err := s.Restart(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				killed()
				older, state := keep(filepath.Join(s.Dir, "data")), keep(filepath.Join(l.dir, "state"))
				restarted()
				p = l.running()
				l.exec("INSERT INTO account VALUES (2, 'lost@x.org')")
				shows("1 a@x.org, 2 lost@x.org")
				if c.state {
					p.stop()
					state()
				}
				p.kill()
				second := l.rows("SELECT UNIX_TIMESTAMP()")[0]
				eventually(t, func() error { // two binlog files are distinguished by the second in which they began
					return as(l.rows("SELECT UNIX_TIMESTAMP()")[0] != second, "it is still the same second")
				})
				killed()
				older()
				restarted()
				l.exec("INSERT INTO account VALUES (3, 'c@x.org')")
				p = l.running()
				if r := l.run("wait", "--pos", l.position(), "mails"); r.code == 0 {
					t.Fatalf("the program went on; the view shows %v", rowsOf(t, atSink, mails))
				}
				l.failsWith("mails", "set back", "rebuild")
				p.stop()

				l.configure(strings.Replace(source, "[source]", "[source]\non_lost = \"rebuild\"", 1), views)
				p = l.running()
				shows("1 a@x.org, 3 c@x.org")
				l.caughtUp()
				l.must("verify")
				p.stop()
			})
		}
	}
}
