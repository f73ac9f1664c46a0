package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers/servertest"
	"replicator/service"
	"replicator/verify"
)

// Each kind of bad input becomes a dead letter in the views that it concerns. Everything else continues.
func TestBadInputBecomesDeadLetters(t *testing.T) {
	t.Parallel()
	all := []string{"index_users_email", "index_users_phone", "users"}
	cases := []struct {
		name, body string
		views      []string
		says       string
	}{
		{"broken", `{"email": "e@x.org"`, all, "the body can't be decoded"},
		{"empty", ``, all, "the body is empty"},
		{"no object", `["e@x.org"]`, all, "the body can't be decoded"},
		{"not UTF-8", "{\"email\": \"\xff\xfe\"}", all, "the body can't be decoded"},
		{"a number out of range", `{"email": "n@y.org", "phone": 4155550100}`,
			[]string{"index_users_phone", "users"}, "phone"},
		{"a fraction in an INT", `{"phone": 1.5}`, []string{"index_users_phone", "users"}, "phone"},
		{"a text in an INT", `{"phone": "call me"}`, []string{"index_users_phone", "users"}, "phone"},
		{"an object in an INT", `{"phone": {"home": 1}}`, []string{"index_users_phone", "users"}, "phone"},
		{"a text that is too long", `{"username": "12345678901"}`, []string{"users"}, "username"},
		{"a list", `{"email": ["m@y.org", "n@y.org"]}`, []string{"index_users_email"}, "list"},
		{"a text longer than the index", fmt.Sprintf(`{"email": "%0101d"}`, 1),
			[]string{"index_users_email", "users"}, "email"},
	}
	l := newLab(t, servertest.MySQL(t))
	l.running()
	for i, c := range cases {
		key := string(rune('a' + i))
		l.put(key, 1, `{"username": "ok", "email": "`+key+`@x.org", "phone": 7}`)
		l.put(key, 2, c.body)
	}
	l.put("z", 1, `{"username": "fine", "email": "z@x.org", "phone": 7}`)
	l.caughtUp()
	letters := l.letters()
	for i, c := range cases {
		key := string(rune('a' + i))
		var views []string
		for _, d := range letters {
			if d.Key != keyText(key) {
				continue
			}
			views = append(views, d.View)
			if !strings.Contains(d.Reason, c.says) || d.Version != 2 || d.Table != "cell" || d.Column != "users" ||
				!strings.Contains(d.Position, ":") || d.Time == "" || d.ID == "" {
				t.Errorf("%s: dead letter %+v, want a reason with %q", c.name, d, c.says)
			}
		}
		if slices.Sort(views); !slices.Equal(views, c.views) {
			t.Errorf("%s: dead letters of %v, want %v", c.name, views, c.views)
		}
		// A version that can't be written contributes nothing. The previous version doesn't come back.
		if got := l.rows("SELECT email FROM index_users_email WHERE email = '" + key + "@x.org'"); len(got) != 0 {
			t.Errorf("%s: the earlier version still shows", c.name)
		}
	}
	l.expect("SELECT email FROM users WHERE username = 'fine'", "z@x.org")
	l.expect("SELECT email FROM users WHERE email LIKE '[%'", `["m@y.org","n@y.org"]`) // the list is shown as JSON
	l.reaches("users", "running")
	for _, view := range all {
		l.dead(view, len(slices.DeleteFunc(slices.Clone(letters),
			func(d letter) bool { return d.View != view })), len(cases)+1)
	}
	for i, c := range cases {
		for _, view := range c.views {
			e := l.explains(view, keyText(string(rune('a'+i))))
			if e.Holds != "dead" || !strings.HasPrefix(e.Why, "not in the view: dead letter") ||
				!strings.Contains(e.Why, c.says) || len(e.Letters) != 1 || len(e.Expected) != 0 {
				t.Errorf("%s: explain says of %s: %+v", c.name, view, e)
			}
		}
	}

	// Newer versions make the letters obsolete.
	for i := range cases {
		l.put(string(rune('a'+i)), 3, `{"username": "ok", "phone": 8}`)
	}
	l.caughtUp()
	if letters := l.letters(); len(letters) != 0 {
		t.Errorf("dead letters remain: %+v", letters)
	}
	l.expect("SELECT COUNT(*) FROM users WHERE username = 'ok' AND phone = 8", fmt.Sprint(len(cases)))
}

// dead checks that a view has this many dead letters and no other differences, both with --repair and without.
func (l *lab) dead(view string, dead, checked int) {
	l.t.Helper()
	for _, args := range [][]string{{"verify", "--json", view}, {"verify", "--json", "--repair", view}} {
		r := l.run(args...)
		found := jsonLines[verify.Result](l.t, r.out)
		if len(found) != 1 || (r.code == 3) != (dead > 0) || found[0].Dead != int64(dead) ||
			found[0].Remaining() != int64(dead) || found[0].Checked != int64(checked) {
			l.t.Errorf("%v: exit %d, %+v; want %d dead of %d\n%s", args, r.code, found, dead, checked, r.errors)
			continue
		}
		for _, d := range found[0].Differences {
			if d.Kind != replicator.Dead || len(d.Key) == 0 {
				l.t.Errorf("%v: %+v", args, d)
			}
		}
	}
}

// explains returns the output of explain for an entity with one cell.
func (l *lab) explains(view, key string) service.Explanation {
	l.t.Helper()
	found := jsonLines[service.Explanation](l.t, l.must("explain", "--json", view, key))
	if len(found) != 1 {
		l.t.Fatalf("explain %s %s: %+v", view, key, found)
	}
	return found[0]
}

