package docs_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"replicator"
	"replicator/internal/lab"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

const addIndexPage = "../../docs/add-an-index.md"

const addIndexSchema = `CREATE TABLE cell (added_at BIGINT AUTO_INCREMENT PRIMARY KEY, row_key BINARY(16) NOT NULL,
	column_name VARCHAR(64) NOT NULL, ref_key BIGINT NOT NULL, body LONGBLOB,
	UNIQUE KEY cell_idx (row_key, column_name, ref_key));
CREATE TABLE index_users_email (email VARCHAR(100) NOT NULL, row_key BINARY(16) NOT NULL,
	PRIMARY KEY (email, row_key), KEY (row_key));
`

const addIndexConfig = `[source]
dsn = "%[1]s"
[checkpoint]
path = "replicator-state"
[http]
listen = "%[2]s"
[rebuild]
rate = 2000
[tables.cell]
key = "row_key"
column = "column_name"
version = "ref_key"
offset = "added_at"
body = "body"
codec = "json"
[sinks.main]
type = "mysql"
dsn = "%[3]s"
[views.index_users_email]
from = "cell.users"
sink = "main"
kind = "index"
fields = ["email"]
`

// site is a running site: a server, an application that writes, and the program.
type site struct {
	t      *testing.T
	dir    string
	listen string
	db     *sql.DB
}

// TestAddAnIndexAsThePageSays runs every command of the page unchanged, while an application writes.
func TestAddAnIndexAsThePageSays(t *testing.T) {
	text, err := os.ReadFile(addIndexPage)
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t)
	s.exec("SET SESSION cte_max_recursion_depth = 100000", "INSERT INTO cell (row_key, column_name, ref_key, body) "+
		"WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000) "+
		"SELECT UNHEX(LPAD(HEX(i), 32, '0')), 'users', 1, "+
		"CONCAT('{\"email\": \"', i, '@x.org\", \"phone\": \"+49 ', i, '\", \"activate\": ', "+
		"IF(i % 2, 'true', 'false'), '}') FROM n")
	s.run()
	stop := s.write()
	lab.Await(t, "the email index is filled",
		func() bool { return s.status("index_users_email").State == replicator.StateRunning })
	lag := s.watch("index_users_email")
	lab.Pause(t, time.Second) // records lag, to compare with
	before := lag()
	lag = s.watch("index_users_email")
	blocks := shellOf(t, string(text))
	for i, block := range blocks {
		out := s.shell(block)
		t.Logf("%s\n%s", block, out)
		if i == 3 { // the block that fills the index and waits for that
			during := lag()
			t.Logf("lag of the other view, in ms: before the fill %s; during it %s", shownLags(before), shownLags(during))
		}
	}
	if len(blocks) < 9 {
		t.Errorf("the page has %d blocks of commands", len(blocks))
	}
	stop()
	s.shell(`replicator wait --timeout 1m --pos "$(mysql -NBe 'SHOW BINARY LOG STATUS' | awk '{ print $1 ":" $2 }')"`)
	var count, want int
	err = s.db.QueryRow("SELECT (SELECT COUNT(*) FROM index_users_phone), "+
		"(SELECT COUNT(*) FROM cell AS a WHERE a.body LIKE '%\"activate\": true%' AND "+
		"NOT EXISTS (SELECT 1 FROM cell AS b WHERE b.row_key = a.row_key AND b.ref_key > a.ref_key))").Scan(&count, &want)
	if err != nil || count != want || count == 0 {
		t.Errorf("the index holds %d entries for %d active users (%v)", count, want, err)
	}
}

// shellOf returns a page's blocks of shell commands, in order.
func shellOf(t *testing.T, page string) (blocks []string) {
	t.Helper()
	for _, part := range strings.Split(page, "\n```sh\n")[1:] {
		block, _, closed := strings.Cut(part, "\n```\n")
		if !closed {
			t.Fatalf("a block is not closed:\n%s", part)
		}
		blocks = append(blocks, block)
	}
	return blocks
}

