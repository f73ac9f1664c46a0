package link

import (
	"database/sql"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// silence is how long connections of these tests may be silent before they count as lost.
const silence = time.Second

// pool makes a pool that reaches a server over a link. Its database has a table with one row.
func pool(t *testing.T, s *servers.Server, statements ...string) (*sql.DB, *servertest.Link) {
	t.Helper()
	return poolOf(t, s, Options{Silence: silence, Session: statements})
}

func poolOf(t *testing.T, s *servers.Server, o Options) (*sql.DB, *servertest.Link) {
	t.Helper()
	database := servertest.Database(t, s)
	k := servertest.NewLink(t, s.Addr())
	c, err := mysql.ParseDSN(s.DSN(database))
	if err != nil {
		t.Fatal(err)
	}
	c.Net, c.Addr, c.Logger = "tcp", k.Address(), &mysql.NopLogger{}
	o.Session = append(o.Session, "SET SESSION innodb_lock_wait_timeout = 20")
	db, err := Open(c, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	for _, q := range []string{"CREATE TABLE t (id INT PRIMARY KEY, n INT)", "INSERT INTO t VALUES (1, 0)"} {
		if _, err := db.ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	return db, k
}

// hold opens n connections, and leaves them idle in the pool. It returns their ids.
func hold(t *testing.T, db *sql.DB, n int) (ids []int64) {
	t.Helper()
	db.SetMaxIdleConns(n)
	var conns []*sql.Conn
	for range n {
		c, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var id int64
		if err := c.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
			t.Fatal(err)
		}
		conns, ids = append(conns, c), append(ids, id)
	}
	for _, c := range conns {
		c.Close()
	}
	return ids
}

// TestLocksOfLostSessionsAreFree: a transaction on a lost connection keeps its row locked until the server ends the
// session. The pool's next connection ends it.
func TestLocksOfLostSessionsAreFree(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, k := pool(t, s)
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.ExecContext(t.Context(), "UPDATE t SET n = 1"); err != nil {
			t.Fatal(err)
		}
		k.Cut()
		began := time.Now()
		if _, err := tx.ExecContext(t.Context(), "UPDATE t SET n = 2"); !errors.Is(err, mysql.ErrInvalidConn) {
			t.Fatalf("over a silent link: %v", err)
		}
		_ = tx.Rollback() // it fails, because the connection is lost
		if _, err := db.ExecContext(t.Context(), "UPDATE t SET n = 3"); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 8*time.Second {
			t.Errorf("the row was free after %s", took)
		}
	})
}

// TestAPoolThatIsClosedEndsItsLostSessions: a command that failed on a lost connection leaves no locks behind.
func TestAPoolThatIsClosedEndsItsLostSessions(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, k := pool(t, s)
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var id int64
		if err := tx.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
			t.Fatal(err)
		}
		k.Cut()
		if _, err := tx.ExecContext(t.Context(), "UPDATE t SET n = 1"); err == nil {
			t.Fatal("over a silent link: no error")
		}
		_ = tx.Rollback() // it fails, because the connection is lost
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		root, err := sql.Open("mysql", s.DSN(""))
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		for deadline := time.Now().Add(10 * time.Minute); ; {
			var n int
			if err := root.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE id = ?",
				id).Scan(&n); err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				return
			}
			if time.Now().After(deadline) {
				t.Fatal("the session is still there")
			}
		}
	})
}

// TestIdleConnectionsGoWithTheFirstThatIsLost: queries don't wait on the idle connections one after the other.
func TestIdleConnectionsGoWithTheFirstThatIsLost(t *testing.T) {
	s := servertest.MySQL(t)
	db, k := pool(t, s)
	old := hold(t, db, 6)
	k.Cut()
	began := time.Now()
	failed := 0
	for {
		var id int64
		err := db.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id)
		if err == nil {
			break
		}
		if failed++; failed > 1 {
			t.Fatalf("a second connection was waited for: %v", err)
		}
	}
	if took := time.Since(began); failed != 1 || took > 3*silence {
		t.Errorf("%d connections were lost in %s", failed, took)
	}
	if now := hold(t, db, 6); now[0] <= old[5] {
		t.Errorf("connections %v are from before the cut (%v)", now, old)
	}
}

// TestNobodyElsesSessionIsEnded: a lost session is identified by its marker, not by its number.
func TestNobodyElsesSessionIsEnded(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, _ := pool(t, s)
		other, err := sql.Open("mysql", s.DSN(""))
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		bystander, err := other.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer bystander.Close()
		if _, err := bystander.ExecContext(t.Context(), "DO GET_LOCK('"+servertest.Database(t, s)+"', 0)"); err != nil {
			t.Fatal(err)
		}
		c, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Raw(func(raw any) error {
			c := raw.(*conn)
			c.connector.lost = []string{"replicator-link-gone"} // as if left from before the server restarted
			return errors.Join(c.end(t.Context(), c.connector.take()), c.Ping(t.Context()))
		}); err != nil {
			t.Error(err)
		}
		c.Close()
		if err := bystander.PingContext(t.Context()); err != nil {
			t.Errorf("another's session was ended: %v", err)
		}
	})
}