func TestDeadLettersAreListedShownRetriedAndDropped(t *testing.T) {
	t.Parallel()
	l := newLab(t, servertest.MySQL(t))
	if text := l.must("deadletters", "list"); !strings.HasPrefix(text, "COUNT") {
		t.Errorf("before anything ran: %q", text)
	}
	const body = `{"email": "a@x.org", "phone": 4155550100}`
	l.put("a", 1, body)
	l.put("b", 1, body)
	p := l.running()
	l.caughtUp()
	letters := l.letters("--view", "index_users_phone")
	if len(letters) != 2 || len(l.letters()) != 4 {
		t.Fatalf("dead letters: %+v", l.letters())
	}
	kinds := l.must("deadletters", "list")
	if lines := strings.Split(kinds, "\n"); !strings.HasPrefix(lines[1], "2 ") || !strings.HasPrefix(lines[2], "2 ") ||
		!strings.Contains(kinds, letters[0].ID) || strings.Contains(kinds, letters[1].ID) {
		t.Errorf("two kinds, two letters and an example of each:\n%s", kinds)
	}
	if each := l.must("deadletters", "list", "--all"); !strings.HasPrefix(each, "ID") || strings.Count(each, "\n") != 5 {
		t.Errorf("each of them:\n%s", each)
	}
	page := l.run("deadletters", "list", "--view", "index_users_phone", "--limit", "1")
	rest := l.must("deadletters", "list", "--view", "index_users_phone", "--after", letters[0].ID)
	if !strings.Contains(page.out, letters[0].ID) || !strings.Contains(page.errors, "--after "+letters[0].ID) ||
		strings.Contains(page.out, letters[1].ID) || !strings.Contains(rest, letters[1].ID) ||
		strings.Contains(rest, letters[0].ID) {
		t.Errorf("the first page: %+v\nthe rest:\n%s", page, rest)
	}
	fields := jsonLines[map[string]any](t, l.must("deadletters", "list", "--json"))[0]
	for _, f := range []string{"id", "view", "table", "key", "column", "version", "position", "reason", "time"} {
		if _, ok := fields[f]; !ok {
			t.Errorf("deadletters list has no %s", f)
		}
	}
	shown := l.must("deadletters", "show", letters[0].ID, "--json")
	if got := jsonLines[letter](t, shown); len(got) != 1 || got[0].Raw != body {
		t.Errorf("show --json: %+v", got)
	}
	if _, text := l.get("/api/v1/deadletters/" + letters[0].ID); strings.TrimSpace(text) != strings.TrimSpace(shown) {
		t.Errorf("HTTP shows a letter as %s\nand the command as %s", text, shown)
	}
	if text := l.must("deadletters", "show", letters[0].ID); !strings.Contains(text, body) ||
		!strings.Contains(text, letters[0].ID) {
		t.Errorf("show: %s", text)
	}
	if r := l.run("deadletters", "show", "nothing"); r.code != 1 || !strings.Contains(r.errors, "nothing") {
		t.Errorf("show of an unknown id: %+v", r)
	}
	// Nothing was fixed, so the letters stay.
	if r := l.run("deadletters", "retry", "--all"); r.code != 1 ||
		!strings.Contains(r.out, "4 tried again, 4 still dead") {
		t.Errorf("retry of what can't work: %+v", r)
	}
	// A column is widened. The test retries one letter by its id, then all letters of a view.
	l.exec("ALTER TABLE index_users_phone MODIFY phone BIGINT NOT NULL")
	p.stop()
	p = l.running()
	l.caughtUp()
	if text := l.must("deadletters", "retry", letters[0].ID); !strings.Contains(text, "1 tried again, 0 still dead") {
		t.Errorf("retry of one: %s", text)
	}
	l.expect("SELECT COUNT(*) FROM index_users_phone WHERE phone = 4155550100", "1")
	l.must("deadletters", "retry", "--view", "index_users_phone")
	l.expect("SELECT COUNT(*) FROM index_users_phone WHERE phone = 4155550100", "2")
	if text := l.must("deadletters", "drop", l.letters()[0].ID); text != "1 dropped\n" {
		t.Errorf("drop: %s", text)
	}
	p.stop()
	// The retry also works without a running program.
	l.exec("ALTER TABLE users MODIFY phone BIGINT")
	if text := l.must("deadletters", "retry", "--all"); !strings.Contains(text, "1 tried again, 0 still dead") {
		t.Errorf("retry alone: %s", text)
	}
	l.expect("SELECT COUNT(*) FROM users WHERE phone = 4155550100", "1")
	l.put("c", 1, `{broken`)
	l.must("run", "--until-caught-up")
	if text := l.must("deadletters", "drop", "--all"); text != "3 dropped\n" || len(l.letters()) != 0 {
		t.Errorf("drop alone: %s", text)
	}
}

// After an ALTER, a retry by the running program must succeed. The sink must learn of the target's new columns without
// a restart.
func TestRetryAfterAlterNeedsNoRestart(t *testing.T) {
	t.Parallel()
	l := newLab(t, servertest.MySQL(t))
	l.running()
	l.put("a", 1, `{"username": "much longer than ten", "phone": 4155550100}`)
	l.caughtUp()
	if n := len(l.letters()); n != 2 {
		t.Fatalf("%d dead letters, want 2", n)
	}
	l.exec("ALTER TABLE users MODIFY username VARCHAR(100), MODIFY phone BIGINT",
		"ALTER TABLE index_users_phone MODIFY phone BIGINT NOT NULL")
	eventually(t, func() error {
		r := l.run("deadletters", "retry", "--all")
		return as(r.code == 0, r.errors)
	})
	l.expect("SELECT username, phone FROM users", "much longer than ten 4155550100")
	l.expect("SELECT phone FROM index_users_phone", "4155550100")
}