// newSite makes the site's database, and a directory in which the page's commands are run.
func newSite(t *testing.T) *site {
	s := &site{t: t, dir: t.TempDir()}
	server := servertest.Own(t, servers.MySQL)
	_, dsn := lab.Prepare(t, server, "jogchat", addIndexSchema)
	s.db = open(t, server.DSN("jogchat"))
	s.listen = servertest.FreeAddress(t)
	bin := filepath.Join(s.dir, "bin")
	mysql, err := servers.Program(servers.MySQL, "mysql")
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := strings.Cut(server.Addr(), ":")
	for name, text := range map[string]string{
		"replicator.toml": fmt.Sprintf(addIndexConfig, dsn, s.listen, lab.ForSink(dsn)),
		"bin/mysql":       fmt.Sprintf(mysqlClient, mysql, host, port),
	} {
		path := filepath.Join(s.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(lab.Binary(t), filepath.Join(bin, "replicator")); err != nil {
		t.Fatal(err)
	}
	return s
}

func open(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func (s *site) exec(statements ...string) {
	s.t.Helper()
	conn, err := s.db.Conn(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	for _, text := range statements {
		if _, err := conn.ExecContext(s.t.Context(), text); err != nil {
			s.t.Fatal(err)
		}
	}
}

// mysqlClient runs the server's client. A DELETE that a user runs by hand may deadlock with a batch of the program. The
// server then asks the client to try again (1213), which this script does.
const mysqlClient = `#!/bin/sh
until '%s' --no-defaults --protocol=tcp -h %s -P %s -u root "$@" 2>"$0.$$"; do
	grep -q '^ERROR 1213' "$0.$$" || { cat "$0.$$" >&2; exit 1; }
done
`

// command returns a command that runs in the site's directory.
func (s *site) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	path := filepath.Join(s.dir, "bin")
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), "PATH="+path+":"+os.Getenv("PATH"))
	return cmd
}

// run runs the program until the test ends.
func (s *site) run() {
	s.t.Helper()
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := s.command(context.Background(), filepath.Join(s.dir, "bin", "replicator"), "run")
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			s.t.Errorf("the program ended: %v", err)
		}
		if text, _ := os.ReadFile(log.Name()); s.t.Failed() {
			s.t.Logf("%s", text)
		}
		log.Close()
	})
}

// shell runs a block of commands as if a user typed it. Variables are kept from block to block.
func (s *site) shell(block string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Minute)
	defer cancel()
	script := "set -euo pipefail\n[ ! -e .variables ] || . ./.variables\n" + block +
		"\necho \"now='${now:-}'\" > .variables\n"
	out, err := s.command(ctx, "bash", "-c", script).CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s\n%v\n%s", block, err, out)
	}
	return string(out)
}

// write makes an application write, until the returned function is called.
func (s *site) write() (stop func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	var writing sync.WaitGroup
	writing.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			_, err := s.db.ExecContext(ctx,
				"INSERT INTO cell (row_key, column_name, ref_key, body) VALUES (UNHEX(LPAD(HEX(?), 32, '0')), 'users', ?, ?)",
				1+i%10000, i+2, fmt.Sprintf(`{"email": "w%d@x.org", "phone": "+1 %d", "activate": %t}`, i, i, i%3 == 0))
			if err != nil && ctx.Err() == nil {
				s.t.Errorf("the application: %v", err)
				return
			}
			lab.Pause(s.t, 2*time.Millisecond)
		}
	})
	stop = sync.OnceFunc(func() { cancel(); writing.Wait() })
	s.t.Cleanup(stop)
	return stop
}

// status asks the program for a view's status. It returns the zero value if the program does not answer, or does not
// know the view.
func (s *site) status(view string) (status replicator.ViewStatus) {
	r, err := http.Get("http://" + s.listen + "/api/v1/status")
	if err != nil {
		return status
	}
	defer r.Body.Close()
	var answer struct{ Views []replicator.ViewStatus }
	if json.NewDecoder(r.Body).Decode(&answer) != nil {
		return status
	}
	for _, v := range answer.Views {
		if v.View == view {
			return v
		}
	}
	return status
}

// watch records the lag of a view, until the returned function is called.
func (s *site) watch(view string) (lags func() []float64) {
	ctx, cancel := context.WithCancel(s.t.Context())
	var seen []float64
	var watching sync.WaitGroup
	watching.Go(func() {
		for ctx.Err() == nil {
			if lag := s.status(view).LagSeconds; lag != nil {
				seen = append(seen, 1000**lag)
			}
			lab.Pause(s.t, 20*time.Millisecond)
		}
	})
	stop := sync.OnceFunc(func() { cancel(); watching.Wait() })
	s.t.Cleanup(stop)
	return func() []float64 { stop(); return seen }
}

func shownLags(all []float64) string {
	if len(all) == 0 {
		return "not known"
	}
	slices.Sort(all)
	return fmt.Sprintf("median %.0f, 95 %% below %.0f, most %.0f (%d looks)", all[len(all)/2], all[len(all)*95/100],
		all[len(all)-1], len(all))
}
