package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/server"
)

// verified is what the running program says of its latest verification of a view; nil if there was none.
func (l *lab) verified(view string) *replicator.Verification {
	l.t.Helper()
	for _, s := range jsonLines[replicator.ViewStatus](l.t, l.must("status", "--json")) {
		if s.View == view {
			return s.Verified
		}
	}
	return nil
}

// finds waits until a verification of a view says what is wanted.
func (l *lab) finds(view, what string, holds func(*replicator.Verification) bool) {
	l.t.Helper()
	eventually(l.t, func() error {
		v := l.verified(view)
		return as(v != nil && holds(v), fmt.Sprintf("view %s: a verification that finds %s; the latest: %+v", view, what, v))
	})
}

func TestRunVerifiesTheViewsAgainAndAgain(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		l := newLab(t, s)
		for _, key := range []string{"a", "b", "c", "d"} {
			l.put(key, 1, fmt.Sprintf(`{"username": "%s", "email": "%s@x.org", "phone": 1}`, key, key))
		}
		l.configure(cellViews, "[verify]\nevery = \"1s\"\n")
		p := l.running()
		l.caughtUp()
		l.finds("users", "nothing", func(v *replicator.Verification) bool {
			return v.Checked == 4 &&
				v.Error == "" && !v.Wrong()
		})

		l.exec("DELETE FROM users WHERE username = 'a'", "UPDATE users SET email = 'planted' WHERE username = 'b'",
			"INSERT INTO index_users_email VALUES ('planted', REPEAT('z', 16))")
		l.finds("users", "a missing and a stale row", func(v *replicator.Verification) bool {
			return v.Missing == 1 &&
				v.Stale == 1 && v.Extra == 0
		})
		l.finds("index_users_email", "an extra entry",
			func(v *replicator.Verification) bool { return v.Missing+v.Stale == 0 && v.Extra == 1 })
		l.finds("index_users_phone", "nothing", func(v *replicator.Verification) bool { return v.Checked == 4 && !v.Wrong() })
		if text := l.must("status"); !strings.Contains(text, "2 differ, ") || !strings.Contains(text, "VERIFIED") &&
			!strings.Contains(text, "verified") {
			t.Errorf("status:\n%s", text)
		}
		if _, text := l.get("/"); !strings.Contains(text, "2 differ, ") {
			t.Errorf("the status page:\n%s", text)
		}
		_, metrics := l.get("/metrics")
		for _, name := range []string{`verify_differences_total{kind="missing",view="users"}`,
			`verify_differences_total{kind="stale",view="users"}`,
			`verify_differences_total{kind="extra",view="index_users_email"}`, `verify_cells_total{view="users"}`,
			`verify_last_completed_timestamp_seconds{view="users"}`} {
			if !strings.Contains(metrics, "\nreplicator_"+name+" ") || strings.Contains(metrics, "\nreplicator_"+name+" 0\n") {
				t.Errorf("/metrics lacks a count of replicator_%s", name)
			}
		}
		if strings.Contains(p.Log(), "planted") || strings.Contains(p.Log(), "x.org") {
			t.Error("the log shows what a cell holds")
		}

		// SIGHUP: what is new in [verify] counts from then on.
		l.configure(cellViews, "[verify]\nevery = \"1s\"\nrepair = true\n")
		p.reread(2)
		l.finds("users", "what it repairs", func(v *replicator.Verification) bool { return v.Repaired == 2 && !v.Wrong() })
		l.finds("users", "nothing left", func(v *replicator.Verification) bool { return v.Missing+v.Stale+v.Extra == 0 })
		l.finds("index_users_email", "nothing left",
			func(v *replicator.Verification) bool { return v.Missing+v.Stale+v.Extra == 0 })
		l.expect("SELECT username, email FROM users ORDER BY 1", "a a@x.org", "b b@x.org", "c c@x.org", "d d@x.org")
		l.expect(emails, "a@x.org a", "b@x.org b", "c@x.org c", "d@x.org d")
		if _, metrics := l.get("/metrics"); !strings.Contains(metrics, `replicator_verify_repaired_total{view="users"} 2`) {
			t.Error("/metrics lacks what was repaired")
		}
		l.configure(cellViews)
		p.reread(3)
		if v := l.verified("users"); v != nil {
			t.Errorf("without [verify]: %+v", v)
		}
		p.stop()
	})
}

