package main

import (
	"strings"
	"testing"

	"replicator/internal/servers/servertest"
)

// TestViewsArePausedAndResumed runs pause, resume, status and wait without the file's secrets.
func TestViewsArePausedAndResumed(t *testing.T) {
	t.Parallel()
	l := newLab(t, servertest.MySQL(t))
	if r := l.run("pause", "users"); r.code != 1 || !strings.Contains(r.errors, "replicator run") {
		t.Errorf("nothing runs: %+v", r)
	}
	p := l.running()
	l.caughtUp()
	asker := *l
	asker.env = map[string]string{"LISTEN": l.listen}
	if r := asker.run("checkpoint", "show"); r.code != 2 || !strings.Contains(r.errors, "DSN") {
		t.Errorf("a command that needs the secrets: %+v", r)
	}
	if out := asker.must("pause", "users", "index_users_email"); out != "users paused\nindex_users_email paused\n" {
		t.Errorf("%q", out)
	}
	before := asker.reaches("users", "paused")
	l.waitFor(before.Position, "users") // the view included this position before the pause
	l.put("a", 1, `{"email": "a@x.org", "phone": 5}`)
	l.caughtUp("index_users_phone")
	l.expect(emails)
	if st := asker.status("users"); st.Position == "" || st.Position != before.Position || st.LagSeconds == nil ||
		*st.LagSeconds == 0 || st.Rate != 0 {
		t.Errorf("paused: %+v, before %+v", st, before)
	}
	if r := l.run("rebuild", "users"); r.code != exitFailed || r.out != "" ||
		!strings.Contains(r.errors, "view users: it is paused: resume it first") {
		t.Errorf("rebuild of a view that is paused: %+v", r)
	}
	if r := l.run("wait", "--pos", l.position(), "--timeout", "100ms", "users"); r.code != 1 ||
		!strings.Contains(r.errors, "it is paused: resume it first") {
		t.Errorf("wait for a view that is paused: %+v", r)
	}
	if r := l.run("verify", "users"); r.code != 1 || !strings.Contains(r.errors, "it is paused: resume it first") {
		t.Errorf("verify of a view that is paused and lacks something: %+v", r)
	}
	if code, text := l.get("/readyz"); code != 503 || !strings.Contains(text, "users") || strings.Contains(text, "phone") {
		t.Errorf("/readyz: %d %s", code, text)
	}
	l.configure(cellViews, strings.ReplaceAll(emailView, "index_users_email", "more"))
	l.exec("CREATE TABLE more LIKE index_users_email")
	p.reread(2) // a reload doesn't resume the views
	l.caughtUp("more", "index_users_phone")
	asker.reaches("users", "paused")
	l.expect(emails)
	l.expect("SELECT email FROM more", "a@x.org")
	type line struct{ View, Did string }
	if got := jsonLines[line](t, asker.must("resume", "--json", "users", "index_users_email")); len(got) != 2 ||
		got[0] != (line{"users", "resumed"}) {
		t.Errorf("%+v", got)
	}
	asker.caughtUp()
	l.expect(emails, "a@x.org a")
	for args, want := range map[string]struct {
		code int
		says string
	}{
		"pause":             {2, "name one or more views to pause. "},
		"pause usrs":        {2, "has no view"},
		"resume users usrs": {2, "has no view"},
	} {
		if r := asker.run(strings.Fields(args)...); r.code != want.code || !strings.Contains(r.errors, want.says) {
			t.Errorf("%s: %+v", args, r)
		}
	}
	if out := asker.command("__complete", "-c", l.file(), "pause", "users", "").out; strings.Contains(out, "users\n") ||
		!strings.Contains(out, "index_users_phone\n") {
		t.Errorf("completion: %s", out)
	}

	// The running process doesn't know the new view yet. It refuses with exit status 1, which isn't a usage error.
	l.configure(cellViews, strings.ReplaceAll(emailView, "index_users_email", "another"))
	if r := asker.run("pause", "another"); r.code != 1 || !strings.Contains(r.errors, "SIGHUP") {
		t.Errorf("a view of the file alone: %+v", r)
	}
	p.stop()
}
