package redis

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"replicator/internal/socket"
)

// links decides which connections must not be used again. There are two reasons:
//
//   - A link went silent: open connections receive no answer and are never closed, while new connections work. The idle
//     connections in the pool are dead, too, and each would cost a timeout of its own.
//   - The address now leads to another server (a service's address, a proxy, a name). Open connections still lead to
//     the former server, which may accept writes that readers never see.
type links struct {
	lost  atomic.Int64 // how often a link went silent or an address moved; connections made before are not used again
	moved atomic.Int64 // how often an address led to another server

	// unreached, if set, is called when a server can't be reached. It must not block.
	unreached func()

	mu      sync.Mutex
	servers map[string]string // by address: the run_id, which changes with each start, of the last server that answered
}

type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// over returns a dialer that connects as dial does, and lets l watch the connections.
func (l *links) over(dial dialer) dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		at := l.lost.Load()
		c, err := dial(ctx, network, address)
		if err != nil {
			l.reportUnreached()
			return nil, err
		}
		return &conn{Conn: socket.Quick(c), links: l, lostAtDial: at}, nil
	}
}

// greets returns the function that the client calls with each new connection to an address. It finds out which server
// the connection leads to. If the address led to another server before, no connection made so far is used again.
func (l *links) greets(address string) func(context.Context, *redis.Conn) error {
	return func(ctx context.Context, c *redis.Conn) error {
		text, err := c.Info(ctx, "server").Result()
		var refused redis.Error
		if errors.As(err, &refused) { // the user may not run INFO, or must log in first: the next command reports that
			return nil
		}
		info := parseInfo(text)
		if err != nil || info["run_id"] == "" || info["redis_mode"] == "sentinel" {
			return err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if was := l.servers[address]; was != "" && was != info["run_id"] {
			l.moved.Add(1)
			l.lost.Add(1)
		}
		l.servers[address] = info["run_id"]
		return nil
	}
}

// conn is a connection that notices when its link goes silent.
type conn struct {
	net.Conn
	links      *links
	lostAtDial int64

	answered bool
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.answered = c.answered || n > 0
	return n, c.noteTimeout(err)
}

// SetReadDeadline sets when a read fails. The first answer, to the login, must arrive within dialTimeout, because the
// operating system accepts connections even for a server that hangs.
func (c *conn) SetReadDeadline(t time.Time) error {
	if first := time.Now().Add(dialTimeout); !c.answered && t.After(first) {
		t = first
	}
	return c.Conn.SetReadDeadline(t)
}

func (c *conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	return n, c.noteTimeout(err)
}

// noteTimeout counts a loss if err is a timeout, so that no connection made before is used again. If a loss was counted
// since this connection was made, it doesn't, because newer connections may work.
func (c *conn) noteTimeout(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.links.lost.CompareAndSwap(c.lostAtDial, c.lostAtDial+1)
		c.links.reportUnreached()
	}
	return err
}

func (l *links) reportUnreached() {
	if l.unreached != nil {
		l.unreached()
	}
}

// errLost makes the pool drop a connection. No message shows it.
var errLost = errors.New("the connection went silent, or its address now leads to another server")

// SyscallConn lets the pool check whether an idle connection can be used, by looking into its socket. It fails if the
// connection must not be used again.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	if c.lostAtDial != c.links.lost.Load() {
		return nil, errLost
	}
	if s, ok := c.Conn.(syscall.Conn); ok {
		return s.SyscallConn()
	}
	return unseen{}, nil
}

// unseen stands for a socket that the pool must not look into: with TLS, unread data is normal.
type unseen struct{}

func (unseen) Control(func(uintptr)) error    { return nil }
func (unseen) Read(func(uintptr) bool) error  { return nil }
func (unseen) Write(func(uintptr) bool) error { return nil }
