package canal

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"replicator"
	"replicator/canal/gtid"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// account creates an account with only the rights that the documentation asks for, and returns a DSN for it.
func (b *bench) account(options, params string) string {
	b.t.Helper()
	name := "r" + b.database
	b.exec("CREATE USER '"+name+"'@'%' IDENTIFIED BY 'pass:wo/rd@'"+options,
		"GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO '"+name+"'@'%'")
	b.t.Cleanup(func() { b.exec("DROP USER '" + name + "'@'%'") })
	cfg, err := mysql.ParseDSN(b.server.DSN(b.database))
	if err != nil {
		b.t.Fatal(err)
	}
	cfg.User, cfg.Passwd = name, "pass:wo/rd@"
	return cfg.FormatDSN() + params
}

func TestThreeRightsAreEnough(t *testing.T) {
	servertest.EachKindOf(t, servers.AllSourceKinds(), func(t *testing.T, kind servers.Kind) {
		b := newBench(t, servertest.Shared(t, kind))
		b.exec(cellDDL)
		src := b.configured(Config{DSN: b.account("", ""), Tables: []replicator.Table{cellTable()}, Heartbeat: time.Second})
		from := b.latest(src)
		if _, err := src.Oldest(testContext(t), nil); err != nil {
			t.Error(err)
		}
		b.exec("INSERT INTO cell(row_key, column_name, ref_key, body) VALUES ('k', 'c', 1, 'x')")
		got := b.changes(src, from)
		wantChanges(t, got, "insert cell.c 6b000000000000000000000000000000 v1 x")
		r := b.open(src, b.latest(src))
		rows, _, err := r.Newest(testContext(t), []replicator.Cell{got[0].Cell}, 0)
		if err != nil || rows[0] == nil {
			t.Errorf("newest: %v, %v", rows, err)
		}
		if chunk, err := r.Scan(testContext(t), "cell", nil, "", replicator.ScanLimit{Rows: 9}); err != nil ||
			len(chunk.Rows) != 1 || !chunk.Done {
			t.Errorf("scan: %+v, %v", chunk, err)
		}
		if d, err := src.Retention(testContext(t), from); err != nil || d < 0 {
			t.Errorf("retention %s, %v", d, err)
		}
		for _, f := range src.Check(testContext(t)) {
			if f.Level == replicator.Fail {
				t.Errorf("check: %+v", f)
			}
		}
	})
}

func TestFloatsHaveTheSameDigitsInTheTailAndInScans(t *testing.T) {
	servertest.EachKindOf(t, servers.AllSourceKinds(), func(t *testing.T, kind servers.Kind) {
		b := newBench(t, servertest.Shared(t, kind))
		b.exec("CREATE TABLE f (id INT PRIMARY KEY, f FLOAT, g FLOAT(9,2), d DOUBLE, e DOUBLE(12,3))")
		src := b.source(replicator.Table{Name: "f", Key: []string{"id"}, Columns: []string{"f", "g", "d", "e"}})
		from := b.latest(src)
		b.exec("INSERT INTO f VALUES (1, 16777216, 1234567.89, 0.1, 123456789.123), (2, 3.4e38, 0.1, 1e300, 0.5), " +
			"(3, 1.17549e-38, -0.01, -5e-324, 0), (4, 0.1, 3355443.5, 9007199254740993, 1.0005), (5, NULL, 0, NULL, NULL)")
		tail := b.changes(src, from)
		r := b.open(src, b.latest(src))
		var rows []*replicator.Row
		for chunk := (replicator.Chunk{}); !chunk.Done; { // on MySQL 5.7 the scan may lock rows, a few per chunk
			var err error
			if chunk, err = r.Scan(testContext(t), "f", nil, chunk.Next, replicator.ScanLimit{Rows: 9}); err != nil {
				t.Fatal(err)
			}
			rows = append(rows, chunk.Rows...)
		}
		if len(rows) != len(tail) {
			t.Fatalf("%d rows are scanned, %d were read", len(rows), len(tail))
		}
		for i, row := range rows {
			if !reflect.DeepEqual(row.Columns, tail[i].Row.Columns) {
				t.Errorf("the tail has %v, the scan %v", tail[i].Row.Columns, row.Columns)
			}
		}
	})
}

