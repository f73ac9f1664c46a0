package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

func TestRunFillsThenFollowsUntilItIsTold(t *testing.T) {
	t.Parallel()
	l := newLab(t, servertest.MySQL(t))
	l.put("a", 1, `{"username": "ann", "email": "ann@x.org", "phone": 1}`)
	l.put("b", 1, `{"username": "bob", "email": "bob@x.org"}`)
	p := l.running()
	l.caughtUp()
	l.expect(emails, "ann@x.org a", "bob@x.org b")
	l.put("a", 2, `{"username": "ann", "email": "ann@y.org", "phone": 2}`)
	l.caughtUp()
	l.expect(emails, "ann@y.org a", "bob@x.org b")
	l.expect("SELECT username, email, phone FROM users ORDER BY 1", "ann ann@y.org 2", "bob bob@x.org NULL")
	l.expect("SELECT phone FROM index_users_phone", "2")
	l.exec("DELETE FROM cell WHERE ref_key = 2")
	l.caughtUp()
	l.expect(emails, "ann@x.org a", "bob@x.org b")
	l.put("c", 1, `{"email": "c@x.org"}`)
	p.stop() // it applies the changes that it has read; the next run reads the others
	p = l.running()
	l.caughtUp()
	l.expect(emails, "ann@x.org a", "bob@x.org b", "c@x.org c")
	p.stop()
}

func TestRunUntilCaughtUpIncludesWhatWasCommitted(t *testing.T) {
	t.Parallel()
	l := newLab(t, servertest.MySQL(t))
	l.put("a", 1, `{"email": "a@x.org"}`)
	l.must("run", "--until-caught-up")
	l.expect(emails, "a@x.org a")
	l.put("a", 2, `{"email": "b@x.org"}`)
	l.must("run", "--until-caught-up")
	l.expect(emails, "b@x.org a")
}

func TestWaitIsAFence(t *testing.T) {
	t.Parallel()
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		l := newLab(t, s)
		if r := l.run("wait", "--pos", l.position()); r.code != 1 || !strings.Contains(r.errors, "not running") {
			t.Errorf("with nothing running: %+v", r)
		}
		l.running()
		l.put("a", 1, `{"email": "a@x.org"}`)
		l.must("wait", "--gtid", l.gtids(), "--timeout", patience.String(), "index_users_email")
		l.expect(emails, "a@x.org a")
		l.put("a", 2, `{"email": "b@x.org"}`)
		l.caughtUp("index_users_email", "users")
		l.expect(emails, "b@x.org a")

		later := l.position()
		later = later[:strings.Index(later, ":")+1] + "4000000000"
		if r := l.run("wait", "--pos", later, "--timeout", "200ms"); r.code != 1 ||
			!strings.Contains(r.errors, "index_users_email") {
			t.Errorf("a fence in the future: %+v", r)
		}
		for _, args := range [][]string{{"wait"}, {"wait", "--gtid", "x", "--pos", "y"},
			{"wait", "--pos", later, "nobody"}, {"wait", "--pos"}} {
			if r := l.run(args...); r.code != 2 || r.errors == "" {
				t.Errorf("%v: %+v", args, r)
			}
		}
		if r := l.run("wait", "--pos", "no place"); r.code != 2 || !strings.Contains(r.errors, "FILE:POS") {
			t.Errorf("a fence that is none: %+v", r)
		}
	})
}

