package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"replicator/internal/launch"
	"replicator/internal/pause"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// The tests use the program as a user does. They build it once, run it against real servers, and examine its output,
// its answers and its writes. Its database accounts have only the rights that the manual asks for. Their password must
// never be shown.

// password is the password of every test account. The tests search everything that a program prints, logs or answers
// for it.
const password = "hunter2-must-not-show"

// patience is the timeout for everything that must eventually happen, on a busy machine. Verifying 123 views one after
// the other, while other tests write, has taken more than three minutes.
const patience = 10 * time.Minute

// built is the path of the program under test. watched is the path of the same program, built with the race detector if
// races are checked. It is used only for runs that last until they are told to end. Short commands would start ten
// times slower with it, and runs that end on their own do nothing different.
var built, watched string

// raceVariable is the environment variable that enables race detection in the program, but not in these tests. `make
// test` sets it.
const raceVariable = "REPLICATOR_TEST_RACE"

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "replicator-test-")
	if err == nil {
		defer os.RemoveAll(dir)
		built = filepath.Join(dir, "replicator")
		watched = built
		err = launch.Build(context.Background(), built)
	}
	if err == nil && (raceEnabled || os.Getenv(raceVariable) != "") {
		watched += "-race"
		err = launch.Build(context.Background(), watched, "-race")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return servertest.Run(m)
}

// lab is a configured program with the database that it reads and writes.
type lab struct {
	t        *testing.T
	server   *servers.Server
	database string
	user     string
	db       *sql.DB // root's connections to the database
	dir      string  // the directory of the configuration file
	listen   string
	env      map[string]string
	program  string // the program's path; "": built, or watched for long runs
}

// newLab creates a database with the cells' tables, an account, and a configuration with three views.
func newLab(t *testing.T, s *servers.Server) *lab {
	l := newBareLab(t, s)
	l.exec(cellTable, usersTable, emailTable, phoneTable)
	l.configure(cellViews)
	return l
}

// newBareLab creates an empty database and no configuration.
func newBareLab(t *testing.T, s *servers.Server) *lab {
	t.Helper()
	l := &lab{t: t, server: s, database: servertest.Database(t, s), dir: t.TempDir(), listen: servertest.FreeAddress(t)}
	l.user = l.database
	l.db = l.connect(s, l.database)
	l.account(s, l.user, "SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.*", "ALL ON "+l.database+".*")
	l.env = map[string]string{"DSN": l.dsn(s.Addr(), l.database), "LISTEN": l.listen}
	return l
}

// connect returns root's connections to a database.
func (l *lab) connect(s *servers.Server, database string) *sql.DB {
	l.t.Helper()
	db, err := sql.Open("mysql", s.DSN(database))
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { db.Close() })
	return db
}

// ownRedis starts a Redis for this test only, and connects to it.
func ownRedis(t *testing.T, args ...string) (*servers.Server, *goredis.Client) {
	t.Helper()
	s := servertest.Own(t, servers.Redis7, args...)
	return s, redisClient(t, s)
}

// redisClient returns connections to a Redis.
func redisClient(t *testing.T, s *servers.Server) *goredis.Client {
	t.Helper()
	client := goredis.NewClient(&goredis.Options{Addr: s.Addr()})
	t.Cleanup(func() { client.Close() })
	return client
}

// account creates an account with the given rights. The account is dropped when the test ends.
func (l *lab) account(s *servers.Server, user string, grants ...string) {
	l.t.Helper()
	db := l.connect(s, "")
	execAll(l.t, db, fmt.Sprintf("CREATE USER %s@'%%' IDENTIFIED BY '%s'", user, password))
	for _, g := range grants {
		execAll(l.t, db, fmt.Sprintf("GRANT %s TO %s@'%%'", g, user))
	}
	l.t.Cleanup(func() {
		if s.Running() {
			_, _ = db.Exec("DROP USER " + user + "@'%'") // a later test may create the same account
		}
	})
}

// dsn returns the program's DSN, with the test's account.
func (l *lab) dsn(address, database string) string {
	return fmt.Sprintf("%s:%s@tcp(%s)/%s", l.user, password, address, database)
}

