package canal

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"replicator"
	"replicator/canal/gtid"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// patience is how long a test waits for an event that must happen.
const patience = 10 * time.Minute

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// bench is a database on a server, with the application's SQL connections.
type bench struct {
	t        testing.TB
	server   *servers.Server
	database string
	db       *sql.DB
}

func newBench(t testing.TB, s *servers.Server) *bench {
	b := &bench{t: t, server: s, database: servertest.Database(t, s)}
	db, err := sql.Open("mysql", s.DSN(b.database)+"?multiStatements=true")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	b.db = db
	return b
}

func (b *bench) exec(queries ...string) {
	b.t.Helper()
	for _, q := range queries {
		if b.server.Kind.IsOldMySQL() {
			q = oldWords.Replace(q)
		}
		if _, err := b.db.ExecContext(testContext(b.t), q); err != nil {
			b.t.Fatalf("%s: %v", q, err)
		}
	}
}

// oldWords replaces keywords by the names that MySQL before 8.0.22 knows. root doesn't need GET_SOURCE_PUBLIC_KEY
// there.
var oldWords = strings.NewReplacer("RESET BINARY LOGS AND GTIDS", "RESET MASTER", "CHANGE REPLICATION SOURCE", "CHANGE MASTER",
	"SOURCE_HOST", "MASTER_HOST", "SOURCE_PORT", "MASTER_PORT", "SOURCE_USER", "MASTER_USER",
	"SOURCE_AUTO_POSITION", "MASTER_AUTO_POSITION", "SOURCE_LOG_FILE", "MASTER_LOG_FILE", "SOURCE_LOG_POS", "MASTER_LOG_POS",
	", GET_SOURCE_PUBLIC_KEY=1", "", "START REPLICA", "START SLAVE", "STOP REPLICA", "STOP SLAVE", "RESET REPLICA", "RESET SLAVE")

// session runs statements on one connection.
func (b *bench) session(queries ...string) {
	b.t.Helper()
	conn, err := b.db.Conn(testContext(b.t))
	if err != nil {
		b.t.Fatal(err)
	}
	for _, q := range queries {
		if _, err := conn.ExecContext(testContext(b.t), q); err != nil {
			b.t.Fatalf("%s: %v", q, err)
		}
	}
	_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // other sessions must not get its settings
	conn.Close()
}

// compresses skips a test of compressed transactions if the server lacks them. MySQL has them from 8.0.20 on.
func compresses(t testing.TB, b *bench) {
	t.Helper()
	if b.server.Kind.IsOldMySQL() {
		t.Skip("this server compresses no transactions")
	}
}

func (b *bench) isMaria() bool { return b.server.Kind.IsMariaDB() }

// flavor returns the form of the server's GTIDs.
func (b *bench) flavor() gtid.Flavor {
	if b.isMaria() {
		return gtid.MariaDB
	}
	return gtid.MySQL
}

func (b *bench) source(tables ...replicator.Table) *Source {
	b.t.Helper()
	return b.configured(Config{Heartbeat: time.Second, Tables: tables})
}

func (b *bench) configured(cfg Config) *Source {
	b.t.Helper()
	if cfg.DSN == "" {
		cfg.DSN = b.server.DSN(b.database)
	}
	for i := range cfg.Tables {
		if cfg.Tables[i].Database == "" {
			cfg.Tables[i].Database = b.database
		}
		if cfg.Tables[i].Table == "" {
			cfg.Tables[i].Table = cfg.Tables[i].Name
		}
	}
	s, err := New(cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { s.Close() })
	return s
}

