package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"replicator/internal/servers/servertest"
	"replicator/server"
)

// reread makes the program reload its configuration, and waits until it runs for the nth time.
func (p *process) reread(n int) {
	p.lab.t.Helper()
	p.signal(syscall.SIGHUP)
	eventually(p.lab.t, func() error {
		if p.Ended() {
			p.lab.t.Fatalf("the program ended:\n%s", p.Log())
		}
		return as(strings.Count(p.Log(), `"msg":"running"`) >= n, "the program goes on with what the file says")
	})
}

// refuses makes the program reload a configuration that it can't use. It waits until the log has the reasons.
func (p *process) refuses(why ...string) {
	p.lab.t.Helper()
	before := len(p.Log())
	p.signal(syscall.SIGHUP)
	eventually(p.lab.t, func() error {
		if p.Ended() {
			p.lab.t.Fatalf("the program ended:\n%s", p.Log())
		}
		for line := range strings.Lines(p.Log()[before:]) {
			if strings.Contains(line, "can't be used. The old one stays in use") {
				for _, w := range why {
					if !strings.Contains(line, w) {
						return fmt.Errorf("%s\ndoesn't say %q", line, w)
					}
				}
				return nil
			}
		}
		return errors.New("it does not say that the configuration can't be used")
	})
}

// taken returns an address that is in use until the test ends.
func taken(t *testing.T) string {
	somebody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { somebody.Close() })
	return somebody.Addr().String()
}

