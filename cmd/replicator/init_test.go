package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"replicator/examples/favorites"
	"replicator/examples/friendfeed"
	"replicator/examples/jogchat"
	"replicator/examples/v2pro"
	examples "replicator/internal/lab"
	"replicator/internal/servers/servertest"
)

// design is a storage design for which the output of init must work without changes.
type design struct {
	name   string
	schema []string
	write  func(l *lab)
	says   []string // lines that the configuration must have
	view   string   // a view that is active in the configuration
}

func designs() []design {
	return []design{
		{"cells", jogchat.Schema(), func(l *lab) { w := jogchat.NewWriter(l.db, 1, 40); l.steps(200, w.Step) },
			[]string{`[tables.cell]`, `key = "row_key"`, `column = "column_name"`, `version = "ref_key"`, `offset = "added_at"`,
				`body = "body"`, `codec = "json"`},
			"index_users_email"},
		{"cells alone", jogchat.Schema()[:1], func(l *lab) { w := jogchat.NewWriter(l.db, 2, 40); l.steps(200, w.Step) },
			[]string{`[tables.cell]`, `version = "ref_key"`, `types = { email = "VARCHAR(254)" }`}, "index_users_email"},
		{"entities", examples.Statements(friendfeed.Schema), writeEntities,
			[]string{`[tables.entities]`, `key = "id"`, `offset = "added_id"`, `body = "body"`, `codec = "zlib+pickle"`,
				`types = { user_id = "BINARY(16)" }`},
			"index_entities_user_id"},
		{"an event log", examples.Statements(v2pro.Schema), func(l *lab) {
			a := v2pro.NewApplication(l.db, 1,
				20)
			l.steps(200, a.Step)
		},
			[]string{`[tables.account]`, `key = "entity_id"`, `version = "version"`, `offset = "event_id"`,
				`body = "state"`, `codec = "json"`},
			"index_account_email"},
		{"plain rows", examples.Statements(favorites.Schema),
			func(l *lab) { w := favorites.NewWriter(l.db, 1, 30, 20); l.steps(200, w.Step) },
			[]string{`[tables.favorite]`, `key = ["object_id", "user_id"]`, `group = ["object_id"]`,
				`sum = "cnt"`}, "favorite_counter"},
	}
}

// steps runs n steps of an example's writer.
func (l *lab) steps(n int, step func(context.Context) error) {
	l.t.Helper()
	for range n {
		if err := step(l.t.Context()); err != nil {
			l.t.Fatal(err)
		}
	}
}

