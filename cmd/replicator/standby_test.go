package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"replicator/internal/changelog"
	"replicator/internal/pause"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// sharedStore is cellViews with checkpoints in MySQL, which several processes can share.
var sharedStore = sharing(cellViews)

// sharing returns a configuration with checkpoints in MySQL, which several processes can share.
func sharing(text string) string {
	return strings.Replace(text, `path = "state"`, "store = \"mysql\"\ndsn = \"${DSN}\"", 1)
}

// beside returns the same program with another directory and another address.
func (l *lab) beside() *lab {
	l.t.Helper()
	other := *l
	other.dir, other.listen = l.t.TempDir(), servertest.FreeAddress(l.t)
	other.env = map[string]string{"DSN": l.env["DSN"], "LISTEN": other.listen}
	other.configure(sharedStore)
	return &other
}

// answer requests a page from the program.
func (l *lab) answer(path string) (code int, body string) {
	r, err := http.Get("http://" + l.listen + path)
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, err.Error()
	}
	return r.StatusCode, string(text)
}

// ready waits until the program is ready and returns how long that took.
func (l *lab) ready() time.Duration {
	l.t.Helper()
	began := time.Now()
	eventually(l.t, func() error {
		code, body := l.answer("/readyz")
		return as(code == http.StatusOK, "ready: "+body)
	})
	return time.Since(began)
}

// standsBy waits until the program is a standby while another one runs. It checks all the ways in which the program
// says so.
func (l *lab) standsBy() {
	l.t.Helper()
	l.standsByAs("users", "another replicator runs")
}

func (l *lab) standsByAs(view, why string) {
	l.t.Helper()
	l.reaches(view, "standby")
	for path, want := range map[string]struct {
		code int
		text string
	}{
		"/healthz":       {http.StatusOK, "alive"},
		"/readyz":        {http.StatusServiceUnavailable, why},
		"/api/v1/status": {http.StatusOK, `"state":"standby"`},
		"/metrics":       {http.StatusOK, "\nreplicator_standby 1\n"},
	} {
		if code, body := l.answer(path); code != want.code || !strings.Contains(body, want.text) {
			l.t.Errorf("%s of a standby: %d, want %d and %q:\n%s", path, code, want.code, want.text, body)
		}
	}
}

// writes starts to write versions of four users, and stops when the returned function is called.
func (l *lab) writes() (stop func()) {
	ctx, cancel := context.WithCancel(l.t.Context())
	var writing sync.WaitGroup
	writing.Go(func() {
		for i := int64(1); ctx.Err() == nil; i++ {
			began := time.Now()
			l.put(string(rune('a'+i%4)), i, fmt.Sprintf(`{"username": "%09d", "email": "%d@x.org", "phone": %d}`, i, i, i))
			ease(ctx, int(i), time.Since(began))
		}
	})
	return func() { cancel(); writing.Wait() }
}

// neverBack starts to read the users. It fails the test if a user's version goes back. It stops when the returned
// function is called.
func (l *lab) neverBack() (stop func()) {
	ctx, cancel := context.WithCancel(l.t.Context())
	var reading sync.WaitGroup
	reading.Go(func() {
		shown := map[string]string{}
		for ctx.Err() == nil {
			rows, err := tryRows(ctx, l.db, "SELECT HEX(id), username FROM users")
			if err != nil {
				continue // the test is ending, or its last check will fail
			}
			for _, row := range rows {
				id, name, _ := strings.Cut(row, " ")
				if name < shown[id] {
					l.t.Errorf("user %s steps back from %s to %s", id, shown[id], name)
				}
				shown[id] = name
			}
			_ = pause.For(ctx, time.Millisecond) // leave the processors to the processes under test
		}
	})
	return func() { cancel(); reading.Wait() }
}