// configure writes the configuration file, which consists of the parts in this order.
func (l *lab) configure(parts ...string) {
	l.t.Helper()
	if err := l.launched().Configure(parts...); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) file() string { return l.launched().File() }

// exec runs statements as root.
func (l *lab) exec(statements ...string) { l.t.Helper(); execAll(l.t, l.db, statements...) }

func execAll(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%.200s: %v", s, err)
		}
	}
}

// session runs statements on one connection and then closes the connection.
func (l *lab) session(statements ...string) {
	l.t.Helper()
	db := l.connect(l.server, l.database)
	db.SetMaxOpenConns(1)
	execAll(l.t, db, statements...)
	db.Close()
}

// put writes a version of a user's cell. The key is a letter.
func (l *lab) put(key string, version int64, body string) {
	l.t.Helper()
	_, err := l.db.ExecContext(l.t.Context(),
		"INSERT INTO cell (row_key, column_name, ref_key, body) VALUES (?, 'users', ?, ?)",
		rowKey(key), version, body)
	if err != nil {
		l.t.Fatal(err)
	}
}

// rowKey returns a letter as a key of 16 bytes. keyText returns the form in which this key is shown.
func rowKey(key string) []byte  { return append(bytes.Repeat([]byte{0}, 15), key[0]) }
func keyText(key string) string { return fmt.Sprintf("%x", rowKey(key)) }

// rows returns the rows of a query as text, with a space between columns.
func (l *lab) rows(query string) []string { l.t.Helper(); return rowsOf(l.t, l.db, query) }

