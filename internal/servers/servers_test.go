package servers_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

func open(t *testing.T, s *servers.Server, db string) *sql.DB {
	t.Helper()
	conn, err := sql.Open("mysql", s.DSN(db))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func mustExec(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, st := range statements {
		if _, err := db.ExecContext(t.Context(), st); err != nil {
			t.Fatalf("%s: %v", st, err)
		}
	}
}

func text(t *testing.T, db *sql.DB, query string) string {
	t.Helper()
	var out string
	if err := db.QueryRowContext(t.Context(), query).Scan(&out); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return out
}

func TestTwoOfEachSideBySide(t *testing.T) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		a, b := servertest.Shared(t, kind), servertest.Own(t, kind)
		if a.Port == b.Port || a.Dir == b.Dir || a.PID() == b.PID() {
			t.Fatalf("they share a port, directory or process: %+v, %+v", a, b)
		}
		dbA, dbB := open(t, a, ""), open(t, b, "")
		only := servertest.Database(t, a)
		if n := text(t, dbB, "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = '"+only+"'"); n != "0" {
			t.Error("a database made in one is seen in the other")
		}
		if !kind.IsMariaDB() && text(t, dbA, "SELECT @@server_uuid") == text(t, dbB, "SELECT @@server_uuid") {
			t.Error("they have one server_uuid")
		}
		if text(t, dbA, "SELECT @@tmpdir") == text(t, dbB, "SELECT @@tmpdir") {
			t.Error("they share a directory for temporary files, which each removes when it starts")
		}
	})
}

func TestSettingsAreTheServersOwnButForTheBinlog(t *testing.T) {
	servertest.EachKindOf(t, servers.AllSourceKinds(), func(t *testing.T, kind servers.Kind) {
		s := servertest.Shared(t, kind)
		db := open(t, s, "")
		want := map[string]string{"log_bin": "1", "binlog_format": "ROW", "binlog_row_image": "FULL",
			"innodb_flush_log_at_trx_commit": "1", "sync_binlog": "1", "skip_name_resolve": "0"}
		switch {
		case kind.IsMariaDB():
			want["sync_binlog"], want["binlog_row_metadata"] = "0", "NO_LOG"
		case kind.IsOldMySQL():
			want["gtid_mode"], want["enforce_gtid_consistency"] = "OFF", "OFF"
		default:
			want["gtid_mode"], want["enforce_gtid_consistency"] = "ON", "ON"
			want["binlog_row_metadata"] = "MINIMAL"
		}
		for name, value := range want {
			if got := text(t, db, "SELECT @@global."+name); got != value {
				t.Errorf("%s is %s, want %s", name, got, value)
			}
		}
		if got := text(t, db, "SELECT VERSION()"); !strings.HasPrefix(got, s.Version) {
			t.Errorf("Version is %s, the server says %s", s.Version, got)
		}
	})
}

func TestArgsWin(t *testing.T) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		s := servertest.Own(t, kind, "--binlog-row-image=MINIMAL", "--lower-case-table-names=1")
		db := open(t, s, "")
		if got := text(t, db, "SELECT @@global.binlog_row_image"); got != "MINIMAL" {
			t.Errorf("binlog_row_image is %s", got)
		}
		if got := text(t, db, "SELECT @@global.lower_case_table_names"); got != "1" { // this changes the data files
			t.Errorf("lower_case_table_names is %s", got)
		}
	})
}

func TestKillAndRestartKeepWhatWasCommitted(t *testing.T) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		s := servertest.Own(t, kind)
		name := servertest.Database(t, s)
		db := open(t, s, name)
		mustExec(t, db, "CREATE TABLE kept (id INT PRIMARY KEY)", "INSERT INTO kept VALUES (1)")
		pid := s.PID()
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
		if s.Running() || syscall.Kill(pid, 0) == nil {
			t.Error("the process is there after Kill")
		}
		if err := s.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		db = open(t, s, name)
		mustExec(t, db, "INSERT INTO kept VALUES (2)")
		if err := s.Restart(t.Context()); err != nil { // stops the server in order
			t.Fatal(err)
		}
		db = open(t, s, name)
		if n := text(t, db, "SELECT COUNT(*) FROM kept"); n != "2" {
			t.Errorf("%s rows are left of 2", n)
		}
		if s.PID() == pid {
			t.Error("PID is that of the first process")
		}
	})
}

func TestSuspendHoldsTheServerStill(t *testing.T) {
	s := servertest.Own(t, servers.MariaDB1011)
	db := open(t, s, "")
	mustExec(t, db, "DO 1")
	if err := s.Suspend(); err != nil {
		t.Fatal(err)
	}
	held(t, s) // the signal takes a moment to reach every thread of a busy server
	answered := make(chan error, 1)
	go func() {
		_, err := db.ExecContext(t.Context(), "DO 1")
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Fatalf("a suspended server answered (%v)", err)
	case <-time.After(200 * time.Millisecond):
	}
	if err := s.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Suspend(), s.Stop(t.Context())); err != nil {
		t.Fatalf("stopping a suspended server: %v", err)
	}
	if err := s.Suspend(); err == nil {
		t.Error("a stopped server was suspended")
	}
}