// TestAGrantMendsTheNextOpen: a session keeps the rights on its database that its account had when the session began.
// The next Open must therefore use a new session.
func TestAGrantMendsTheNextOpen(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newBench(t, s)
		b.exec(cellDDL)
		dsn, user := b.account("", ""), "'r"+b.database+"'@'%'"
		b.exec("REVOKE SELECT ON *.* FROM "+user, "GRANT INSERT ON "+b.database+".* TO "+user)
		src := b.configured(Config{DSN: dsn, Tables: []replicator.Table{cellTable()}})
		from := b.latest(src)
		if _, err := src.Open(testContext(t), []replicator.Position{from}); !replicator.IsFatal(err) ||
			!strings.Contains(err.Error(), "lacks SELECT") {
			t.Errorf("without SELECT: %v", err)
		}
		b.latest(src) // leaves a connection in the pool that was opened before the GRANT
		b.exec("GRANT SELECT ON " + b.database + ".* TO " + user)
		b.open(src, from)
	})
}

func TestADumpThatIsRefusedIsAnErrorForAPerson(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newBench(t, s)
		dsn := b.account("", "")
		b.exec("REVOKE REPLICATION SLAVE ON *.* FROM 'r" + b.database + "'@'%'")
		if _, err := b.configured(Config{DSN: dsn}).Latest(testContext(t), nil); !replicator.IsFatal(err) ||
			!strings.Contains(err.Error(), "REPLICATION SLAVE") {
			t.Errorf("the end of the log was looked at without the right to read it: %v", err)
		}
	})
}

func TestCheckNamesWhatIsWrong(t *testing.T) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		b := newBench(t, servertest.Own(t, kind, "--binlog-row-image=MINIMAL", "--binlog-row-metadata=MINIMAL",
			"--binlog-format=MIXED"))
		b.exec("CREATE TABLE a (id INT PRIMARY KEY, x FLOAT, body INT)", "CREATE TABLE nokey (k INT NOT NULL)")
		b.exec("CREATE USER 'poor'@'%' IDENTIFIED BY 'x'", "GRANT SELECT ON *.* TO 'poor'@'%'")
		dsn := strings.Replace(b.server.DSN(b.database), "root", "poor:x", 1)
		src := b.configured(Config{DSN: dsn, Tables: []replicator.Table{
			{Name: "a", Key: []string{"id"}, Body: "body"}, {Name: "missing",
				Key: []string{"id"}}, {Name: "nokey", Key: []string{"k"}},
		}})
		var all []string
		for _, f := range src.Check(testContext(t)) {
			all = append(all, fmt.Sprintf("%s %s: %s (%s)", f.Level, f.What, f.Detail, f.Fix))
		}
		text := strings.Join(all, "\n")
		for _, want := range []string{"fail grants: missing: REPLICATION SLAVE, REPLICATION CLIENT",
			"REPLICATION CLIENT ON *.* TO 'poor'@'%')", "warn binlog_row_image",
			"warn binlog_row_metadata",
			"fail binlog_format", "fail table a", "fail table missing", "fail table nokey"} {
			if !strings.Contains(text, want) {
				t.Errorf("no finding %q in\n%s", want, text)
			}
		}
		if strings.Contains(text, "*") && strings.Contains(text, "IDENTIFIED") {
			t.Errorf("a finding shows a password's hash:\n%s", text)
		}
		bad := b.configured(Config{DSN: strings.Replace(dsn, "poor:x", "poor:wrong-secret", 1)})
		if _, err := bad.Latest(testContext(t), nil); !replicator.IsFatal(err) ||
			strings.Contains(err.Error(), "wrong-secret") {
			t.Errorf("a wrong password: %v", err)
		}
		from := b.latest(b.source())
		if r, err := src.Open(testContext(t), []replicator.Position{from}); err == nil {
			err = r.Read(testContext(t), newRecorder())
			if !replicator.IsFatal(err) {
				t.Errorf("reading without the right to: %v", err)
			}
		}
	})
}

