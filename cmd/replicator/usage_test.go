package main

import (
	"slices"
	"strings"
	"testing"

	"replicator/internal/servers/servertest"
)

func TestMistakesInTheCommandLineAreUsageErrors(t *testing.T) {
	l := newLab(t, servertest.MySQL(t))
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"rnu"}, `did you mean "run"?`},
		{[]string{"run", "--untill-caught-up"}, "--help"},
		{[]string{"run", "extra"}, "--help"},
		{[]string{"check", "extra"}, "--help"},
		{[]string{"tail", "--from", "yesterday"}, "latest or earliest"},
		{[]string{"tail", "--view", "nobody"}, "nobody"},
		{[]string{"tail", "--limit", "-1"}, "--limit"},
		{[]string{"rebuild"}, "name one or more views to rebuild. "},
		{[]string{"deadletters", "retry"}, "--all"},
		{[]string{"deadletters", "drop", "--all", "--view", "users"}, "in one way"},
		{[]string{"deadletters", "list", "--view", "nobody"}, "nobody"},
		{[]string{"deadletters", "show"}, "--help"},
		{[]string{"deadletters", "lsit"}, `did you mean "list"?; see ` + "`replicator deadletters --help`"},
		{[]string{"checkpoint", "sho"}, `did you mean "show"?`},
		{[]string{"completion", "bahs"}, `did you mean "bash"?`},
		{[]string{"completion", "frob"}, "use one of bash, fish, powershell, zsh; see `replicator completion --help`"},
		{[]string{"help", "stauts"}, `did you mean "status"?`},
		{[]string{"help", "deadletters", "lsit"}, `did you mean "list"?`},
		{[]string{"help", "status", "extra"}, "see `replicator status --help`"},
		{[]string{"frob"}, "use one of check, "},
		{[]string{"wait", "--pos", "x"}, "FILE:POS"},
		{[]string{"wait", "--pos", "binlog.000001"}, "FILE:POS"},
		{[]string{"wait", "--gtid", "x"}, "GTID"},
		{[]string{"wait", "--pos", "binlog.000001:4", "--timeout", "-1s"}, "--timeout"},
		{[]string{"wait", "--pos", "binlog.000001:4", "--timeout", "2h"}, "--timeout"},
		{[]string{"checkpoint", "set"}, "--pos"},
		{[]string{"checkpoint", "set", "--pos", "binlog.000001:4"}, "--yes"},
		{[]string{"checkpoint", "set", "--pos", "nonsense", "--yes"}, "FILE:POS"},
		{[]string{"checkpoint", "set", "--pos", "binlog.000001:end", "--yes"}, "FILE:POS"},
		{[]string{"checkpoint", "reset"}, "--yes"},
		{[]string{"checkpoint", "reset", "nobody", "--yes"}, "index_users_email"},
		{[]string{"checkpoint", "show", "nobody"}, "nobody"},
		{[]string{"check", "--log-level", "loud"}, "--log-level"},
		{[]string{"check", "--log-format", "xml"}, "--log-format"},
		{[]string{"rebuild", "users", "--from", "the beginning"}, "added_at"},
		{[]string{"verify", "--rate", "-5"}, "--rate"},
		{[]string{"demo", "--server", "oracle"}, "mariadb-11.8"},
		{[]string{"init"}, "--source 'USER:PASSWORD@tcp(HOST:PORT)/DATABASE'"},
		{[]string{"init", "--source", "root:" + password + "@nowhere(x"}, "USER:PASSWORD@tcp(HOST:PORT)/DATABASE"},
		{[]string{"init", "--source", "root:${NO_SUCH}@tcp(127.0.0.1:1)/app"}, "NO_SUCH"},
	} {
		r := l.run(c.args...)
		if r.code != 2 || r.out != "" || !strings.Contains(r.errors, c.says) {
			t.Errorf("%v: exit status %d, %q, %q: want 2 and %q", c.args, r.code, r.out, r.errors, c.says)
		}
	}
}

