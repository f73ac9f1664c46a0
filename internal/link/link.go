// Package link makes connection pools for MySQL and MariaDB servers that detect silently lost connections. On such a
// connection, the client gets no answers and is not told that the connection has ended, although new connections work.
// The cause may be a firewall that dropped its state, or a replaced machine behind an address.
//
// A read timeout detects the loss of a single connection. That is not enough. This package does the rest:
//
//   - The server does not notice the loss. Its session keeps its transaction and locks until wait_timeout, 8 hours by
//     default. So sessions get short timeouts, in case this process is gone, too. And the next new connection ends the
//     sessions of lost connections.
//   - The pool's other connections are probably lost, too, and a query would wait on each of them. So once the pool has
//     found one lost, it closes the others instead of using them again.
//
// After a failover, an address (a service's address, a proxy, a name) may lead to another server, while open
// connections still lead to the old one. If the old server still runs, readers never see what is written to it. So when
// a connection finds another server, the pool drops the earlier connections, and Moved tells their users.
//
// A session's number does not identify a lost session: numbers start again when a server restarts, and an address may
// lead to another server. So each session holds a user lock (GET_LOCK) with an unguessable name. The server says which
// session holds it. That session is surely this pool's, and ending it needs no special privilege. If a server has no
// such locks (a Galera cluster forbids them), only the session's timeouts end it.
//
// A session also keeps some of its initial settings: privileges that GRANT gives on its database or on the whole
// server, and global settings. So if a connection lacks a privilege, the pool drops all connections made until then. A
// caller that starts again can do the same with Renew.
package link

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Options configure a pool's connections.
type Options struct {
	// Silence is how long a connection may go without an answer before it counts as lost, unless the DSN sets
	// readTimeout.
	Silence time.Duration

	// Asks is how long a connection waits for an answer before it asks the server, over another connection, whether the
	// session is still at work. If the session is idle, the connection counts as lost. 0: it never asks.
	Asks time.Duration

	// Idle is how long the server waits before it ends an idle session; 0: twice Silence, but at least a minute,
	// because this process may wait for a CPU within a transaction.
	Idle time.Duration

	// Session lists statements that set up each session.
	Session []string
}

// Lifetime is how long a connection is used before a new one replaces it. A new connection resolves the address again,
// so it finds the new server after a failover.
const Lifetime = time.Minute

// Open makes a pool, without connecting.
func Open(c *mysql.Config, o Options) (*sql.DB, error) {
	c = c.Clone()
	if c.ReadTimeout == 0 {
		c.ReadTimeout = o.Silence
	}
	if c.WriteTimeout == 0 {
		c.WriteTimeout = c.ReadTimeout
	}
	if c.Timeout == 0 {
		c.Timeout = min(c.ReadTimeout, dialTimeout)
	}
	k := &connector{asks: o.Asks}
	if c.DialFunc == nil && c.Net == "tcp" {
		c.DialFunc = k.dial
	}
	var err error
	if k.Connector, err = mysql.NewConnector(c); err != nil {
		return nil, err
	}
	if o.Idle == 0 {
		o.Idle = max(2*c.ReadTimeout, time.Minute)
	}
	k.setup = append([]string{fmt.Sprintf("SET SESSION wait_timeout = %d, "+own, int(o.Idle.Seconds()))}, o.Session...)
	db := sql.OpenDB(k)
	db.SetConnMaxIdleTime(min(o.Idle/2, 5*time.Minute)) // before the server ends the idle session
	db.SetConnMaxLifetime(Lifetime)
	return db, nil
}

// own sets variables that sessions take from global ones by default, which an operator may change. Otherwise a query
// could end early without an error, a SELECT could leave its transaction open, a COMMIT could begin a new transaction,
// and a scan could time out. MySQL runs the first of the two comments, and MariaDB the second.
const own = "sql_select_limit = 18446744073709551615, autocommit = 1, completion_type = 0" +
	"/*!80000 , max_execution_time = 0 */ /*M!100100 , max_statement_time = 0 */"

const dialTimeout = 10 * time.Second

// LockWait returns how long a session should wait for a lock, given Silence. The server's timeout error must arrive
// before the connection counts as lost, and the caller must have time to report it.
func LockWait(silence time.Duration) time.Duration {
	return min(max(silence/3, time.Second), 10*time.Second).Truncate(time.Second)
}

type connector struct {
	driver.Connector
	setup      []string
	asks       time.Duration // see Options.Asks
	generation atomic.Int64  // rises when a connection is lost or the server changes; those made before count as lost
	renewals   atomic.Int64  // rises to renew the connections; those made before are not used again, but are not lost

	mu     sync.Mutex
	lost   []string // the names of the user locks of lost sessions; the server may still run these sessions
	server string   // the server that the newest connection leads to; "": not known
	moved  int      // how often the address led to another server
}

// mostLost limits how many lost sessions are remembered. Older ones end by their own timeouts.
const mostLost = 64