func TestCheckSaysThatTheServerIsFull(t *testing.T) {
	b := newBench(t, servertest.Own(t, servers.MySQL))
	b.exec("CREATE USER 'one'@'%' IDENTIFIED BY 'x'", "SET GLOBAL max_connections = 1")
	src := b.configured(Config{DSN: strings.Replace(b.server.DSN(b.database), "root", "one:x", 1)})
	found := src.Check(testContext(t)) // root uses the only connection
	b.exec("SET GLOBAL max_connections = 100")
	if len(found) != 1 || !strings.Contains(found[0].Fix, "max_connections") {
		t.Errorf("check says %v", found)
	}
}

func TestTLSIsUsedForBothConnections(t *testing.T) {
	s := servertest.MySQL(t)
	b := newBench(t, s)
	b.exec(cellDDL)
	dsn := b.account(" REQUIRE SSL", "")
	for _, mode := range []string{"skip-verify", "preferred"} {
		src := b.configured(Config{DSN: dsn + "?tls=" + mode, Tables: []replicator.Table{cellTable()},
			Heartbeat: time.Second})
		from := b.latest(src)
		b.exec("INSERT INTO cell(row_key, column_name, ref_key) VALUES ('k', '" + mode + "', 1)")
		if got := b.changes(src, from); len(got) != 1 {
			t.Errorf("tls=%s: %d changes", mode, len(got))
		}
	}
	if _, err := b.configured(Config{DSN: dsn}).Latest(testContext(t), nil); err == nil {
		t.Error("without TLS the account could log in")
	}
}

func TestASocketWillDo(t *testing.T) {
	s := servertest.Shared(t, "mariadb-10.11")
	b := newBench(t, s)
	b.exec(cellDDL)
	var socket string
	b.scan(b.db.QueryRow("SELECT CONCAT(@@datadir, @@socket)"), &socket)
	if len(socket) > 100 {
		t.Skip("the socket's path is too long here")
	}
	src := b.configured(Config{DSN: "root@unix(" + socket + ")/" + b.database, Tables: []replicator.Table{cellTable()}})
	p, err := src.Latest(testContext(t), nil)
	if err != nil {
		t.Skipf("no socket: %v", err)
	}
	b.exec("INSERT INTO cell(row_key, column_name, ref_key) VALUES ('k', 'c', 1)")
	if got := b.changes(src, p); len(got) != 1 {
		t.Errorf("%d changes", len(got))
	}
}

func TestASilentServerIsNoticed(t *testing.T) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		b := newBench(t, servertest.Own(t, kind))
		b.exec(cellDDL)
		src := b.configured(Config{Tables: []replicator.Table{cellTable()}, Heartbeat: 200 * time.Millisecond,
			ReadTimeout: time.Second})
		x := b.read(b.open(src, b.latest(src)))
		<-x.news
		// The connection is idle for longer than the timeout. Heartbeats keep it alive.
		select {
		case <-x.done:
			t.Fatalf("an idle connection ended: %v", x.err)
		case <-time.After(2 * time.Second):
		}
		if err := b.server.Suspend(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		err := x.failure()
		if took := time.Since(began); err == nil || replicator.IsFatal(err) || took > 5*time.Second {
			t.Errorf("after %s: %v (fatal: %t), want a temporary error", took, err, replicator.IsFatal(err))
		}
		if err := b.server.Resume(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestAKilledServerIsReadOn(t *testing.T) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		b := newBench(t, servertest.Own(t, kind))
		b.exec(cellDDL)
		src := b.source(cellTable())
		x := b.read(b.open(src, b.latest(src)))
		b.exec("INSERT INTO cell(row_key, column_name, ref_key) VALUES ('k', 'c', 1)")
		x.upTo(b.latest(src))
		p := x.reader.Position(x.last())
		if err := b.server.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := x.failure(); replicator.IsFatal(err) {
			t.Errorf("reading ended with a fatal error: %v", err)
		}
		if _, err := src.Open(testContext(t), []replicator.Position{p}); err == nil || replicator.IsFatal(err) {
			t.Errorf("opening a dead server: %v, want a temporary error", err)
		}
		if err := b.server.Restart(testContext(t)); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			if _, err := b.db.Exec(fmt.Sprintf("INSERT INTO cell(row_key, column_name, ref_key) VALUES ('k', 'c', %d)",
				i+2)); err != nil && !errors.Is(err, mysql.ErrInvalidConn) {
				t.Fatal(err)
			}
		}
		wantChanges(t, b.changes(src, p), "insert cell.c 6b000000000000000000000000000000 v2",
			"insert cell.c 6b000000000000000000000000000000 v3", "insert cell.c 6b000000000000000000000000000000 v4")
	})
}