func TestStatusHasAllFieldsWhetherOrNotItRuns(t *testing.T) {
	l := newLab(t, servertest.MySQL(t))
	l.program = built // no need for the race detector, because the test only asks the program
	l.put("a", 1, `{"phone": 4155550100}`)
	fields := []string{"view", "sink", "kind", "state", "position", "lag_seconds", "rate", "dead_letters", "error"}
	look := func(state string, dead int, placed bool) {
		t.Helper()
		r, code := l.run("status", "--json"), 0
		if state == "stopped" {
			code = 1
		}
		if since := strings.Contains(r.errors, "since"); r.code != code || since != (placed && code == 1) {
			t.Errorf("exit status %d: %s", r.code, r.errors)
		}
		lines := jsonLines[map[string]any](t, r.out)
		if len(lines) != 3 {
			t.Fatalf("%d lines for 3 views", len(lines))
		}
		for _, line := range lines {
			for _, f := range fields {
				if _, ok := line[f]; !ok {
					t.Errorf("status has no %s", f)
				}
			}
			if line["state"] != state || (line["position"] != "") != placed {
				t.Errorf("%v, want state %s", line, state)
			}
		}
		if got := jsonLines[viewStatus](t, r.out)[2]; got.View != "index_users_phone" || got.DeadLetters != dead {
			t.Errorf("%d dead letters of %s, want %d", got.DeadLetters, got.View, dead)
		}
		if text := l.run("status").out; !strings.Contains(text, "VIEW") ||
			!strings.Contains(text, "index_users_email  main  index  "+state) {
			t.Errorf("status prints\n%s", text)
		}
	}
	look("stopped", 0, false)
	p := l.running()
	l.caughtUp()
	look("running", 1, true)
	p.stop()
	look("stopped", 1, true)
	for i := range 25 {
		l.put(string(rune('b'+i)), 1, fmt.Sprintf(`{"email": "%d@x.org"}`, i))
	}
	for args, listed := range map[string]int{"": 20, "--all": 25} {
		r := l.run(append([]string{"verify", "index_users_email"}, strings.Fields(args)...)...)
		if n := strings.Count(r.out, "missing\n"); r.code != 3 || n != listed || strings.Contains(r.out, "5 more") != (args == "") {
			t.Errorf("verify %s: %d differences are listed, exit status %d:\n%s", args, n, r.code, r.out)
		}
		first, rest, _ := strings.Cut(r.errors, "\n")
		if !strings.Contains(first, "not running") || !strings.Contains(first, "since") ||
			!strings.Contains(rest, "lacks the commits") {
			t.Errorf("verify %s does not say first that nothing runs, and how far behind the view is:\n%s", args, r.errors)
		}
	}
	r := l.run("run", "--until-caught-up")
	for _, want := range []string{`"views continue from their checkpoints"`, `"behind":"`,
		"deadletters list --view index_users_phone", `"dead_letters":1`} {
		if !strings.Contains(r.errors, want) {
			t.Errorf("run --until-caught-up does not say %s:\n%s", want, r.errors)
		}
	}
}

func TestCheckSaysWhatIsThereAndWhatIsNot(t *testing.T) {
	t.Parallel()
	l := newLab(t, servertest.MySQL(t))
	text := l.must("check")
	for _, want := range []string{"configuration", "grants", "binlog_format", "retention", "table cell",
		"sink main", "view users"} {
		if !strings.Contains(text, want) {
			t.Errorf("check doesn't mention %s:\n%s", want, text)
		}
	}
	l.exec("DROP TABLE users", "ALTER TABLE cell DROP COLUMN body")
	r := l.run("check")
	if r.code != 1 || !strings.Contains(r.out, "fail  view users") || !strings.Contains(r.out, "fail  table cell") ||
		!strings.Contains(r.errors, "2 checks failed") {
		t.Errorf("with a table and a column missing: exit status %d\n%s%s", r.code, r.out, r.errors)
	}
	levels := map[string]string{}
	for _, line := range jsonLines[map[string]string](t, l.run("check", "--json").out) {
		levels[line["what"]] = line["level"]
	}
	if levels["view users"] != "fail" || levels["view index_users_email"] != "ok" {
		t.Errorf("check --json: %v", levels)
	}
}