// Connect implements driver.Connector.
func (k *connector) Connect(ctx context.Context) (driver.Conn, error) {
	c := &conn{connector: k, generation: k.generation.Load(), renewals: k.renewals.Load()}
	var below *watched
	made, err := k.Connector.Connect(context.WithValue(ctx, dialedKey{}, &below))
	if err != nil {
		return nil, err
	}
	var ok bool
	if c.session, ok = made.(session); !ok {
		return nil, errors.Join(fmt.Errorf("the driver's %T lacks methods", made), made.Close())
	}
	if err := c.setUp(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if below != nil {
		below.works = assumeWork
		if c.marker != "" {
			below.works = func() bool { return k.works(c.marker, c.server) }
		}
	}
	return c, nil
}

// lose records that a connection was lost. The other connections of its generation then count as lost, too.
func (k *connector) lose(c *conn) {
	k.generation.CompareAndSwap(c.generation, c.generation+1)
	if c.marker == "" {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lost = append(k.lost, c.marker)
	k.lost = k.lost[max(0, len(k.lost)-mostLost):]
}

func (k *connector) take() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	lost := k.lost
	k.lost = nil
	return lost
}

func (k *connector) giveBack(lost []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lost = append(k.lost, lost...)
}

// Close makes one more connection if there are lost ones, because each new connection ends the sessions of lost ones on
// the server. sql.DB.Close calls Close.
func (k *connector) Close() error {
	k.mu.Lock()
	none := len(k.lost) == 0
	k.mu.Unlock()
	if none {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	c, err := k.Connect(ctx)
	if err != nil {
		return nil // the server can't be reached; the lost sessions end by their own timeouts
	}
	return c.Close()
}

// farewell is how long closing a pool may take to end its lost sessions.
const farewell = 5 * time.Second

// session is the set of interfaces that go-sql-driver's connections implement.
type session interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
	driver.NamedValueChecker
}

// Moved is a user variable of each session. It counts how often the address had led to another server when the session
// began; NULL if never. If two sessions of a pool have the same value, they write to the same server.
const Moved = "@replicator_link_moved"

// meets records to which server a new connection leads. If that is another server than before, the earlier connections
// are not used again. It returns how often that has happened.
func (k *connector) meets(c *conn) (moved int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.server != "" && k.server != c.server {
		k.moved++
		c.generation = k.generation.Add(1)
	}
	k.server = c.server
	return k.moved
}

type conn struct {
	session
	connector  *connector
	generation int64
	renewals   int64
	marker     string // the name of the user lock that the session holds; "": none
	server     string // the server that the session is on; "": not known
}

// setUp sets up the session, takes the user lock that identifies it, and ends the sessions of lost connections.
func (c *conn) setUp(ctx context.Context) error {
	for _, s := range c.connector.setup {
		if _, err := c.ExecContext(ctx, s, nil); err != nil {
			return err
		}
	}
	marker := "replicator-link-" + rand.Text()
	values, err := c.askFor(ctx, 2, "SELECT GET_LOCK('"+marker+"', 0), "+whichServer)
	if err != nil {
		return err
	}
	if values == nil { // the server refuses user locks
		if values, err = c.askFor(ctx, 2, "SELECT 0, "+whichServer); err != nil {
			return err
		}
	}
	if values != nil {
		c.server = text(values[1])
		if integer(values[0]) == 1 {
			c.marker = marker
		}
		if moved := c.connector.meets(c); moved > 0 {
			if _, err := c.ExecContext(ctx, fmt.Sprintf("SET %s = %d", Moved, moved), nil); err != nil {
				return err
			}
		}
	}
	lost := c.connector.take()
	if err := c.end(ctx, lost); err != nil {
		c.connector.giveBack(lost)
		return err
	}
	return nil
}

// end ends the sessions that hold the given user locks. A session that the server does not know has already ended.
func (c *conn) end(ctx context.Context, markers []string) error {
	for _, m := range markers {
		id, err := c.ask(ctx, "SELECT IS_USED_LOCK('"+m+"')")
		if err != nil {
			return err
		}
		if id == 0 {
			continue
		}
		if _, err := c.ExecContext(ctx, fmt.Sprintf("KILL %d", id), nil); unanswered(err) {
			return err
		}
	}
	return nil
}

// ask returns the integer that a query selects; 0 if that is NULL, or if the server refuses the query.
func (c *conn) ask(ctx context.Context, query string) (int64, error) {
	values, err := c.askFor(ctx, 1, query)
	if values == nil {
		return 0, err
	}
	return integer(values[0]), nil
}

// askFor returns the n values of the row that a query selects; nil if the server refuses the query.
func (c *conn) askFor(ctx context.Context, n int, query string) ([]driver.Value, error) {
	rows, err := c.QueryContext(ctx, query, nil)
	if err != nil {
		return nil, onlyUnanswered(err)
	}
	defer rows.Close()
	values := make([]driver.Value, n)
	if err := rows.Next(values); err != nil {
		return nil, onlyUnanswered(err)
	}
	for i, v := range values {
		if b, ok := v.([]byte); ok {
			values[i] = string(b) // the driver's bytes are valid until the rows are closed
		}
	}
	return values, nil
}

func integer(v driver.Value) int64 {
	var n sql.NullInt64
	_ = n.Scan(v) // n stays 0 if v is not an integer
	return n.Int64
}

// unanswered reports whether an error did not come from the server.
func unanswered(err error) bool {
	var refused *mysql.MySQLError
	return err != nil && !errors.As(err, &refused)
}

func onlyUnanswered(err error) error {
	if unanswered(err) {
		return err
	}
	return nil
}

// ResetSession implements driver.SessionResetter. The pool calls it before it reuses a connection.
func (c *conn) ResetSession(ctx context.Context) error {
	if c.generation != c.connector.generation.Load() || c.renewals != c.connector.renewals.Load() {
		return driver.ErrBadConn
	}
	return c.session.ResetSession(ctx)
}

// Close implements driver.Conn. If the connection is invalid or of an earlier generation, the server may still run its
// session: the connection was lost, or was dropped in the middle of an operation. Then Close remembers the session, so
// that the next new connection ends it.
func (c *conn) Close() error {
	if !c.IsValid() || c.generation != c.connector.generation.Load() {
		c.connector.lose(c)
	}
	return c.session.Close()
}