func TestAnErrorOfTheHandlerEndsReading(t *testing.T) {
	s := servertest.MySQL(t)
	b := newBench(t, s)
	b.exec(cellDDL)
	src := b.source(cellTable())
	from := b.latest(src)
	b.exec("INSERT INTO cell(row_key, column_name, ref_key) VALUES ('k', 'c', 1)")
	h := newRecorder()
	h.stop = errors.New("the sink is full")
	if err := b.open(src, from).Read(testContext(t), h); err != h.stop {
		t.Errorf("reading ended with %v, want the handler's error as it is", err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cause := errors.New("stopped")
	cancel(cause)
	if err := b.open(src, from).Read(ctx, newRecorder()); !errors.Is(err, cause) {
		t.Errorf("reading ended with %v, want the cause", err)
	}
}

func TestABadDSNIsNotShown(t *testing.T) {
	_, err := New(Config{DSN: "replicator:se/cret%zz@tcp(127.0.0.1:3306)"})
	if err == nil || strings.Contains(err.Error(), "cret") {
		t.Errorf("a DSN that can't be read: %v", err)
	}
}

func TestASourceForOtherTablesUsesTheSameConnections(t *testing.T) {
	b := newBench(t, servertest.MySQL(t))
	b.exec("CREATE TABLE a (id INT PRIMARY KEY)", "CREATE TABLE b (id INT PRIMARY KEY)")
	src := b.source(replicator.Table{Name: "a", Key: []string{"id"}})
	other, err := src.For([]replicator.Table{{Name: "b", Database: b.database, Table: "b", Key: []string{"id"}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*Source{"a": src, "b": other} {
		found, err := s.Identities(testContext(t), []string{"a", "b"})
		if err != nil || len(found) != 1 || found[name] == "" {
			t.Errorf("the source for %s knows %v: %v", name, found, err)
		}
	}
	if n := src.db.Stats().OpenConnections; n != 1 {
		t.Errorf("%d connections", n)
	}
	if _, err := src.For([]replicator.Table{{Name: "c", Database: b.database, Table: "c"}}); err == nil {
		t.Error("a table without a key is taken")
	}
}

// A look at a binlog ends when its context ends, even if the server accepts the connection and then sends nothing.
func TestALookAtABinlogEndsWithItsContext(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	src, err := New(Config{DSN: "u@tcp(" + listener.Addr().String() + ")/d", ReadTimeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := src.witness(ctx, server{flavor: gtid.MySQL}, placed{File: "binlog.000001", Pos: 4})
		ended <- err
	}()
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("it ends with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("it is still waited for")
	}
}

// Read is canceled while it takes packets from a connection's buffer. Ending the session must not touch that
// connection. Only the race detector can show this.
func TestReadingEndsInTheMidstOfAStream(t *testing.T) {
	b := newBench(t, servertest.MySQL(t))
	b.exec(cellDDL)
	src := b.source(cellTable())
	from := b.latest(src)
	for i := range 400 {
		b.exec(fmt.Sprintf("INSERT INTO cell(row_key, column_name, ref_key) VALUES ('k', 'c', %d)", i+1))
	}
	for range 30 {
		h := newRecorder()
		ctx, cancel := context.WithCancel(testContext(t))
		done := make(chan error)
		reader := b.open(src, from)
		go func() { done <- reader.Read(ctx, h) }()
		<-h.news
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("reading ended with %v", err)
		}
	}
}
