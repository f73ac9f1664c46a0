package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"replicator/examples/favorites"
	"replicator/examples/friendfeed"
	"replicator/examples/jogchat"
	"replicator/examples/v2pro"
	examples "replicator/internal/lab"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// design is one of the storage designs that must work as they stand.
type design struct {
	name   string
	schema []string
	write  func(l *lab)
	says   []string // lines of the configuration
	view   string   // that is kept at once
}

func designs() []design {
	return []design{
		{"cells", jogchat.Schema(), func(l *lab) { w := jogchat.NewWriter(l.db, 1, 40); l.steps(200, w.Step) },
			[]string{`[tables.cell]`, `key = "row_key"`, `column = "column_name"`, `version = "ref_key"`, `offset = "added_at"`, `body = "body"`, `codec = "json"`},
			"index_users_email"},
		{"cells alone", jogchat.Schema()[:1], func(l *lab) { w := jogchat.NewWriter(l.db, 2, 40); l.steps(200, w.Step) },
			[]string{`[tables.cell]`, `version = "ref_key"`, `types = { email = "VARCHAR(254)" }`}, "index_users_email"},
		{"entities", examples.Statements(friendfeed.Schema), writeEntities,
			[]string{`[tables.entities]`, `key = "id"`, `offset = "added_id"`, `body = "body"`, `codec = "zlib+pickle"`, `types = { user_id = "BINARY(16)" }`},
			"index_entities_user_id"},
		{"an event log", examples.Statements(v2pro.Schema), func(l *lab) { a := v2pro.NewApplication(l.db, 1, 20); l.steps(200, a.Step) },
			[]string{`[tables.account]`, `key = "entity_id"`, `version = "version"`, `offset = "event_id"`, `body = "state"`, `codec = "json"`},
			"index_account_email"},
		{"plain rows", examples.Statements(favorites.Schema), func(l *lab) { w := favorites.NewWriter(l.db, 1, 30, 20); l.steps(200, w.Step) },
			[]string{`[tables.favorite]`, `key = ["object_id", "user_id"]`, `group = ["object_id"]`, `sum = "cnt"`}, "favorite_counter"},
	}
}

// steps has a writer of an example write.
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
	writer := exec.CommandContext(l.t.Context(), "python3", "../../examples/friendfeed/writer.py", "--seed", "1", "--seconds", "1")
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

// starter is what init prints for the lab's database. Its one change is an address that nobody else listens on.
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
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
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
				l.must("run", "--until-caught-up")
				if out := l.must("verify", "--json"); !strings.Contains(out, fmt.Sprintf(`"view":%q`, d.view)) {
					t.Errorf("verify says %s", out)
				}
				if n := l.rows("SELECT COUNT(*) FROM " + d.view)[0]; n == "0" {
					t.Errorf("%s is empty", d.view)
				}
				if letters := l.letters(); len(letters) > 0 {
					t.Errorf("dead letters: %+v", letters)
				}
				if again := l.starter(); again != l.starter() {
					t.Error("two looks say different things")
				}
				if t.Failed() {
					t.Log(text)
				}
			})
		}
	})
}