func TestSessionsEndSoonWhereNobodyIsLeftToEndThem(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		db, _ := pool(t, s, "SET SESSION net_write_timeout = 7")
		var idle, write int
		if err := db.QueryRowContext(t.Context(),
			"SELECT @@wait_timeout, @@net_write_timeout").Scan(&idle, &write); err != nil {
			t.Fatal(err)
		}
		if idle != 60 || write != 7 {
			t.Errorf("wait_timeout is %d, net_write_timeout %d", idle, write)
		}
	})
}

func TestLockWaitEndsBeforeTheSilence(t *testing.T) {
	for silence, want := range map[time.Duration]time.Duration{
		time.Second: time.Second, 5 * time.Second: time.Second, 20 * time.Second: 6 * time.Second,
		10 * time.Minute: 10 * time.Second,
	} {
		if got := LockWait(silence); got != want {
			t.Errorf("of %s: %s, want %s", silence, got, want)
		}
	}
}

// TestAServerWithoutUserLocksServesAllTheSame: such a session has no marker, and only its timeouts end it.
func TestAServerWithoutUserLocksServesAllTheSame(t *testing.T) {
	db, _ := pool(t, servertest.MySQL(t))
	c, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Raw(func(raw any) error {
		n, err := raw.(*conn).ask(t.Context(), "SELECT no_such_function()")
		if n != 0 {
			t.Errorf("the answer is %d", n)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// Settings that an operator makes for all sessions of a server must not apply to the pool's sessions. They must read
// all rows, and end each transaction.
func TestSessionsTakeNothingFromTheServersGlobalVariables(t *testing.T) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		s := servertest.Own(t, kind)
		db, _ := poolOf(t, s, Options{Silence: 30 * time.Second})
		limit := "max_execution_time"
		if kind.IsMariaDB() {
			limit = "max_statement_time"
		}
		for _, set := range []string{
			"sql_select_limit = 1", "autocommit = 0", "completion_type = 2", limit + " = 100",
		} {
			if _, err := db.ExecContext(t.Context(), "SET GLOBAL "+set); err != nil {
				t.Fatal(err)
			}
		}
		after, _ := poolOf(t, s, Options{Silence: 30 * time.Second})
		var autocommit, completion, longest string
		asked := after.QueryRowContext(t.Context(), "SELECT @@autocommit, @@completion_type, @@"+limit)
		if err := asked.Scan(&autocommit, &completion, &longest); err != nil {
			t.Fatal(err)
		}
		if autocommit != "1" || completion != "NO_CHAIN" || strings.Trim(longest, "0.") != "" {
			t.Errorf("autocommit %s, completion_type %s, %s %s", autocommit, completion, limit, longest)
		}
		rows, err := after.QueryContext(t.Context(), "SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3")
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		n := 0
		for rows.Next() {
			n++
		}
		if err := rows.Err(); err != nil || n != 3 {
			t.Errorf("%d rows of 3: %v", n, err)
		}
	})
}

// TestOpenConnectionsToAnEarlierServerAreNotUsedAgain: after a failover, the address of a proxy or a service leads to
// another server. The earlier server still answers on the open connections, and accepts writes.
func TestOpenConnectionsToAnEarlierServerAreNotUsedAgain(t *testing.T) {
	before, after := servertest.Shared(t, servers.MariaDB1011), servertest.MySQL(t)
	link := servertest.NewLink(t, before.Addr())
	c, err := mysql.ParseDSN(before.DSN(""))
	if err != nil {
		t.Fatal(err)
	}
	c.Net, c.Addr = "tcp", link.Address()
	db, err := Open(c, Options{Silence: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	conns := 3
	hold(t, db, conns)
	leads := func(to *servers.Server, moved string) {
		t.Helper()
		link.Lead(to.Addr())
		conns++
		hold(t, db, conns) // the pool must open one more connection
		_, port, err := net.SplitHostPort(to.Addr())
		if err != nil {
			t.Fatal(err)
		}
		for range conns {
			var at, n string
			if err := db.QueryRowContext(t.Context(), "SELECT @@port, "+Moved).Scan(&at, &n); err != nil {
				t.Fatal(err)
			}
			if at != port || n != moved {
				t.Errorf("a connection leads to port %s, after %s moves; want %s, %s", at, n, port, moved)
			}
		}
	}
	leads(after, "1")
	leads(before, "2")
}