func (b *bench) latest(s *Source) replicator.Position {
	b.t.Helper()
	p, err := s.Latest(testContext(b.t), nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

func (b *bench) open(s *Source, at ...replicator.Position) *Reader {
	b.t.Helper()
	r, err := s.Open(testContext(b.t), at)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { r.Close() })
	return r.(*Reader)
}

// recorder is a Handler that records its calls.
type recorder struct {
	mu      sync.Mutex
	changes []replicator.Change
	commits []int64
	news    chan struct{} // signals a commit
	arrived chan struct{} // signals a change
	stop    error         // returned by Change if set
	goesOn  bool          // Unlogged notes that the log lacks a change, and reading continues
	arrives func()        // if set, called before a change is recorded

	references []replicator.Reference
	unlogged   []string // the tables whose changes the log lacked
}

func newRecorder() *recorder {
	return &recorder{news: make(chan struct{}, 1), arrived: make(chan struct{}, 1)}
}

func (r *recorder) Change(_ context.Context, c *replicator.Change) error {
	if r.arrives != nil {
		r.arrives()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changes = append(r.changes, *c)
	select {
	case r.arrived <- struct{}{}:
	default:
	}
	return r.stop
}

func (r *recorder) Unlogged(table string, _ int64, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.goesOn {
		return err
	}
	r.unlogged = append(r.unlogged, table)
	return nil
}

// lacked returns the tables whose changes the log lacked.
func (r *recorder) lacked() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.unlogged, " ")
}

func (r *recorder) Refer(_ context.Context, ref *replicator.Reference) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.references = append(r.references, *ref)
	return nil
}

func (r *recorder) Commit(order int64, _ time.Time) {
	r.mu.Lock()
	r.commits = append(r.commits, order)
	r.mu.Unlock()
	select {
	case r.news <- struct{}{}:
	default:
	}
}

func (r *recorder) all() []replicator.Change {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]replicator.Change(nil), r.changes...)
}

func (r *recorder) last() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.commits) == 0 {
		return 0
	}
	return r.commits[len(r.commits)-1]
}

// reading is a Read that runs in the background.
type reading struct {
	t      testing.TB
	reader *Reader
	*recorder
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

func (b *bench) read(r *Reader) *reading { return b.readInto(r, newRecorder()) }

// readOn is read with a handler that continues when the log lacks a change.
func (b *bench) readOn(r *Reader) *reading {
	rec := newRecorder()
	rec.goesOn = true
	return b.readInto(r, rec)
}

func (b *bench) readInto(r *Reader, rec *recorder) *reading {
	ctx, cancel := context.WithCancel(context.Background())
	x := &reading{t: b.t, reader: r, recorder: rec, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(x.done)
		x.err = r.Read(ctx, x.recorder)
	}()
	b.t.Cleanup(x.end)
	return x
}

func (x *reading) end() {
	x.cancel()
	<-x.done
}

// upTo waits until everything up to position p was read, and returns the changes so far.
func (x *reading) upTo(p replicator.Position) []replicator.Change {
	x.t.Helper()
	_, file, pos := splitOrder(p.Order)
	deadline := time.After(patience)
	for {
		_, f, at := splitOrder(x.last())
		if f > file || f == file && at >= pos {
			return x.all()
		}
		select {
		case <-x.news:
		case <-x.done:
			x.t.Fatalf("reading ended: %v", x.err)
		case <-deadline:
			x.t.Fatalf("reading stands at %s, not at %s, after %s", x.reader.Locate(x.last()),
				x.reader.Locate(p.Order), patience)
		}
	}
}

// failure waits until reading ends, and returns its error.
func (x *reading) failure() error {
	x.t.Helper()
	select {
	case <-x.done:
		return x.err
	case <-time.After(patience):
		x.t.Fatal("reading did not end")
		return nil
	}
}

// changes returns all changes from a position to the binlog's current end.
func (b *bench) changes(s *Source, from ...replicator.Position) []replicator.Change {
	b.t.Helper()
	x := b.read(b.open(s, from...))
	out := x.upTo(b.latest(s))
	x.end()
	return out
}

func showChange(c replicator.Change) string {
	s := fmt.Sprintf("%s %s v%d", c.Kind, c.Cell, c.Version)
	if c.Row != nil {
		body := c.Row.Body
		if c.Row.Text != nil {
			body, _ = c.Row.Text(body)
		}
		if body != nil {
			s += " " + string(body)
		}
		for i, v := range c.Row.Columns {
			if document, ok := v.(replicator.RawJSON); ok {
				v = string(document)
			}
			s += fmt.Sprintf(" %s=%v", c.Row.Names[i], v)
		}
		if c.Row.Err != nil {
			s += " error: " + c.Row.Err.Error()
		}
	}
	if c.Last {
		s += " last"
	}
	return s
}
