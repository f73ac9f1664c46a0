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

// A query may take minutes, and a connection that went silent says as little as a server that is at work. So after a
// while the server is asked, over a connection of its own, whether the session still works: one that waits for the
// client's next word has sent its answer, or never got the question.

// watched is a connection whose silence is asked about. The driver reads from it in one goroutine.
type watched struct {
	net.Conn
	asks     time.Duration
	deadline time.Time   // the driver's, for reading
	works    func() bool // nil while the session is not set up: what sets it up takes no time
}

// lastAnswer is how long what the server sent before it was asked may take to arrive.
const lastAnswer = time.Second

// Read implements net.Conn.
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

// SyscallConn implements syscall.Conn, by which the driver looks whether an idle connection was closed.
func (w *watched) SyscallConn() (syscall.RawConn, error) {
	c, ok := w.Conn.(syscall.Conn)
	if !ok {
		return nil, errors.New("not a connection of the system's")
	}
	return c.SyscallConn()
}

// dialed is the key of a context under which the dialer leaves the connection that it made.
type dialed struct{}

// dial connects, and leaves the connection for whoever makes the session.
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
	if made, ok := ctx.Value(dialed{}).(*(*watched)); ok {
		*made = w
	}
	return w, nil
}

// unknown is of a session that nobody can ask about.
func unknown() bool { return true }

// works reports whether the session that holds a marker is at work, or whether that can't be told: the server can't be
// reached, or another one answers at its address, which knows nothing of the session.
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

// whichServer is an expression that tells servers apart that may answer at one address.
const whichServer = "CONCAT(@@hostname, ':', @@port, ':', @@server_id)"

// text is a value that a server gave as text; "" if it is NULL.
func text(v driver.Value) string {
	switch v := v.(type) {
	case []byte:
		return string(v)
	case string:
		return v
	}
	return ""
}