// standsStill suspends a process while it has no transaction open. The process writes marks now and then, even if
// nothing changes, so this may need several attempts.
func (l *lab) standsStill(p *process) {
	l.t.Helper()
	open := "db = DATABASE() AND id IN (SELECT trx_mysql_thread_id FROM information_schema.innodb_trx)"
	for range 100 {
		p.signal(syscall.SIGSTOP)
		if found, err := l.sessions(open); err == nil && len(found) == 0 {
			return
		}
		p.signal(syscall.SIGCONT)
		_ = pause.For(l.t.Context(), 150*time.Millisecond) // the server updates its list every 0.1 s
	}
	l.t.Fatal("it is in a transaction whenever it is stopped")
}

// pair is two processes that share a store and keep a view.
type pair struct {
	view            string
	active, waiting *lab
	runs, waits     *process
}

func newPair(view string, active, waiting *lab) *pair {
	p := &pair{view: view, active: active, waiting: waiting, runs: active.running()}
	active.ready()
	p.standby()
	return p
}

// standby starts the waiting process and returns once it is a standby.
func (p *pair) standby() {
	p.waits = p.waiting.running()
	p.waiting.standsByAs(p.view, "another replicator runs")
}

// killed kills the running process several times, each time after another one has become a standby. It returns the
// durations of the takeovers, the shortest first.
func (p *pair) killed(times int) (took []time.Duration) {
	for range times {
		p.runs.kill()
		took = append(took, p.waiting.ready())
		p.active, p.waiting, p.runs = p.waiting, p.active, p.waits
		p.standby()
	}
	slices.Sort(took)
	p.active.t.Logf("%d kills: taken over after %s (p50), %s (max)", times, took[times/2], took[times-1])
	return took
}

// inTime fails the test if a takeover took longer than documented for a machine that is otherwise idle.
func inTime(t *testing.T, took ...time.Duration) {
	t.Helper()
	for _, d := range took {
		if os.Getenv("REPLICATOR_SOAK") != "" && d > 5*time.Second {
			t.Errorf("taken over after %s", d)
		}
	}
}

// Two processes share one store. However the running one ends, the other takes over.
func TestAStandbyTakesOver(t *testing.T) {
	for s, kills := range map[servers.Kind]int{servers.MySQL: 2, servers.MariaDB1011: 1} {
		if os.Getenv("REPLICATOR_SOAK") != "" {
			kills = 20
		}
		t.Run(string(s), func(t *testing.T) {
			l := newLab(t, servertest.Shared(t, s))
			l.configure(sharedStore)
			p := newPair("users", l, l.beside())
			stopWrites, stopReads := l.writes(), l.neverBack()
			took := p.killed(kills)
			active, waiting, runs, waits := p.active, p.waiting, p.runs, p.waits

			// The suspended process acts like one whose machine is gone. If it were within a transaction at the sink,
			// that transaction's locks would remain until the server ends the session (docs/operating.md). So nothing
			// is written at this time.
			stopWrites()
			active.caughtUp()
			active.must("pause", "index_users_phone") // the pause ends with the process
			active.standsStill(runs)
			stood := waiting.ready()
			t.Logf("one that stands still: taken over after %s", stood)
			runs.signal(syscall.SIGCONT)
			active.standsBy()
			active, waiting, runs, waits = waiting, active, waits, runs

			runs.signal(syscall.SIGTERM)
			left := waiting.ready()
			t.Logf("one that is told to end: taken over after %s", left)
			if code := runs.wait(); code != 0 {
				t.Errorf("exit status %d after SIGTERM", code)
			}
			inTime(t, append(took, stood, left)...)
			waiting.caughtUp()
			stopReads()
			waiting.must("verify")
			waits.stop()
		})
	}
}

// A publisher's standby also takes over. In the end the topic has every cell, and no record is older than the previous
// record of its cell.
func TestAPublishersStandbyTakesOver(t *testing.T) {
	kills := 3
	if os.Getenv("REPLICATOR_SOAK") != "" {
		kills = 20
	}
	l := newTopicLab(t)
	l.configure(sharing(changelogViews))
	other := l.member("")
	other.configure(sharing(changelogViews))
	p := newPair("cells", l.lab, other)
	stopWrites := l.writes()
	inTime(t, p.killed(kills)...)
	stopWrites()
	p.active.caughtUp()
	p.active.must("verify", "cells")
	versions, n := map[string]int64{}, 0
	eachRecord(t, l.env["BROKER"], l.env["TOPIC"], func(key string, r *changelog.Record) {
		if r.State.Version < versions[key] {
			t.Errorf("%v steps back from version %d to %d", r.Cell, versions[key], r.State.Version)
		}
		versions[key], n = r.State.Version, n+1
	})
	if len(versions) != 4 || n < 4*kills {
		t.Errorf("the topic has %d records of %d cells", n, len(versions))
	}
	p.waits.stop()
	p.runs.stop()
}