func TestAViewThatIsPausedIsNotVerifiedAndTheOthersAre(t *testing.T) {
	l := newLab(t, servertest.MySQL(t))
	l.put("a", 1, `{"username": "ann", "email": "a@x.org", "phone": 1}`)
	l.configure(cellViews, "[verify]\nevery = \"1s\"\n")
	p := l.running()
	l.caughtUp()
	c := server.Client{Address: l.listen}
	if err := c.Pause(t.Context(), "users"); err != nil {
		t.Fatal(err)
	}
	l.exec("DELETE FROM users", "DELETE FROM index_users_phone")
	l.finds("index_users_phone", "what is missing", func(v *replicator.Verification) bool { return v.Missing == 1 })
	eventually(t, func() error {
		return as(strings.Contains(p.Log(), "it is paused"), "the log says why a view was not verified")
	})
	if v := l.verified("users"); v != nil && v.Missing > 0 {
		t.Errorf("a paused view was verified: %+v", v)
	}
	if err := c.Resume(t.Context(), "users"); err != nil {
		t.Fatal(err)
	}
	l.finds("users", "what is missing", func(v *replicator.Verification) bool { return v.Missing == 1 })
	p.stop()
}

func TestAVerificationThatFailsIsToldAndTriedAgain(t *testing.T) {
	l := newLab(t, servertest.MySQL(t))
	l.put("a", 1, `{"username": "ann", "email": "a@x.org", "phone": 1}`)
	l.configure(cellViews, "[verify]\nevery = \"1s\"\n")
	p := l.running()
	l.caughtUp()
	l.exec("RENAME TABLE users TO away") // the pipeline only sees it when it has something to write
	eventually(t, func() error {
		v := l.verified("users")
		return as(v != nil && strings.Contains(v.Error, "users"), fmt.Sprintf("the failure is told: %+v", v))
	})
	if text := l.must("status"); !strings.Contains(text, "verify: view users: ") {
		t.Errorf("status:\n%s", text)
	}
	if _, metrics := l.get("/metrics"); strings.Contains(metrics, "replicator_verify_errors_total{view=\"users\"} 0\n") {
		t.Error("the failure was not counted")
	}
	l.finds("index_users_email", "nothing", func(v *replicator.Verification) bool { return v.Checked == 1 && !v.Wrong() })
	l.exec("RENAME TABLE away TO users")
	l.finds("users", "nothing", func(v *replicator.Verification) bool { return v.Checked == 1 && !v.Wrong() })
	p.stop()
}

func TestVerifyingIsHeldToItsRate(t *testing.T) {
	l := newLab(t, servertest.MySQL(t))
	for i := range 26 {
		l.put(string(rune('a'+i)), 1, `{"username": "x", "email": "a@x.org", "phone": 1}`)
	}
	l.configure(source, program, mainSink, usersView, "[verify]\nevery = \"1s\"\nrate = 20\n")
	p := l.running()
	l.finds("users", "nothing", func(v *replicator.Verification) bool { return v.Checked == 26 && !v.Wrong() })
	var took time.Duration // 26 cells, each looked at by both passes; the last page of each is followed by no pause
	for _, line := range jsonLines[struct {
		Msg  string
		Took string
	}](t, p.Log()) {
		if line.Msg == "verified" {
			var err error
			if took, err = time.ParseDuration(line.Took); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	if took < 2*time.Second {
		t.Errorf("52 looks at 20 a second took %s", took)
	}
	p.stop()
}
