package canal

import (
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"replicator"
)

type mysqlError = mysql.MySQLError

// querier is a connection or a pool of them.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// eachRow calls f for every row and closes rows.
func eachRow(rows *sql.Rows, f func() error) error {
	defer rows.Close()
	for rows.Next() {
		if err := f(); err != nil {
			return err
		}
	}
	return rows.Err()
}

// The servers' errors that decide what happens next.
const (
	errnoAccessDenied     = 1045
	errnoDBAccessDenied   = 1044
	errnoTableDenied      = 1142
	errnoColumnDenied     = 1143
	errnoSpecificDenied   = 1227
	errnoLockWaitTimeout  = 1205
	errnoDeadlock         = 1213
	errnoBinlogFatal      = 1236
	errnoLockNowait       = 3572
	errnoNoSuchDatabase   = 1049
	errnoNoSuchTable      = 1146
	errnoNoSuchKey        = 1176
	errnoBadField         = 1054
	errnoNotAllowed       = 1130
	errnoPluginNotLoaded  = 1524
	errnoMustChangePasswd = 1820
)

// classify marks errors that trying again won't mend as Fatal.
func classify(err error) error {
	var e *mysqlError
	if !errors.As(err, &e) {
		return err
	}
	switch e.Number {
	case errnoAccessDenied, errnoDBAccessDenied, errnoTableDenied, errnoColumnDenied, errnoSpecificDenied, errnoNotAllowed,
		errnoPluginNotLoaded, errnoMustChangePasswd, errnoNoSuchDatabase, errnoNoSuchTable, errnoBadField:
		return replicator.Fatal(err)
	}
	return err
}

const (
	dialTimeout = 10 * time.Second

	// queryTimeout bounds the silence on an SQL connection, so that a dead link is noticed (see package link). The longest
	// wait of ours is for a row's lock, 50 s by default.
	queryTimeout = 3 * time.Minute

	// askAfter is how long a query may be silent before the server is asked whether it works on it.
	askAfter = 15 * time.Second
)

// sqlConfig is how the pool connects, whatever the DSN says of it: what values look like depends on it.
func sqlConfig(dsn string) (*mysql.Config, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, errors.New("the dsn can't be read: it is USER:PASSWORD@tcp(HOST:PORT)/DATABASE") // err may quote it
	}
	cfg.Logger = &mysql.NopLogger{} // errors are returned; nothing is to print beside our own log
	cfg.ParseTime = false
	cfg.InterpolateParams = true // one round trip, and values come as the server's text
	cfg.MultiStatements = false
	if cfg.Timeout == 0 {
		cfg.Timeout = dialTimeout
	}
	if cfg.ReadTimeout == 0 {
		cfg.ReadTimeout = queryTimeout
	}
	if err := cfg.Apply(mysql.Charset("utf8mb4", "")); err != nil {
		return nil, err
	}
	cfg.Collation = ""
	if cfg.Params == nil {
		cfg.Params = map[string]string{}
	}
	for name := range cfg.Params {
		switch strings.ToLower(name) {
		case "time_zone", "sql_mode", "transaction_isolation", "tx_isolation", "sql_select_limit":
			delete(cfg.Params, name)
		}
	}
	cfg.Params["time_zone"] = "'+00:00'"
	cfg.Params["sql_mode"] = "''" // no ANSI_QUOTES, no PAD_CHAR_TO_FULL_LENGTH
	return cfg, nil
}

// longRead is the network connection under a replication connection. A binlog is read in many small pieces, and a
// deadline for each costs a quarter of the throughput: it is renewed only now and then. The server's heartbeats come
// more often than it ends, so a link that is cut without a word is noticed.
type longRead struct {
	net.Conn
	timeout time.Duration
	renewed time.Time

	mu    sync.Mutex
	final bool // the deadline is BinlogSyncer.Close's
}

func (l *longRead) Read(b []byte) (int, error) {
	if now := time.Now(); now.Sub(l.renewed) > l.timeout/4 {
		if err := l.renew(now); err != nil {
			return 0, err
		}
	}
	return l.Conn.Read(b)
}

func (l *longRead) renew(now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.final {
		return nil
	}
	l.renewed = now
	return l.Conn.SetReadDeadline(now.Add(l.timeout))
}

// SetReadDeadline is how BinlogSyncer.Close ends what is being read: no later read may go beyond it.
func (l *longRead) SetReadDeadline(t time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.final = true
	return l.Conn.SetReadDeadline(t)
}

// dialer makes replication connections. After shut it makes none: BinlogSyncer.Close opens one to KILL the last
// connection, whose number may by then belong to another one if the server restarted.
type dialer struct {
	timeout time.Duration // of the connections' silence
	closed  atomic.Bool

	mu    sync.Mutex
	last  net.Conn
	ended bool // nobody waits for what is read any more
}

var errDialerShut = errors.New("no further connections")

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if d.closed.Load() {
		return nil, errDialerShut
	}
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = conn
	timeout := d.timeout
	if d.ended {
		timeout = min(timeout, dialTimeout) // of the connection that is made for KILL
	}
	return &longRead{Conn: conn, timeout: timeout}, nil
}

func (d *dialer) shut() { d.closed.Store(true) }

// end bounds how long the connection that is made for KILL may be silent.
func (d *dialer) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
}

// cut ends the last connection, which may be waiting for a server that says nothing. Not once StartSync is through:
// BinlogSyncer.Close closes a connection that takes no deadline any more while its goroutine reads from the buffer.
func (d *dialer) cut() {
	d.end()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last != nil {
		d.last.Close()
	}
}

// endpoint is a DSN's address as BinlogSyncer wants it: a socket's path has no port.
func endpoint(cfg *mysql.Config) (host string, port uint16, err error) {
	if cfg.Net == "unix" {
		return cfg.Addr, 0, nil
	}
	host, text, err := net.SplitHostPort(cfg.Addr)
	if err != nil {
		return "", 0, fmt.Errorf("dsn: address %s: %w", cfg.Addr, err)
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("dsn: port %q", text)
	}
	return host, uint16(n), nil
}

// replicationTLS is the DSN's TLS for the replication connection. "preferred" is TLS exactly if the pool's connections
// have it.
func replicationTLS(cfg *mysql.Config, poolHasTLS bool) *tls.Config {
	if cfg.TLS == nil || cfg.AllowFallbackToPlaintext && !poolHasTLS {
		return nil
	}
	return cfg.TLS.Clone()
}
