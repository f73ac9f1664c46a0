// Package link makes pools of connections to MySQL and MariaDB servers over links that may go silent: neither an end
// nor an answer arrives any more, on any connection that is open, while new ones work. (A firewall that forgot them, a
// machine behind an address that was exchanged.)
//
// Each connection by itself is noticed by its silence (readTimeout). That is not enough, and this package does the
// rest:
//
//   - The server knows nothing of it: its sessions keep their transactions and locks until wait_timeout, 8 hours by
//     default. So sessions have short timeouts of their own, for where this process is gone, too; and the next
//     connection that is made ends the sessions of those that were lost.
//   - The other connections of the pool are as dead, and would each be waited for: the idle ones are given up with the
//     first.
//
// An address may also come to lead to another server (a service's address, a proxy, a name, after a failover), while
// open connections still lead to the one before. If that one lives on, what is written over them, readers never see.
// So a connection that shows another server makes the pool give up the earlier ones, and Moved tells who writes.
//
// Of a lost session the number alone would not do: numbers begin anew when a server restarts, and an address may lead
// to another server. Each session therefore holds a user lock (GET_LOCK) with a name that nobody can guess. The server
// says which session holds it, and that one is ours and can be ended without any special right. Where a server has no
// such locks (a Galera cluster that forbids them) the session's timeouts have to do.
//
// And a session keeps what it was given as it began: the rights that GRANT gives on its database and on all of the
// server, and global settings. So a connection that is refused something for want of a right makes the pool give up all
// that were made until then, and who begins anew does not use earlier ones (Renew).
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

// Options say what a pool's connections are like.
type Options struct {
	// Silence is after how long without an answer a connection is lost, where the DSN's readTimeout does not say it.
	Silence time.Duration

	// Asks is after how long without an answer the server is asked whether the session still works: a connection on which
	// it waits for the client is lost. 0: never, the silence alone counts.
	Asks time.Duration

	// Idle is after how long the server ends a session that does nothing; 0: twice the silence, but a minute at least,
	// because this process may wait for a CPU in the middle of a transaction.
	Idle time.Duration

	// Session are statements that set up each session.
	Session []string
}

// Lifetime is after how long a connection that is used is replaced by a new one, which shows where the address leads to
// now.
const Lifetime = time.Minute

// Open makes a pool. It connects to nothing yet.
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
	db.SetConnMaxIdleTime(min(o.Idle/2, 5*time.Minute)) // before the server ends it
	db.SetConnMaxLifetime(Lifetime)
	return db, nil
}

// own are variables that a session must not have from the server's global ones (`SET GLOBAL` reaches every session that
// begins later): with sql_select_limit a query without LIMIT ends early, and nothing says so; without autocommit a
// SELECT keeps its transaction, and locks, open; completion_type may begin another transaction with each COMMIT, or end
// the session; and scans take as long as they take. sql_select_limit has no word for "none", for DEFAULT is the global
// value. Each of the last two is a comment to the other server.
const own = "sql_select_limit = 18446744073709551615, autocommit = 1, completion_type = 0" +
	"/*!80000 , max_execution_time = 0 */ /*M!100100 , max_statement_time = 0 */"

const dialTimeout = 10 * time.Second

// LockWait is how long a session should wait for a lock, given after how much silence its connection counts as lost:
// the server's answer that it waited in vain has to come before that, and whoever waits must be able to say so.
func LockWait(silence time.Duration) time.Duration {
	return min(max(silence/3, time.Second), 10*time.Second).Truncate(time.Second)
}

// connector makes connections, and remembers which were lost.
type connector struct {
	driver.Connector
	setup      []string
	asks       time.Duration // see Options
	generation atomic.Int64  // counts losses and moves: connections of an earlier one are not used again
	renewals   atomic.Int64  // counts Renew and refusals: likewise, but the server knows that their sessions end

	mu     sync.Mutex
	lost   []string // the user locks of sessions that may live on at the server
	server string   // the one that the newest connection leads to; "": not known
	moved  int      // how often that was another one
}

// mostLost bounds what is remembered; the sessions' own timeouts end the others.
const mostLost = 64

// Connect implements driver.Connector.
func (k *connector) Connect(ctx context.Context) (driver.Conn, error) {
	c := &conn{connector: k, generation: k.generation.Load(), renewals: k.renewals.Load()}
	var below *watched
	made, err := k.Connector.Connect(context.WithValue(ctx, dialed{}, &below))
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
		below.works = unknown
		if c.marker != "" {
			below.works = func() bool { return k.works(c.marker, c.server) }
		}
	}
	return c, nil
}

// bury notes that a connection was lost, and that none that was made before it was can be trusted.
func (k *connector) bury(c *conn) {
	k.generation.CompareAndSwap(c.generation, c.generation+1)
	if c.marker == "" {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lost = append(k.lost, c.marker)
	k.lost = k.lost[max(0, len(k.lost)-mostLost):]
}

// take hands over what was lost.
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

// Close ends the sessions that were lost and not yet ended: nobody will make another connection. It implements
// io.Closer for the pool, which calls it as it is closed itself.
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
		return nil // the sessions' own timeouts have to do
	}
	return c.Close()
}

// farewell is how long a pool that is closed may take to end its lost sessions.
const farewell = 5 * time.Second

// session is all that go-sql-driver's connections can.
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

// Moved is a user variable of each session: how often, when it began, the address had led to another server than
// before; NULL if never. What two sessions of one pool write is on one server if it is the same for both.
const Moved = "@replicator_link_moved"

// meets notes which server a new connection leads to.
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

// conn is a connection of the pool.
type conn struct {
	session
	connector  *connector
	generation int64
	renewals   int64
	marker     string // the name of the user lock that its session holds; "": none
	server     string // which one it is; "": not known
}

// setUp sets up the session, gives it its marker, and ends the sessions that were lost before.
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
	if values == nil { // without a lock
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

// end ends the sessions that hold the markers. One that the server does not know is gone already.
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

// ask returns the integer that a query gives; 0 if that is NULL, or if the server refuses the query.
func (c *conn) ask(ctx context.Context, query string) (int64, error) {
	values, err := c.askFor(ctx, 1, query)
	if values == nil {
		return 0, err
	}
	return integer(values[0]), nil
}

// askFor returns the n values of a query's row; nil if the server refuses the query.
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
			values[i] = string(b) // the driver's bytes are good until the rows are closed
		}
	}
	return values, nil
}

// integer is a value as an integer; 0 if it is none.
func integer(v driver.Value) int64 {
	var n sql.NullInt64
	_ = n.Scan(v) // what is no integer leaves it 0
	return n.Int64
}

// unanswered reports whether an error is not the server's own answer.
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

// ResetSession implements driver.SessionResetter: it is called before a connection of the pool is used again.
func (c *conn) ResetSession(ctx context.Context) error {
	if c.generation != c.connector.generation.Load() || c.renewals != c.connector.renewals.Load() {
		return driver.ErrBadConn
	}
	return c.session.ResetSession(ctx)
}

// Close implements driver.Conn. A connection that is not valid any more was lost, or given up in the middle of
// something: its session may go on at the server.
func (c *conn) Close() error {
	if !c.IsValid() || c.generation != c.connector.generation.Load() {
		c.connector.bury(c)
	}
	return c.session.Close()
}
