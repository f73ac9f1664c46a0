package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"replicator/internal/servers/servertest"
)

// A remedy that a failed view names is typed as it stands, in another folder, while the program runs: the view is then
// what the source says.
func TestARemedyCanBeTypedAsItStands(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		config string
		hurt   func(l *lab)
		says   string
	}{
		{"TRUNCATE", "on_unlogged = \"stop\"\n", func(l *lab) { l.exec("TRUNCATE cell") }, "truncated"},
		{"a statement logged as text", "on_unlogged = \"stop\"\n", func(l *lab) {
			l.session("SET SESSION binlog_format = 'STATEMENT'", "UPDATE cell SET body = '{\"email\": \"s@x.org\"}'")
		}, "binlog_format"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, servertest.MySQL(t))
			l.dir = filepath.Join(l.dir, "it's here") // to be quoted in a shell
			if err := os.Mkdir(l.dir, 0o700); err != nil {
				t.Fatal(err)
			}
			l.configure(source, c.config, program, mainSink, emailView, usersView, phoneView)
			l.put("a", 1, `{"email": "a@x.org", "username": "ada"}`)
			l.running()
			l.caughtUp()
			c.hurt(l)
			l.put("c", 1, `{"email": "c@x.org"}`)
			l.remedied("users", c.says)
			l.allRun()
			l.put("b", 1, `{"email": "b@x.org"}`)
			l.caughtUp()
			l.must("verify")
		})
	}
}

// remedied types the first command that a failed view's status names, which says all that is wanted.
func (l *lab) remedied(view string, says ...string) {
	l.t.Helper()
	l.typed(l.named(view, says...))
}

// named is the first command that a failed view's status names.
func (l *lab) named(view string, says ...string) string {
	l.t.Helper()
	st := l.failsWith(view, says...)
	named := regexp.MustCompile("`(replicator [^`]*)`").FindStringSubmatch(st.Error)
	if named == nil {
		l.t.Fatalf("no command is named in %s", st.Error)
	}
	return named[1]
}

// typed types a command in another folder.
func (l *lab) typed(command string) {
	l.t.Helper()
	shell := exec.CommandContext(l.t.Context(), "sh", "-c", command)
	shell.Dir = l.t.TempDir()
	shell.Env = append(os.Environ(), "PATH="+filepath.Dir(built)+":"+os.Getenv("PATH"))
	for name, value := range l.env {
		shell.Env = append(shell.Env, name+"="+value)
	}
	if out, err := shell.CombinedOutput(); err != nil {
		l.t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

// allRun waits until every view runs.
func (l *lab) allRun() {
	l.t.Helper()
	eventually(l.t, func() error {
		var all []string
		for _, s := range jsonLines[viewStatus](l.t, l.must("status", "--json")) {
			all = append(all, s.State)
		}
		return as(!slices.ContainsFunc(all, func(s string) bool { return s != "running" }), fmt.Sprint(all))
	})
}
