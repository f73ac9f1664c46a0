package jogchat_test

import (
	"context"
	"database/sql"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"replicator/examples/jogchat"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

func TestMain(m *testing.M) {
	_ = mysql.SetLogger(log.New(io.Discard, "", 0)) // servers die under the writers: the driver need not tell
	servertest.Main(m)
}

// program is the built program and a place for it to run.
type program struct {
	t      testing.TB
	binary string
	dsn    string
}

func build(t testing.TB) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "replicator")
	if out, err := exec.Command("go", "build", "-o", binary, "replicator/cmd/replicator").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return binary
}

// command prepares a run with a state directory of its own; edit may change the configuration.
func (p *program) command(state string, edit func(string) string, args ...string) *exec.Cmd {
	p.t.Helper()
	file := filepath.Join(state, "replicator.toml")
	if err := os.MkdirAll(state, 0o755); err != nil {
		p.t.Fatal(err)
	}
	text := jogchat.Config
	if edit != nil {
		text = edit(text)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
	cmd := exec.Command(p.binary, append(args, "-c", file)...)
	cmd.Env = append(os.Environ(), "JOGCHAT_DSN="+p.dsn, "JOGCHAT_STATE="+filepath.Join(state, "state"), "JOGCHAT_LISTEN=127.0.0.1:0")
	output, err := os.OpenFile(filepath.Join(state, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { output.Close() })
	cmd.Stdout, cmd.Stderr = output, output
	return cmd
}

// catchUp runs the program until every view includes all that is committed.
func (p *program) catchUp(state string, edit func(string) string) {
	p.t.Helper()
	cmd := p.command(state, edit, "run", "--until-caught-up")
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	timer := time.AfterFunc(3*time.Minute, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	if err := cmd.Wait(); err != nil {
		output, _ := os.ReadFile(filepath.Join(state, "log"))
		p.t.Fatalf("run --until-caught-up: %v\n%s", err, lastLines(string(output), 20))
	}
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// prepare makes the example's database, and a user who has just the rights that the README asks for.
func prepare(t testing.TB, s *servers.Server) (db *sql.DB, dsn string) {
	t.Helper()
	root, err := sql.Open("mysql", s.DSN(""))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, q := range []string{
		"CREATE DATABASE jogchat CHARACTER SET utf8mb4", // MariaDB 10.11's default is latin1, which holds no 学校
		"CREATE USER replicator@'127.0.0.1' IDENTIFIED BY 'secret'",
		"GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO replicator@'127.0.0.1'",
		"GRANT ALL ON jogchat.* TO replicator@'127.0.0.1'",
	} {
		if _, err := root.Exec(q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	db, err = sql.Open("mysql", s.DSN("jogchat"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	for _, q := range jogchat.Schema() {
		if _, err := db.Exec(q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	c := mysql.NewConfig()
	c.Net, c.Addr, c.User, c.Passwd, c.DBName = "tcp", s.Addr(), "replicator", "secret", "jogchat"
	return db, c.FormatDSN()
}

// write lets writers work until the returned function is called. Errors are part of it: servers die under them.
func write(t testing.TB, db *sql.DB, seed uint64, writers int) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			w := jogchat.NewWriter(db, seed+uint64(i), 400)
			for ctx.Err() == nil {
				if err := w.Step(ctx); err != nil {
					select {
					case <-time.After(10 * time.Millisecond):
					case <-ctx.Done():
					}
				}
			}
		})
	}
	return func() { cancel(); wg.Wait() }
}

func verify(t testing.TB, db *sql.DB, when string) {
	t.Helper()
	report, err := jogchat.Verify(t.Context(), db, db)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Differences) > 0 {
		t.Fatalf("%s: %d tables differ from the cells:\n%s", when, len(report.Differences), strings.Join(report.Differences, "\n"))
	}
	if report.Rows == 0 {
		t.Fatalf("%s: every table is empty", when)
	}
	t.Logf("%s: %d tables, %d rows, all as the cells say", when, report.Tables, report.Rows)
}

// kills and serverKills are how often the program and the server are killed, on each kind of server.
const (
	kills       = 24
	serverKills = 3
)

func TestEveryTableEqualsTheCellsThroughKillsOfProgramAndServer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute on each server")
	}
	binary := build(t)
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 0))
		server := servertest.Own(t, kind)
		db, dsn := prepare(t, server)
		p := &program{t: t, binary: binary, dsn: dsn}
		dir := t.TempDir()
		stop := write(t, db, seed, 2)
		var second *exec.Cmd
		for n := range kills {
			cmd := p.command(filepath.Join(dir, "first"), nil, "run")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if n == kills/3 { // a second replicator with a state of its own, for a while
				second = p.command(filepath.Join(dir, "second"), nil, "run")
				if err := second.Start(); err != nil {
					t.Fatal(err)
				}
			}
			pause(t, time.Duration(200+r.IntN(900))*time.Millisecond)
			if n%(kills/serverKills) == kills/serverKills-1 {
				if err := server.Kill(); err != nil {
					t.Fatal(err)
				}
				pause(t, 200*time.Millisecond)
				if err := server.Restart(t.Context()); err != nil {
					t.Fatal(err)
				}
				pause(t, time.Second)
			}
			kill(t, cmd)
			if n == 2*kills/3 {
				kill(t, second)
				second = nil
			}
		}
		if second != nil {
			kill(t, second)
		}
		stop()
		p.catchUp(filepath.Join(dir, "first"), nil)
		verify(t, db, "after the kills")

		// A third one replays all there is from the oldest binlog, over tables that are right already.
		p.catchUp(filepath.Join(dir, "third"), func(text string) string {
			return strings.Replace(text, "[source]\n", "[source]\nstart = \"earliest\"\n", 1)
		})
		verify(t, db, "after a replay from the oldest binlog")
	})
}

// pause lets time pass in which the program works; what is checked later does not depend on how much it did.
func pause(t testing.TB, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

func kill(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	_ = cmd.Process.Kill() // it may have ended by itself; Wait says so
	err := cmd.Wait()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != -1 {
		output, _ := os.ReadFile(cmd.Stderr.(*os.File).Name())
		t.Errorf("the program ended before it was killed: %v\n%s", err, lastLines(string(output), 8))
	}
}

func TestTheExampleRunsAsTheREADMESays(t *testing.T) {
	binary := build(t)
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		db, dsn := prepare(t, servertest.Own(t, kind))
		w := jogchat.NewWriter(db, 1, 200)
		for range 500 {
			if err := w.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		p := &program{t: t, binary: binary, dsn: dsn}
		state := t.TempDir()
		check := p.command(state, nil, "check")
		check.Stdout, check.Stderr = nil, nil
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("check: %v\n%s", err, out)
		}
		p.catchUp(state, nil)
		verify(t, db, "after a fill")
		for range 500 {
			if err := w.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		p.catchUp(state, nil)
		verify(t, db, "after more cells")
	})
}