func TestMistakesInTheConfigurationNameFileLineAndKey(t *testing.T) {
	l := newLab(t, servertest.MySQL(t))
	for _, c := range []struct {
		name, replace, with string
		says                []string
	}{
		{"unknown key", "fields = [\"email\"]", "feilds = [\"email\"]", []string{"replicator.toml:28", "feilds", `"fields"`}},
		{"unknown section", "[http]", "[htpp]", []string{"htpp", "http"}},
		{"unknown kind", `kind = "row"`, `kind = "rows"`, []string{"views.users.kind", "row"}},
		{"unknown sink", `sink = "main"`, `sink = "mian"`, []string{"mian", "main"}},
		{"unknown table", `from = "cell.users"`, `from = "sell.users"`, []string{"sell", "cell"}},
		{"unset variable", "${LISTEN}", "${LISTNE}", []string{"LISTNE"}},
		{"broken expression", "\n[views.users]\n", "\n[views.users]\nwhere = \"email ==\"\n",
			[]string{"replicator.toml:31", "views.users.where"}},
		{"broken field", `fields = ["email"]`, `fields = { email = "=lower(" }`,
			[]string{"replicator.toml:28", "views.index_users_email.fields.email"}},
		{"not TOML", "[http]", "[http", []string{"replicator.toml:"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			broken := strings.Replace(cellViews, c.replace, c.with, 1)
			if broken == cellViews {
				t.Fatal("nothing was replaced")
			}
			l.configure(broken)
			for _, command := range []string{"run", "check", "status"} {
				if command == "status" && (c.name == "broken expression" || c.name == "broken field") {
					continue // status doesn't compile views
				}
				r := l.run(command)
				if r.code != 2 || r.out != "" {
					t.Errorf("%s: exit status %d, printed %q", command, r.code, r.out)
				}
				for _, want := range c.says {
					if !strings.Contains(r.errors, want) {
						t.Errorf("%s: %q doesn't say %q", command, r.errors, want)
					}
				}
			}
		})
	}
	l.configure(strings.Replace(cellViews, `dsn = "${DSN}"`, `dsn = "root:`+password+`@nowhere(x"`, 1))
	if r := l.run("run"); r.code != 2 || !strings.Contains(r.errors, "source.dsn") {
		t.Errorf("a broken DSN: %+v", r) // every process is checked for the password anyway
	}
}

func TestEveryCommandExplainsItself(t *testing.T) {
	l := &lab{t: t, dir: t.TempDir(), program: built}
	help := l.command("--help").out
	for _, name := range commandNames(t) {
		if !strings.Contains(help, "\n  "+name+" ") {
			t.Errorf("--help doesn't list %s", name)
		}
		r := l.command(name, "--help")
		if r.code != 0 || len(r.out) < 80 || !strings.Contains(r.out, "replicator "+name) {
			t.Errorf("%s --help: %+v", name, r)
		}
	}
	if r := l.command(); r.code != 0 || !strings.Contains(r.out, "replicator demo") {
		t.Errorf("no command: %+v", r)
	}
	if r := l.command("version"); r.code != 0 || !strings.HasPrefix(r.out, "replicator ") {
		t.Errorf("version: %+v", r)
	} else if short := l.command("--version"); short != r {
		t.Errorf("--version: %+v, and version: %+v", short, r)
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if r := l.command("completion", shell); r.code != 0 || !strings.Contains(r.out, "replicator") {
			t.Errorf("completion %s: exit status %d", shell, r.code)
		}
	}
}

// commandNames returns the names of all commands.
func commandNames(t *testing.T) []string {
	t.Helper()
	root := newRoot()
	root.InitDefaultCompletionCmd("")
	var names []string
	for _, c := range root.Commands() {
		if c.Name() != "help" {
			names = append(names, c.Name())
		}
	}
	slices.Sort(names)
	if len(names) < 8 {
		t.Fatalf("commands: %v", names)
	}
	return names
}