// A SIGHUP arrives while the program loads its file for the first time. The program must load the file again.
func TestASIGHUPAtTheStartIsNotDeadly(t *testing.T) {
	t.Parallel()
	l := newLab(t, servertest.MySQL(t))
	text, err := os.ReadFile(l.file())
	if err == nil {
		err = os.Remove(l.file())
	}
	if err == nil {
		err = syscall.Mkfifo(l.file(), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	p := l.start("run", "-c", l.file())
	var pipe *os.File
	eventually(t, func() (err error) { // this succeeds once the program has opened the pipe
		pipe, err = os.OpenFile(l.file(), os.O_WRONLY|syscall.O_NONBLOCK, 0)
		return err
	})
	p.signal(syscall.SIGHUP)
	if err = os.Remove(l.file()); err == nil {
		err = os.WriteFile(l.file(), text, 0o600) // the file for the reload
	}
	if err == nil {
		_, err = pipe.Write(text)
	}
	if err = errors.Join(err, pipe.Close()); err == nil {
		err = p.Ready(t.Context(), l.listen)
	}
	if err != nil {
		t.Fatal(err)
	}
	l.put("a", 1, `{"email": "a@x.org"}`)
	l.caughtUp()
	p.stop()
}

func TestSIGHUPFillsNewViewsAndStopsRemovedOnes(t *testing.T) {
	t.Parallel()
	l := newLab(t, servertest.MySQL(t))
	l.configure(source, program, mainSink, emailView, usersView)
	l.put("a", 1, `{"username": "ann", "email": "a@x.org", "phone": 1}`)
	p := l.running()
	l.caughtUp()
	l.configure(source, program, mainSink, emailView, phoneView)
	p.signal(syscall.SIGHUP)
	l.caughtUp("index_users_phone") // the program may not know this view yet
	l.expect("SELECT phone FROM index_users_phone", "1")
	l.put("b", 1, `{"username": "bob", "email": "b@x.org", "phone": 2}`)
	l.caughtUp()
	l.expect("SELECT phone FROM index_users_phone ORDER BY 1", "1", "2")
	l.expect(emails, "a@x.org a", "b@x.org b")
	l.expect("SELECT username FROM users", "ann")
	l.configure(source, program, mainSink, emailView, phoneView, "where = \"phone > 1\"\non_change = \"rebuild\"\n")
	p.signal(syscall.SIGHUP)
	l.caughtUp("index_users_phone") // with its definition in the changed file
	l.expect("SELECT phone FROM index_users_phone ORDER BY 1", "2")
	_, metrics := l.get("/metrics")
	if !strings.Contains(metrics, `replicator_changes_applied_total{op="put",view="index_users_email"} 2`) {
		t.Error("what was counted of a view that stays did not go on")
	}
	if strings.Contains(metrics, `view="users"`) {
		t.Error("a view that was removed shows in /metrics")
	}
	p.stop()
}

func TestAConfigurationThatCanNotBeUsedChangesNothing(t *testing.T) {
	l := newLab(t, servertest.MySQL(t))
	l.env["TAKEN"] = taken(t)
	p := l.running()
	l.caughtUp()
	for i, c := range []struct {
		name  string
		parts []string
		why   []string
	}{
		{"a syntax error", []string{cellViews, "[views"}, []string{"replicator.toml"}},
		{"an unknown key", []string{strings.Replace(cellViews, "fields", "feilds", 1)},
			[]string{"replicator.toml:", "feilds", "did you mean"}},
		{"an expression that does not compile", []string{cellViews, `where = "phone >"`}, []string{"index_users_phone"}},
		{"an address that is taken", []string{strings.Replace(cellViews, "${LISTEN}", "${TAKEN}", 1)},
			[]string{"address already in use"}},
		{"a store that can't be opened", []string{strings.Replace(cellViews, `path = "state"`, `path = "replicator.toml"`,
			1)}, []string{"replicator.toml"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l.t, p.lab.t = t, t
			l.configure(c.parts...)
			p.refuses(c.why...)
			eventually(t, func() error {
				_, text := l.get("/metrics")
				return as(strings.Contains(text, "\nreplicator_config_last_reload_successful 0\n"),
					"metrics tell of the reload that failed")
			})
			l.configure(cellViews)
			l.put(string(rune('a'+i)), 1, fmt.Sprintf(`{"email": "%d@x.org"}`, i))
			l.caughtUp()
			l.expect("SELECT COUNT(*) FROM index_users_email", fmt.Sprint(i+1))
		})
	}
	l.t = t
	l.configure(source, program, mainSink, emailView)
	before := strings.Count(p.Log(), `"msg":"running"`)
	p.reread(before + 1)
	if _, text := l.get("/api/v1/status"); strings.Contains(text, "index_users_phone") {
		t.Errorf("a good one after all that is not used: %s", text)
	}
	if _, text := l.get("/metrics"); !strings.Contains(text, "\nreplicator_config_last_reload_successful 1\n") {
		t.Error("metrics don't tell of the reload that succeeded")
	}
	p.stop()
}

// A changed definition that is refused stops only its view. The remedies in the error work.
func TestAChangedViewIsRefusedAloneOnSIGHUP(t *testing.T) {
	t.Parallel()
	l := newLab(t, servertest.MySQL(t))
	l.put("a", 1, `{"email": "a@x.org", "phone": 1}`)
	p := l.running()
	l.caughtUp()
	const phones = "SELECT phone FROM index_users_phone ORDER BY 1"
	changed := []string{cellViews, `where = "phone > 2"`}
	n := 1
	reload := func(parts ...string) {
		l.configure(parts...)
		n++
		p.reread(n)
	}
	refused := func() {
		t.Helper()
		l.failsWith("index_users_phone", "its definition changed", "`replicator rebuild index_users_phone -c "+l.file(),
			"change the definition back")
		eventually(t, func() error {
			code, text := l.get("/readyz")
			return as(code == 503 && strings.Contains(text, "index_users_phone") &&
				!strings.Contains(text, "index_users_email"), text)
		})
	}

	reload(changed...)
	refused()
	l.put("b", 1, `{"email": "b@x.org", "phone": 2}`)
	l.caughtUp("index_users_email", "users")
	l.expect(emails, "a@x.org a", "b@x.org b")
	l.expect(phones, "1")

	reload(cellViews) // the former definition again
	l.caughtUp()
	l.expect(phones, "1", "2")

	l.configure(changed...)
	if r := l.run("rebuild", "index_users_phone"); r.code != 1 || !strings.Contains(r.errors, "SIGHUP") {
		t.Errorf("a rebuild before the reload: %+v", r)
	}
	reload(changed...)
	refused()
	l.put("c", 1, `{"email": "c@x.org", "phone": 3}`)
	l.must("rebuild", "index_users_phone")
	l.caughtUp()
	l.expect(phones, "3")
	p.stop()
}

// Requests during a reload get an answer, even if the program goes back to the old configuration. A wait for a fence
// continues.
func TestTheAPIAnswersThroughoutAChangeOver(t *testing.T) {
	l := newLab(t, servertest.MySQL(t))
	l.env["TAKEN"] = taken(t)
	p := l.running()
	l.caughtUp()
	asking, enough := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	var asked int
	clients.Go(func() {
		for asking.Err() == nil {
			for _, path := range []string{"/api/v1/status", "/metrics", "/healthz"} {
				r, err := http.Get("http://" + l.listen + path)
				if err != nil {
					t.Errorf("%s: %v", path, err)
					return
				}
				r.Body.Close()
				if asked++; r.StatusCode != 200 {
					t.Errorf("%s: %s", path, r.Status)
				}
			}
		}
	})
	c := server.Client{Address: l.listen}
	file, _, _ := strings.Cut(l.position(), ":")
	late := make(chan error, 1)
	go func() { late <- c.Wait(t.Context(), server.Fence{At: file + ":4000000000"}, nil, 4*time.Second) }()
	for range 20 { // some of these requests arrive during the reload
		p.signal(syscall.SIGHUP)
		l.get("/healthz")
	}
	p.reread(3)
	l.configure(strings.Replace(cellViews, "${LISTEN}", "${TAKEN}", 1))
	p.refuses("address already in use")
	l.configure(cellViews)
	l.put("a", 1, `{"email": "a@x.org"}`)
	l.caughtUp()
	l.expect(emails, "a@x.org a")
	if err := <-late; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting through it: %v, not that the time is over", err)
	}
	enough()
	clients.Wait()
	t.Logf("%d answers, %d configurations", asked, strings.Count(p.Log(), `"msg":"running"`))
	p.stop()
}

func TestTheHTTPServerMovesOnSIGHUP(t *testing.T) {
	l := newLab(t, servertest.MySQL(t))
	p := l.running()
	was := l.listen
	_, port, _ := net.SplitHostPort(was)
	for i, address := range []string{"localhost:" + port, servertest.FreeAddress(t)} {
		l.listen = address
		l.configure(strings.Replace(cellViews, "${LISTEN}", address, 1))
		p.reread(i + 2)
		if code, text := l.get("/healthz"); code != 200 {
			t.Errorf("at %s: %d %s", address, code, text)
		}
	}
	if answer, err := http.Get("http://" + was + "/healthz"); err == nil {
		answer.Body.Close()
		t.Error("it still answers where it was")
	}
	p.stop()
}
