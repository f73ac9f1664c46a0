package redis

import (
	"context"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"syscall"

	"replicator/internal/socket"
)

// links counts how often a link went silent: neither an end nor an answer arrives any more, on any connection that is
// open, while new ones work. The connections that then stand idle in the pool are as dead as the one that showed it,
// and would each be waited for.
type links struct{ lost atomic.Int64 }

type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// over makes a dialer's connections known to the links.
func (l *links) over(dial dialer) dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		at := l.lost.Load()
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &conn{Conn: socket.Quick(c), links: l, at: at}, nil
	}
}

// conn is a connection that notices when its link goes silent.
type conn struct {
	net.Conn
	links *links
	at    int64 // how many links had been lost when it was made
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	return n, c.note(err)
}

func (c *conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	return n, c.note(err)
}

// note notes an answer that did not come. A connection that is older than the last loss tells nothing of those that
// were made after it.
func (c *conn) note(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.links.lost.CompareAndSwap(c.at, c.at+1)
	}
	return err
}

var errLost = errors.New("its link went silent")

// SyscallConn is how the pool finds out whether an idle connection can be used: by looking into its socket.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	if c.at != c.links.lost.Load() {
		return nil, errLost
	}
	if s, ok := c.Conn.(syscall.Conn); ok {
		return s.SyscallConn()
	}
	return unseen{}, nil
}

// unseen is a socket that is not looked into: TLS has data of its own there.
type unseen struct{}

func (unseen) Control(func(uintptr)) error    { return nil }
func (unseen) Read(func(uintptr) bool) error  { return nil }
func (unseen) Write(func(uintptr) bool) error { return nil }