func TestSchemaPrintsWhatIsMissingAndWhatItPrintsWorks(t *testing.T) {
	t.Parallel()
	l := newLab(t, servertest.MySQL(t))
	if text := l.must("schema"); text != "" {
		t.Errorf("nothing is missing, and schema prints\n%s", text)
	}
	l.exec("DROP TABLE users, index_users_email")
	type missing struct{ Sink, DDL string }
	if all := jsonLines[missing](t, l.must("schema", "--json")); len(all) != 2 || all[0].Sink != "main" ||
		!strings.Contains(all[0].DDL, "CREATE TABLE `") {
		t.Errorf("%+v", all)
	}
	text := l.must("schema")
	if strings.Count(text, "binary(16) NOT NULL") != 2 || strings.Count(text, "nothing is known") != 4 {
		t.Errorf("the keys' types are known from the source, the fields' are not, without a body:\n%s", text)
	}
	if !strings.Contains(text, "CREATE TABLE `users`") || !strings.Contains(text, "CREATE TABLE `index_users_email`") ||
		strings.Contains(text, "phone`\n") {
		t.Errorf("schema prints\n%s", text)
	}
	for statement := range strings.SplitSeq(strings.TrimSpace(text), ";\n") {
		if statement = strings.TrimSpace(statement); statement != "" {
			l.exec(strings.TrimSuffix(statement, ";"))
		}
	}
	l.put("a", 1, `{"username": "ann", "email": "a@x.org", "phone": 5}`)
	l.must("run", "--until-caught-up")
	l.expect("SELECT HEX(id), username, email FROM users", strings.ToUpper(keyText("a"))+" ann a@x.org")
}

func TestTailPrintsDecodedChangesAndWhatAViewIsGiven(t *testing.T) {
	t.Parallel()
	l := newLab(t, servertest.MySQL(t))
	l.exec("DROP TABLE users, index_users_email, index_users_phone") // tail needs no sink
	tail := func(extra ...string) *process {
		t.Helper()
		p := l.start(append([]string{"tail", "--limit", "4", "-c", l.file()}, extra...)...)
		eventually(t, func() error {
			connected, err := l.sessions("command LIKE 'Binlog Dump%' AND user = '" + l.user + "'")
			return cmp.Or(err, as(len(connected) > 0, "a reader is connected"))
		})
		return p
	}
	p := tail()
	l.put("a", 9007199254740993, `{"email": "a@x.org", "n": 18446744073709551615, "deep": {"x": [1, 2.50]}}`)
	l.put("b", 1, `{broken`)
	l.exec("UPDATE cell SET body = '{}' WHERE ref_key = 1", "DELETE FROM cell WHERE ref_key = 1")
	if code := p.wait(); code != 0 {
		t.Fatalf("exit status %d: %s", code, p.Log())
	}
	lines := strings.Split(strings.TrimSpace(p.Output()), "\n")
	if len(lines) != 4 {
		t.Fatalf("%d lines, want 4:\n%s", len(lines), p.Output())
	}
	for _, want := range []string{`"version":9007199254740993`, `"n":18446744073709551615`, `"x":[1,2.50]`,
		`"op":"insert"`, `"key":"` + keyText("a") + `"`, `"column":"users"`, `"table":"cell"`} {
		if !strings.Contains(lines[0], want) {
			t.Errorf("%s lacks %s", lines[0], want)
		}
	}
	if !strings.Contains(lines[1], `"error"`) || !strings.Contains(lines[2], `"op":"update"`) ||
		!strings.Contains(lines[3], `"op":"delete"`) {
		t.Errorf("lines are\n%s", p.Output())
	}
	for _, i := range []int{0, 3} { // an insert and a delete have the same fields
		var line map[string]any
		if err := json.Unmarshal([]byte(lines[i]), &line); err != nil {
			t.Fatal(err)
		}
		names := slices.Sorted(maps.Keys(line))
		if want := []string{"body", "column", "key", "op", "position", "table", "time",
			"version"}; !slices.Equal(names, want) {
			t.Errorf("fields %v, want %v", names, want)
		}
	}
	// The binlog doesn't have the rows of a TRUNCATE. tail says so, and continues after the statement.
	l.exec("TRUNCATE TABLE cell")
	l.put("c", 1, `{}`)
	after := l.run("tail", "--from", "earliest", "--limit", "5")
	if after.code != 0 || strings.Count(after.out, "\n") != 5 ||
		!strings.Contains(after.errors, "table cell was truncated") {
		t.Errorf("over a TRUNCATE: %+v", after)
	}
	r := l.run("tail", "--view", "index_users_email", "--from", "earliest", "--limit", "1")
	if r.code != 0 || !strings.Contains(r.out, `"entries":[{"email":"a@x.org"}]`) {
		t.Errorf("what a view is given: %+v", r)
	}
	l.put("d", -1, `{}`)
	r = l.run("tail", "--from", "earliest", "--limit", "6")
	if r.code != 0 || !strings.Contains(r.out, `"error":"version column ref_key is negative"`) {
		t.Errorf("a version that is none: %+v", r)
	}
}