func TestRedisKindsAnswerAndKeepTheirData(t *testing.T) {
	for _, kind := range []servers.Kind{servers.Redis7, servers.Redis8, servers.Valkey} {
		t.Run(string(kind), func(t *testing.T) {
			s := servertest.Own(t, kind, "--appendonly", "yes") // by default, a kill loses what no snapshot has
			cli, err := servers.Program(kind, "redis-cli")
			if err != nil {
				t.Fatal(err)
			}
			run := func(args ...string) string {
				t.Helper()
				out, err := exec.CommandContext(t.Context(), cli, append([]string{"-u", s.DSN("0")}, args...)...).CombinedOutput()
				if err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				return strings.TrimSpace(string(out))
			}
			run("SET", "kept", "1")
			if err := errors.Join(s.Kill(), s.Restart(t.Context())); err != nil {
				t.Fatal(err)
			}
			if got := run("GET", "kept"); got != "1" {
				t.Errorf("after a kill the key holds %q", got)
			}
		})
	}
}

func TestClientProgramsRun(t *testing.T) {
	servertest.EachKindOf(t, servers.AllSourceKinds(), func(t *testing.T, kind servers.Kind) {
		for _, name := range []string{"mysqladmin", "mysqlbinlog", "mysqldump"} {
			path, err := servers.Program(kind, name)
			if err != nil {
				t.Error(err)
				continue
			}
			if out, err := exec.CommandContext(t.Context(), path, "--version").CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s", name, err, out)
			}
		}
		s := servertest.Shared(t, kind)
		path, err := servers.Program(kind, "mysql")
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), path, "--no-defaults", "--host=127.0.0.1", "--user=root",
			fmt.Sprintf("--port=%d", s.Port), "-e", "SELECT VERSION()").CombinedOutput()
		if err != nil || !strings.Contains(string(out), s.Version) {
			t.Errorf("%s: %v: %s", path, err, out)
		}
		if _, err := servers.Program(kind, "no-such-program"); err == nil ||
			!strings.Contains(err.Error(), "no-such-program") {
			t.Errorf("a program that is not there: %v", err)
		}
	})
}

func TestADirectoryOfTheCallersStaysWithItsData(t *testing.T) {
	servertest.Shared(t, servers.MariaDB1011) // skips the test if the machine has no MariaDB
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 40))
	for i, statement := range []string{"CREATE DATABASE kept", "USE kept"} {
		s, err := servers.Start(t.Context(), servers.Options{Kind: servers.MariaDB1011, Dir: dir, Small: true})
		if err != nil {
			t.Fatal(i, err)
		}
		mustExec(t, open(t, s, ""), statement)
		if err := errors.Join(s.Close(), s.Close()); err != nil {
			t.Fatal(err)
		}
		if err := s.Restart(t.Context()); err == nil {
			t.Fatal("a closed server was started again")
		}
	}
}

func TestCloseRemovesADirectoryThatStartChose(t *testing.T) {
	servertest.Shared(t, servers.MariaDB1011)
	s, err := servers.Start(t.Context(), servers.Options{Kind: servers.MariaDB1011, Small: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(s.Dir + "*")
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestAServerThatEndsWhileStartingShowsItsLog(t *testing.T) {
	servertest.Shared(t, servers.MariaDB1011)
	_, err := servers.Start(t.Context(), servers.Options{Kind: servers.MariaDB1011, Small: true,
		Args: []string{"--no-such-option"}})
	if err == nil || !strings.Contains(err.Error(), "ended while starting") ||
		!strings.Contains(err.Error(), "no-such-option") {
		t.Errorf("the error is %v", err)
	}
	var missing *servers.MissingError
	if errors.As(err, &missing) {
		t.Error("a broken start counts as a missing server")
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	servertest.Shared(t, servers.MariaDB1011)
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if _, err := servers.Start(ctx, servers.Options{Kind: servers.MariaDB1011, Small: true}); !errors.Is(err, enough) {
		t.Errorf("the error is %v", err)
	}
}

// A killed test can't clean up. Its servers must end anyway, and the next start must remove their directories.
func TestAKilledProcessLeavesNoServer(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("only Linux ties a server to its parent")
	}
	servertest.Shared(t, servers.MariaDB1011)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	holder := exec.Command(self)
	holder.Env = append(os.Environ(), holderVariable+"="+string(servers.MariaDB1011))
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	var dir string
	_, scanErr := fmt.Fscan(out, &pid, &dir)
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = holder.Wait() // returns "signal: killed"
	if scanErr != nil {
		t.Fatal("the holder did not name its server: ", scanErr)
	}
	for end := time.Now().Add(10 * time.Minute); alive(pid); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the server %d outlives its parent", pid)
		}
	}
	servertest.Own(t, servers.MariaDB1011)
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there after the next start (%v)", dir, err)
	}
}

// alive reports whether the process runs. A killed process that its parent has not waited for does not run.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// held waits until every thread of a suspended server has stopped.
func held(t *testing.T, s *servers.Server) {
	t.Helper()
	for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.PID()))
		still := true
		for _, path := range stats {
			text, _ := os.ReadFile(path) // a thread that has ended counts as stopped
			_, rest, _ := strings.Cut(string(text), ") ")
			still = still && (rest == "" || strings.HasPrefix(rest, "T"))
		}
		if still {
			return
		}
	}
	t.Fatal("the server was not suspended")
}