// A comparison must know the views' progress. A process on a standby's machine can't find it out, so it must refuse.
func TestAStandbyRefusesAVerification(t *testing.T) {
	t.Parallel()
	l := newLab(t, servertest.MySQL(t))
	l.configure(sharedStore)
	l.put("a", 1, `{"email": "a@x.org"}`)
	l.running()
	l.caughtUp()
	waiting := l.beside()
	waiting.running()
	waiting.standsBy()
	l.exec("DELETE FROM users")
	for _, args := range [][]string{{"verify"}, {"verify", "--repair", "users"}} {
		if r := waiting.run(args...); r.code != 1 || strings.Count(r.errors, "at the process that runs") != 1 {
			t.Errorf("%v on a standby's machine: %+v", args, r)
		}
	}
}

func TestAStandbyEndsAndRereadsItsFile(t *testing.T) {
	l := newLab(t, servertest.MySQL(t))
	l.configure(sharedStore)
	p := l.running()
	l.ready()
	other := l.beside()
	other.configure(strings.Replace(sharedStore, mainSink,
		"\n[sinks.main]\ntype = \"mysql\"\ndsn = \"nobody@tcp(127.0.0.1:1)/app\"\n", 1))
	waits := other.running()
	other.standsBy() // a standby needs no sink
	other.configure(source, strings.TrimPrefix(strings.TrimSuffix(sharedStore, phoneView), source))
	waits.signal(syscall.SIGHUP)
	eventually(t, func() error {
		_, body := other.answer("/api/v1/status")
		return as(strings.Contains(body, "standby") && !strings.Contains(body, "index_users_phone"),
			"the file is read again: "+body)
	})
	for _, args := range [][]string{{"pause", "users"}, {"rebuild", "users"}} {
		if r := other.run(args...); r.code != 1 || !strings.Contains(r.errors, "stands by") {
			t.Errorf("%v asked of a standby: %+v", args, r)
		}
	}
	p.signal(syscall.SIGHUP) // the process keeps the store during the reload
	eventually(t, func() error { return as(strings.Contains(p.Log(), "configuration reloaded"), "reloaded") })
	l.ready()
	other.standsBy()
	waits.stop()
}

// After a power failure, a process may start before its store's server, and it must wait. During a reload, it must
// refuse a store that doesn't answer. A run with --until-caught-up must fail, too.
func TestAProcessThatBeginsBeforeItsStoreDoes(t *testing.T) {
	t.Parallel()
	s := servertest.MySQL(t)
	l := newLab(t, s)
	link := servertest.NewLink(t, s.Addr())
	l.env["STORE"] = strings.Replace(l.env["DSN"], s.Addr(), link.Address(), 1)
	text := strings.Replace(cellViews, `path = "state"`, "store = \"mysql\"\ndsn = \"${STORE}\"", 1)
	l.configure(text)
	link.Lead("127.0.0.1:1")
	if r := l.run("run", "--until-caught-up"); r.code == 0 {
		t.Errorf("a run that is to end by itself: %+v", r)
	}
	p := l.running()
	l.standsByAs("users", "the checkpoint store can't be reached")
	link.Lead(s.Addr())
	l.ready()
	l.configure(strings.Replace(text, "${STORE}", "nobody@tcp(127.0.0.1:1)/app", 1))
	p.signal(syscall.SIGHUP)
	eventually(t, func() error { return as(strings.Contains(p.Log(), "The old one stays"), "the reload is refused") })
	l.ready()
	l.caughtUp()
	p.stop()
}
