package link

import (
	"net"
	"testing"
	"time"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// A lost connection is noticed long before Silence has passed, while a slow query is waited for.
func TestASilentConnectionIsToldFromAServerAtWork(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		const asks = 300 * time.Millisecond
		db, k := poolOf(t, s, Options{Silence: time.Minute, Asks: asks})
		db.SetMaxOpenConns(1)
		began := time.Now()
		var slept int
		if err := db.QueryRowContext(t.Context(), "SELECT SLEEP(2)").Scan(&slept); err != nil || slept != 0 {
			t.Fatalf("a query that takes its time, after %s: %d, %v", time.Since(began), slept, err)
		}
		k.Cut()
		began = time.Now()
		if _, err := db.ExecContext(t.Context(), "UPDATE t SET n = 1"); err == nil {
			t.Fatal("over a silent link: no error")
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it was noticed after %s", took)
		}
		if _, err := db.ExecContext(t.Context(), "UPDATE t SET n = 2"); err != nil {
			t.Error(err)
		}
	})
}

// A server that accepts a connection and sends nothing is not waited for, because setting up a session takes no time.
func TestAConnectionThatIsSilentFromTheStartIsLost(t *testing.T) {
	db, k := poolOf(t, servertest.MySQL(t), Options{Silence: time.Minute, Asks: 300 * time.Millisecond})
	db.SetMaxIdleConns(0)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	k.Lead(silent.Addr().String())
	began := time.Now()
	if err := db.PingContext(t.Context()); err == nil || time.Since(began) > 20*time.Second {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
}

// If the server can't be asked about a session, the query may still be at work.
func TestAServerThatCanNotBeAskedIsWaitedFor(t *testing.T) {
	s := servertest.MySQL(t)
	other := servertest.Shared(t, servers.MariaDB1011)
	db, k := poolOf(t, s, Options{Silence: time.Minute, Asks: 300 * time.Millisecond})
	for _, to := range []string{"127.0.0.1:1", other.Addr()} { // no server; another server
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		k.Lead(to)
		if _, err := conn.ExecContext(t.Context(), "DO SLEEP(2)"); err != nil {
			t.Errorf("%s at its address: %v", to, err)
		}
		k.Lead(s.Addr())
		conn.Close()
	}
}
