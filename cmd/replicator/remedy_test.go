package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"replicator/internal/servers/servertest"
)

// The status of a failed view names a command. The test runs the command without changes, in another directory while
// the program runs. The view must then match the source.
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
			l.dir = filepath.Join(l.dir, "it's here") // a shell needs quotes for this name
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

// remedied runs the first command that a failed view's status names. The status must contain all these texts.
func (l *lab) remedied(view string, says ...string) {
	l.t.Helper()
	l.typed(l.named(view, says...))
}

// named returns the first command that a failed view's status names, except commands that need a position.
func (l *lab) named(view string, says ...string) string {
	l.t.Helper()
	st := l.failsWith(view, says...)
	for _, named := range regexp.MustCompile("`(replicator [^`]*)`").FindAllStringSubmatch(st.Error, -1) {
		if !strings.Contains(named[1], "FILE:POS") {
			return named[1]
		}
	}
	l.t.Fatalf("no command is named in %s", st.Error)
	return ""
}

// typed runs a command in another directory.
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