func rowsOf(t *testing.T, db *sql.DB, query string) []string {
	t.Helper()
	got, err := tryRows(t.Context(), db, query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return got
}

func tryRows(ctx context.Context, db *sql.DB, query string) ([]string, error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	var all []string
	for rows.Next() {
		values := make([]sql.NullString, len(names))
		into := make([]any, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		texts := make([]string, len(values))
		for i, v := range values {
			if texts[i] = v.String; !v.Valid {
				texts[i] = "NULL"
			}
		}
		all = append(all, strings.Join(texts, " "))
	}
	return all, rows.Err()
}

// expect fails the test unless a query returns these rows.
func (l *lab) expect(query string, want ...string) {
	l.t.Helper()
	if got := l.rows(query); !slices.Equal(got, want) {
		l.t.Errorf("%s\n got %q\nwant %q", query, got, want)
	}
}

// expectLike fails the test unless two queries return the same rows.
func (l *lab) expectLike(query, like string) { l.t.Helper(); l.expect(query, l.rows(like)...) }

// emails selects the entries of index_users_email, with the letters of their keys.
const emails = "SELECT email, CHAR(ORD(RIGHT(row_key, 1)) USING utf8mb4) FROM index_users_email ORDER BY 1, 2"

// position returns the current end of the binlog, FILE:POS. gtids returns the executed GTIDs.
func (l *lab) position() string {
	l.t.Helper()
	query := "SHOW BINARY LOG STATUS"
	if l.server.Kind.IsMariaDB() {
		query = "SHOW MASTER STATUS"
	}
	f := strings.Fields(l.rows(query)[0])
	return f[0] + ":" + f[1]
}

func (l *lab) gtids() string {
	l.t.Helper()
	query := "SELECT @@GLOBAL.gtid_executed"
	if l.server.Kind.IsMariaDB() {
		query = "SELECT @@GLOBAL.gtid_binlog_pos"
	}
	return strings.ReplaceAll(l.rows(query)[0], "\n", "")
}

// result is a command's exit status and output.
type result struct {
	code        int
	out, errors string
}

// run runs a command with -c and waits until it ends.
func (l *lab) run(args ...string) result {
	l.t.Helper()
	return l.command(append(args, "-c", l.file())...)
}

// command runs a command line and waits until it ends.
func (l *lab) command(args ...string) result {
	l.t.Helper()
	p := l.start(args...)
	code := p.wait()
	return result{code, p.Output(), p.Log()}
}

// must runs a command that must succeed, and returns its output.
func (l *lab) must(args ...string) string {
	l.t.Helper()
	r := l.run(args...)
	if r.code != 0 {
		l.t.Fatalf("replicator %s: exit status %d\n%s%s", strings.Join(args, " "), r.code, r.out, r.errors)
	}
	return r.out
}

// caughtUp waits with `replicator wait` until every view (or the named ones) includes everything that was committed.
func (l *lab) caughtUp(views ...string) {
	l.t.Helper()
	l.waitFor(l.position(), views...)
}

// waitFor waits until every view (or the named ones) includes a log position.
func (l *lab) waitFor(fence string, views ...string) {
	l.t.Helper()
	l.must(append([]string{"wait", "--pos", fence, "--timeout", patience.String()}, views...)...)
}

// viewStatus is one line of `status --json`, with the fields that SPEC lists.
type viewStatus struct {
	View, Sink, Source, Kind, State, Position, Error string
	LagSeconds                                       *float64 `json:"lag_seconds"`
	Rate                                             float64
	DeadLetters                                      int   `json:"dead_letters"`
	FanOut                                           int64 `json:"fan_out"`
}

// status returns the status of a view, as `replicator status` prints it.
func (l *lab) status(view string) viewStatus {
	l.t.Helper()
	r := l.run("status", "--json") // if nothing runs, this fails but still prints the saved positions
	for _, s := range jsonLines[viewStatus](l.t, r.out) {
		if s.View == view {
			return s
		}
	}
	l.t.Fatalf("status doesn't list view %s: %s", view, r.errors)
	return viewStatus{}
}

// reaches waits until `replicator status` shows a view in a state. To avoid starting many programs, it first polls the
// running process over HTTP.
func (l *lab) reaches(view, state string) viewStatus {
	l.t.Helper()
	var last viewStatus
	eventually(l.t, func() error {
		var running struct{ Views []viewStatus }
		if code, body := l.answer("/api/v1/status"); code == http.StatusOK && json.Unmarshal([]byte(body), &running) == nil {
			at := slices.IndexFunc(running.Views, func(s viewStatus) bool { return s.View == view })
			if at >= 0 && running.Views[at].State != state {
				return fmt.Errorf("view %s is not %s: %s", view, state, body)
			}
		}
		if last = l.status(view); last.State != state {
			return fmt.Errorf("view %s is %s (%s), not %s", view, last.State, last.Error, state)
		}
		return nil
	})
	return last
}

// failsWith waits until a view has failed, and checks that the error contains all these texts.
func (l *lab) failsWith(view string, want ...string) viewStatus {
	l.t.Helper()
	s := l.reaches(view, "failed")
	for _, w := range want {
		if !strings.Contains(s.Error, w) {
			l.t.Errorf("view %s failed with %q, which doesn't say %q", view, s.Error, w)
		}
	}
	return s
}

// letter is one line of `deadletters list --json`.
type letter struct {
	ID, View, Table, Key, Column, Position, Reason, Time, Raw string
	Version                                                   int64
}

func (l *lab) letters(args ...string) []letter {
	l.t.Helper()
	return jsonLines[letter](l.t, l.must(append([]string{"deadletters", "list", "--json"}, args...)...))
}

// jsonLines decodes a text that has one JSON object on each line.
func jsonLines[T any](t *testing.T, text string) []T {
	t.Helper()
	var all []T
	for line := range strings.Lines(text) {
		var v T
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("not a JSON object a line: %v\n%s", err, text)
		}
		all = append(all, v)
	}
	return all
}

// ease pauses a writer after each write, for twice as long as the write took. The pause grows with the number of
// writes. So on any machine, a rebuild can eventually catch up with the writer and end.
func ease(ctx context.Context, writes int, took time.Duration) {
	_ = pause.For(ctx, max(2*time.Millisecond, 2*took)*time.Duration(1+writes/500))
}

// eventually calls holds until it returns nil.
func eventually(t *testing.T, holds func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	// The pause between the calls grows, because holds may start a program.
	for rest := 20 * time.Millisecond; ; rest = min(rest*3/2, 300*time.Millisecond) {
		err := holds()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not so after %s: %v", patience, err)
		}
		time.Sleep(rest)
	}
}
