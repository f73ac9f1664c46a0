package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"replicator/internal/servers/servertest"
)

// get requests a page from the running program. It fails the test if the answer contains the password.
func (l *lab) get(path string) (code int, body string) {
	l.t.Helper()
	r, err := http.Get("http://" + l.listen + path)
	if err != nil {
		l.t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		l.t.Fatal(err)
	}
	if strings.Contains(string(text), password) {
		l.t.Errorf("%s shows the password:\n%s", path, text)
	}
	return r.StatusCode, string(text)
}

// metricNames returns the names of the metrics that SPEC promises.
func metricNames() []string {
	return []string{"source_position_age_seconds", "source_events_total", "source_bytes_total", "view_lag_seconds{view=",
		"changes_applied_total{op=", "changes_stale_total{view=", "dead_letters_total{reason=", "dead_letters{view=",
		"batch_seconds_bucket{sink=", "batch_changes{sink=", "sink_retries_total{sink=",
		"commit_to_visible_seconds_bucket{view=",
		"rebuild_rows_total{view=", "rebuild_progress_ratio{view=", "checkpoint_age_seconds{view=",
		"binlog_retention_seconds",
		"build_info{goversion=", "config_last_reload_successful 1"}
}

func TestHTTPTellsTheState(t *testing.T) {
	l := newLab(t, servertest.MySQL(t))
	l.put("a", 1, `{"email": "a@x.org", "phone": 4155550100}`)
	p := l.running()
	l.caughtUp()
	if n := strings.Count(p.Log(), "a change became a dead letter"); n != 2 ||
		!strings.Contains(p.Log(), `"level":"WARN"`) {
		t.Errorf("the log tells %d times of the dead letters of two views:\n%s", n, p.Log())
	}
	eventually(t, func() error {
		code, text := l.get("/readyz")
		return as(code == 200, text)
	})
	if code, text := l.get("/healthz"); code != 200 {
		t.Errorf("/healthz: %d %s", code, text)
	}
	if code, text := l.get("/"); code != 200 || !strings.Contains(text, "index_users_email") ||
		!strings.Contains(text, "running") {
		t.Errorf("/: %d %s", code, text)
	}
	var status struct{ Views []viewStatus }
	code, text := l.get("/api/v1/status")
	if err := json.Unmarshal([]byte(text), &status); err != nil || code != 200 || len(status.Views) != 3 {
		t.Errorf("/api/v1/status: %d, %v: %s", code, err, text)
	}
	for path, want := range map[string]string{
		"/deadletters":        "index_users_phone",
		"/api/v1/deadletters": `"letters":1`,
	} {
		if code, text := l.get(path); code != 200 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	l.put("a", 2, `{"email": "b@x.org"}`) // a newer version clears the letter
	if code, text := l.get("/api/v1/wait?view=index_users_email&timeout=20s&gtid=" +
		url.QueryEscape(l.gtids())); code != 200 {
		t.Errorf("/api/v1/wait: %d %s", code, text)
	}
	l.expect(emails, "b@x.org a")
	for path, want := range map[string]int{
		"/api/v1/wait":                                  400,
		"/api/v1/wait?pos=nonsense&timeout=1s":          400,
		"/api/v1/wait?pos=" + l.position() + "&view=no": 404,
		"/api/v1/wait?timeout=100ms&pos=" + strings.Split(l.position(), ":")[0] + ":4000000000": 504,
		"/nothing": 404,
	} {
		if code, text := l.get(path); code != want {
			t.Errorf("%s: %d, want %d: %s", path, code, want, text)
		}
	}
	_, metrics := l.get("/metrics")
	for _, name := range metricNames() {
		if !strings.Contains(metrics, "\nreplicator_"+name) {
			t.Errorf("/metrics lacks replicator_%s", name)
		}
	}
	if !strings.Contains(metrics, `replicator_dead_letters_total{reason="rejected",view="index_users_phone"} 1`) {
		t.Error("the dead letter was not counted")
	}
}

func TestReadinessTellsTheTruth(t *testing.T) {
	l := newLab(t, servertest.MySQL(t))
	for i := range 200 {
		l.put(string(rune('a'+i%20)), int64(i), `{"email": "a@x.org"}`)
	}
	l.configure(cellViews, "[rebuild]\nrate = 20\n")
	p := l.running()
	l.reaches("users", "filling")
	if code, text := l.get("/readyz"); code != 503 || !strings.Contains(text, "filling") {
		t.Errorf("while filling: %d %s", code, text)
	}
	if code, _ := l.get("/healthz"); code != 200 {
		t.Errorf("alive while filling: %d", code)
	}
	if code, text := l.get("/"); code != 200 || !strings.Contains(text, "filling") {
		t.Errorf("/ while filling: %d %s", code, text)
	}
	if r := l.run("health"); r.code != 0 || r.out != "alive\n" {
		t.Errorf("health while filling: %+v", r)
	}
	if r := l.run("health", "--ready"); r.code != 1 || !strings.Contains(r.errors, "view users is not ready: filling") {
		t.Errorf("health --ready while filling: %+v", r)
	}
	p.kill()
	l.configure(cellViews)
	l.exec("DROP TABLE users")
	l.running()
	l.failsWith("users", "users", "replicator rebuild users -c ")
	code, text := l.get("/readyz")
	if code != 503 || !strings.Contains(text, "failed") || !strings.Contains(text, "users") {
		t.Errorf("with a table missing: %d %s", code, text)
	}
	if code, _ := l.get("/healthz"); code != 200 {
		t.Errorf("alive while failed: %d", code)
	}
	if code, text := l.get("/"); code != 200 || !strings.Contains(text, "failed") {
		t.Errorf("/ while failed: %d %s", code, text)
	}
}

func TestTheManualsNamesExist(t *testing.T) {
	root := filepath.Join("..", "..")
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(readme), "\n## Commands\n")
	if !found {
		t.Fatal("README.md has no section Commands")
	}
	table, _, _ = strings.Cut(table, "\n## ")
	listed := map[string]bool{}
	for line := range strings.Lines(table) {
		if cell, ok := strings.CutPrefix(line, "| `"); ok {
			cell, _, _ = strings.Cut(cell, " |")
			for name := range strings.SplitSeq("`"+cell, ", ") {
				if word, ok := strings.CutPrefix(name, "`"); ok && !strings.HasPrefix(word, "-") {
					listed[strings.Fields(strings.Trim(word, "`"))[0]] = true
				}
			}
		}
	}
	for _, name := range commandNames(t) {
		if !listed[name] {
			t.Errorf("README.md's table lacks %s", name)
		}
		delete(listed, name)
	}
	for name := range listed {
		t.Errorf("README.md lists %q, which is no command", name)
	}

	manual, err := os.ReadFile(filepath.Join(root, "docs", "operating.md"))
	if err != nil {
		t.Fatal(err)
	}
	l := newLab(t, servertest.MySQL(t))
	l.program = built // no need for the race detector, because the test only asks the program
	l.configure(cellViews)
	l.running()
	l.caughtUp()
	_, metrics := l.get("/metrics")
	mentioned := 0
	for _, word := range strings.FieldsFunc(string(manual),
		func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') }) {
		if strings.HasPrefix(word, "replicator_") && word != "replicator_" { // the prefix of sinks' tables
			mentioned++
			if !strings.Contains(metrics, "\n# TYPE "+word+" ") {
				t.Errorf("docs/operating.md mentions %s, which /metrics lacks", word)
			}
		}
	}
	if mentioned < 3 {
		t.Error(fmt.Sprint("docs/operating.md mentions ", mentioned, " metrics"))
	}
}