func writeEntities(l *lab) {
	l.t.Helper()
	writer := exec.CommandContext(l.t.Context(), "python3", "../../examples/friendfeed/writer.py",
		"--seed", "1", "--seconds", "1")
	client, err := examples.MySQL{Server: l.server, Database: l.database}.Command(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	statements, err := writer.Output()
	if err != nil {
		l.t.Fatal(err)
	}
	client.Stdin = strings.NewReader(string(statements))
	if out, err := client.CombinedOutput(); err != nil {
		l.t.Fatalf("%v\n%s", err, out)
	}
}

// starter configures the lab with the output of init for the lab's database. It changes only the listen address, to a
// free one.
func (l *lab) starter() string {
	l.t.Helper()
	l.env = map[string]string{"DB_PASSWORD": password}
	r := l.command("init", "--source", l.dsn(l.server.Addr(), l.database))
	if r.code != 0 {
		l.t.Fatalf("init: exit status %d\n%s", r.code, r.errors)
	}
	text := strings.Replace(r.out, "127.0.0.1:9190", l.listen, 1)
	if text == r.out {
		l.t.Errorf("it says nothing of where to listen:\n%s", text)
	}
	l.configure(text)
	return text
}

func TestTheStarterConfigurationOfEveryDesignWorksAsItStands(t *testing.T) {
	t.Parallel()
	s := servertest.MySQL(t)
	for _, d := range designs() {
		t.Run(d.name, func(t *testing.T) {
			l := newBareLab(t, s)
			l.exec(d.schema...)
			d.write(l)
			text := l.starter()
			for _, line := range append(d.says, "[views."+d.view+"]") {
				if !strings.Contains("\n"+text, "\n"+line) {
					t.Errorf("it lacks the line %s", line)
				}
			}
			l.must("check")
			l.must("schema")
			l.converges(d.view)
			if again := l.starter(); again != l.starter() {
				t.Error("two looks say different things")
			}
			l.converges(d.view) // the configuration is the same when the program's tables exist
			if t.Failed() {
				t.Log(text)
			}
		})
	}
}

// converges runs the program and checks that its views are right and that there are no dead letters. view must not be
// empty.
func (l *lab) converges(view string) {
	l.t.Helper()
	l.must("run", "--until-caught-up")
	if out := l.must("verify", "--json"); !strings.Contains(out, fmt.Sprintf(`"view":%q`, view)) {
		l.t.Errorf("verify says %s", out)
	}
	if n := l.rows("SELECT COUNT(*) FROM " + view)[0]; n == "0" {
		l.t.Errorf("%s is empty", view)
	}
	if letters := l.letters(); len(letters) > 0 {
		l.t.Errorf("dead letters: %+v", letters)
	}
}

// comment matches a setting that is commented out.
var comment = regexp.MustCompile(`(?m)^#([^ \n])`)

func TestEverySuggestionWorksOnceItsSignIsRemoved(t *testing.T) {
	t.Parallel()
	s, cache, search := servertest.MySQL(t), servertest.Redis(t), servertest.Elasticsearch(t)
	for i, d := range designs() {
		t.Run(d.name, func(t *testing.T) {
			l := newBareLab(t, s)
			l.exec(d.schema...)
			d.write(l)
			text := comment.ReplaceAllString(l.starter(), "$1")
			text = strings.Replace(text, "redis://127.0.0.1:6379/0", cache.DSN(strconv.Itoa(i)), 1)
			text = strings.Replace(text, "http://127.0.0.1:9200", search, 1)
			// Tests share an Elasticsearch, so the views' names must differ.
			l.configure(strings.ReplaceAll(text, "_search", "_search_"+l.database))
			l.must("check")
			l.converges(d.view)
			if t.Failed() {
				t.Log(text)
			}
		})
	}
}

func TestTheStarterConfigurationLacksNothingButTheRightThatCheckNames(t *testing.T) {
	s := servertest.MySQL(t)
	l := newBareLab(t, s)
	l.exec(cellTable)
	l.put("a", 1, `{"email": "a@x.org"}`)
	l.user += "r"
	l.account(s, l.user, "SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.*")
	l.starter()
	r := l.run("check")
	if fix := "GRANT CREATE, SELECT, INSERT, UPDATE, DELETE ON `" + l.database + "`.* TO '" + l.user +
		"'@'%'\n"; r.code != 1 ||
		strings.Count(r.out, "\nfail ") != 2 || !strings.Contains(r.out, fix) ||
		!strings.Contains(r.out, "the user lacks CREATE") {
		t.Errorf("exit status %d, it does not name just %s:\n%s%s", r.code, fix, r.out, r.errors)
	}
	l.exec("GRANT CREATE, SELECT, INSERT, UPDATE, DELETE ON `" + l.database + "`.* TO " + l.user + "@'%'")
	l.must("check")
	l.converges("index_users_email")
}

// TestAFirstConfigurationIsMadeAsTheManualSays runs the manual's commands as they are written, except for the account
// and the server's address. Package docs runs the commands of the README.
func TestAFirstConfigurationIsMadeAsTheManualSays(t *testing.T) {
	for file, app := range map[string]string{"../../docs/init.md": "db1:3306)/app"} {
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, block, _ := strings.Cut(string(page), "```\nreplicator init ")
		block, _, closed := strings.Cut("replicator init "+block, "\n```\n")
		if !closed {
			t.Fatalf("%s has no block that begins with replicator init", file)
		}
		l := newBareLab(t, servertest.MySQL(t))
		l.exec(cellTable)
		l.put("a", 1, `{"email": "a@x.org"}`)
		first, rest, _ := strings.Cut(block, "\n")
		script := strings.NewReplacer("replicator:SECRET", l.user+":"+password, app,
			l.server.Addr()+")/"+l.database).Replace(first) +
			"\nsed -i 's/127.0.0.1:9190/" + l.listen + "/' replicator.toml\n" +
			strings.NewReplacer("SECRET", password, "replicator run", "replicator run --until-caught-up").Replace(rest)
		cmd := exec.CommandContext(t.Context(), "bash", "-euc", script)
		cmd.Dir, cmd.Env = l.dir, append(os.Environ(), "PATH="+filepath.Dir(built)+":"+os.Getenv("PATH"))
		if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), password) {
			t.Errorf("%s: %v\n%s", file, err, out)
		}
		l.expect(emails, "a@x.org a")
	}
}

func TestInitTakesThePasswordFromTheEnvironmentOrNeedsNone(t *testing.T) {
	s := servertest.MySQL(t)
	l := newBareLab(t, s)
	l.exec(cellTable)
	l.put("a", 1, `{"email": "a@x.org"}`)
	l.env = map[string]string{"SITE_SECRET": password}
	r := l.command("init", "--source", fmt.Sprintf("%s:${SITE_SECRET}@tcp(%s)/%s", l.user, s.Addr(),
		l.database), "--table", "cell")
	if r.code != 0 || !strings.Contains(r.out, l.user+":${SITE_SECRET}@tcp(") ||
		!strings.Contains(r.out, "export SITE_SECRET=") {
		t.Errorf("%+v", r)
	}
	l.configure(r.out)
	l.must("check")

	open := l.database + "o"
	execAll(t, l.db, "CREATE USER "+open+"@'%' IDENTIFIED BY ''", "GRANT ALL ON *.* TO "+open+"@'%'")
	t.Cleanup(func() { _, _ = l.db.Exec("DROP USER " + open + "@'%'") }) // another test creates the same account
	l.env = nil
	r = l.command("init", "--source", fmt.Sprintf("%s@tcp(%s)/%s", open, s.Addr(), l.database))
	if r.code != 0 || strings.Contains(r.out, "${") {
		t.Errorf("%+v", r)
	}
	l.configure(r.out)
	l.must("check")

	r = l.command("init", "--source", l.dsn(s.Addr(), ""))
	if r.code != 2 || r.out != "" || !strings.Contains(r.errors, "end it with /") ||
		!strings.Contains(r.errors, l.database) {
		t.Errorf("no database: %+v", r)
	}
	r = l.command("init", "--source", l.dsn("127.0.0.1:1", "d"))
	if r.code != 1 || r.out != "" || !strings.Contains(r.errors, "127.0.0.1:1") {
		t.Errorf("no server: %+v", r)
	}
}
