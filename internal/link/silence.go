package link

import (
	"context"
	"database/sql/driver"
	"errors"
	"net"
	"os"
	"syscall"
	"time"

	"replicator/internal/socket"
)

// A query may take minutes, and a lost connection is as silent as a busy server. So after a while, the reader asks the
// server, over another connection, whether the session is still at work. If the session waits for the client's next
// command, it has sent its answer or never got the query, so the connection is lost.

// watched is a connection that, while no answer arrives, asks the server over another connection whether this
// connection's session is at work. The driver reads from it in one goroutine.
type watched struct {
	net.Conn
	asks     time.Duration // see Options.Asks
	deadline time.Time     // the driver's read deadline
	works    func() bool   // asks the server; nil during the session's set-up, when silence means a loss
}

// lastAnswer is how long an answer may still be on its way after the server said that the session is idle.
const lastAnswer = time.Second

// Read reads from the connection. While no answer arrives, it asks the server whether the session is still at work.
func (w *watched) Read(b []byte) (int, error) {
	for {
		until := w.deadline
		if next := time.Now().Add(w.asks); until.IsZero() || next.Before(until) {
			until = next
		}
		n, err := w.readUntil(b, until)
		if !errors.Is(err, os.ErrDeadlineExceeded) || until.Equal(w.deadline) {
			return n, err
		}
		if w.works == nil {
			return n, err
		}
		if !w.works() {
			return w.readUntil(b, time.Now().Add(lastAnswer))
		}
	}
}

func (w *watched) readUntil(b []byte, until time.Time) (int, error) {
	if err := w.Conn.SetReadDeadline(until); err != nil {
		return 0, err
	}
	return w.Conn.Read(b)
}

// SetReadDeadline implements net.Conn.
func (w *watched) SetReadDeadline(t time.Time) error {
	w.deadline = t
	return w.Conn.SetReadDeadline(t)
}

// SyscallConn implements syscall.Conn. The driver uses it to check whether an idle connection was closed.
func (w *watched) SyscallConn() (syscall.RawConn, error) {
	c, ok := w.Conn.(syscall.Conn)
	if !ok {
		return nil, errors.New("the connection is not a system socket")
	}
	return c.SyscallConn()
}

// dialedKey is a context key. The value points to a variable of Connect, which dial sets to its connection.
type dialedKey struct{}

// dial connects, and sets the variable of dialedKey to the connection.
func (k *connector) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c = socket.Quick(c)
	if k.asks == 0 {
		return c, nil
	}
	w := &watched{Conn: c, asks: k.asks}
	if made, ok := ctx.Value(dialedKey{}).(*(*watched)); ok {
		*made = w
	}
	return w, nil
}

// assumeWork is the function watched.works of a session that holds no user lock: the server can't be asked about such a
// session.
func assumeWork() bool { return true }

// works reports whether the session that holds a user lock is at work. It also returns true if it can't find out: the
// server can't be reached, or a different server, which doesn't have the session, answers at its address.
func (k *connector) works(marker, server string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	made, err := k.Connector.Connect(ctx)
	if err != nil {
		return true
	}
	defer made.Close()
	query, ok := made.(driver.QueryerContext)
	if !ok {
		return true
	}
	rows, err := query.QueryContext(ctx, "SELECT "+whichServer+", (SELECT COMMAND FROM information_schema.PROCESSLIST "+
		"WHERE ID = IS_USED_LOCK('"+marker+"'))", nil)
	if err != nil {
		return true
	}
	defer rows.Close()
	values := make([]driver.Value, 2)
	if err := rows.Next(values); err != nil || text(values[0]) != server {
		return true
	}
	command := text(values[1])
	return command != "" && command != "Sleep"
}

// whichServer is an SQL expression that distinguishes servers that may answer at one address.
const whichServer = "CONCAT(@@hostname, ':', @@port, ':', @@server_id)"

func text(v driver.Value) string {
	switch v := v.(type) {
	case []byte:
		return string(v)
	case string:
		return v
	}
	return ""
}