// as returns nil if so is true, and otherwise an error with the text.
func as(so bool, what string) error {
	if so {
		return nil
	}
	return errNotSo(what)
}

type errNotSo string

func (e errNotSo) Error() string { return "not so: " + string(e) }

func TestConfigurationIsFoundWhereverItIsNamed(t *testing.T) {
	l := newLab(t, servertest.MySQL(t))
	elsewhere := filepath.Join(t.TempDir(), "other.toml")
	text, err := os.ReadFile(l.file())
	if err == nil {
		err = os.Rename(l.file(), elsewhere)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"schema", "-c", elsewhere}, {"-c", elsewhere, "schema"},
		{"--config=" + elsewhere, "schema"}, {"deadletters", "-c", elsewhere, "list"}} {
		if r := l.command(args...); r.code != 0 {
			t.Errorf("%v: %+v", args, r)
		}
	}
	if r := l.command("schema"); r.code != 2 || !strings.Contains(r.errors, "replicator.toml") ||
		!strings.Contains(r.errors, "REPLICATOR_CONFIG") {
		t.Errorf("no configuration: %+v", r)
	}
	l.env["REPLICATOR_CONFIG"] = elsewhere
	if r := l.command("schema"); r.code != 0 {
		t.Errorf("$REPLICATOR_CONFIG: %+v", r)
	}
	delete(l.env, "REPLICATOR_CONFIG")
	if err := os.WriteFile(l.file(), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := l.command("schema"); r.code != 0 {
		t.Errorf("replicator.toml here: %+v", r)
	}
}

// The types of the fields are known from the columns of rows without a body. create = true uses these types.
func TestTargetsOfPlainRowsAreCreatedWithTheSourcesTypes(t *testing.T) {
	t.Parallel()
	servertest.First(t, func(t *testing.T, s *servers.Server) {
		l := newBareLab(t, s)
		l.exec("CREATE TABLE favorite (user_id BIGINT UNSIGNED, object_id BIGINT, cnt INT, note VARCHAR(40), PRIMARY KEY (user_id, object_id))",
			"INSERT INTO favorite VALUES (18446744073709551615, 2, 3, 'x')")
		l.configure(source, strings.Split(program, "[tables.cell]")[0], "[tables.favorite]\nkey = [\"user_id\", \"object_id\"]", mainSink, `
[views.favorites]
from = "favorite"
sink = "main"
kind = "row"
key = { user = "$user_id", object = "$object_id" }
fields = ["cnt", "note"]
`)
		text := l.must("schema")
		if strings.Contains(text, "nothing is known") || !strings.Contains(text, "unsigned NOT NULL") ||
			!strings.Contains(text, "`note` varchar(40) NULL") {
			t.Fatalf("schema prints\n%s", text)
		}
		l.exec(strings.TrimSuffix(strings.TrimSpace(text), ";"))
		l.must("run", "--until-caught-up")
		l.expect("SELECT * FROM favorites", "18446744073709551615 2 3 x")
	})
}
