package main

import (
	"strings"
	"testing"

	"replicator/internal/servers/servertest"
)

// on_change decides whether a changed definition starts a rebuild. A rebuild that is already running continues even if
// on_change is removed.
func TestARebuildThatIsUnderWayIsToldOfInOneWay(t *testing.T) {
	t.Parallel()
	l := newLab(t, servertest.MySQL(t))
	slow, changed := strings.Replace(slowly, "200", "100", 1), usersView+"where = \"username != ''\"\n"
	l.configure(cellViews, slow)
	p := l.fillLab(1200)
	l.caughtUp()
	l.configure(source, program, mainSink, changed+"on_change = \"rebuild\"\n", slow)
	p.reread(2)
	eventually(t, func() error { // before that, the store knows nothing about the rebuild
		status := l.must("status", "--json")
		return as(strings.Contains(status, `"rebuilding"`) && strings.Contains(status, `"filled_rows"`), status)
	})
	code, ready := l.get("/readyz")
	_, metrics := l.get("/metrics")
	if code != 503 || !strings.Contains(ready, "not kept up") ||
		!strings.Contains(metrics, `replicator_view_running{view="users"} 0`) {
		t.Errorf("while it shows the earlier definition: %d %s", code, ready)
	}
	l.configure(source, program, mainSink, changed, slow)
	if text := l.must("plan"); !strings.Contains(text, "a running rebuild continues") {
		t.Errorf("planned:\n%s", text)
	}
	p.reread(3)
	if st := l.reaches("users", "rebuilding"); st.Error != "" {
		t.Errorf("%+v", st)
	}
	l.caughtUp("users") // this waits until the rebuild is done
	if strings.Contains(p.Log(), "views do not run") {
		t.Errorf("logged:\n%s", p.Log())
	}
	l.expect("SELECT COUNT(*) FROM users", "1200")
	l.must("verify", "users")
}
