package servers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// redisArgs is the command line of a Redis with its defaults: no append-only file, and occasional snapshots. If a
// test's Redis must keep everything it acknowledged through a kill, the test adds "--appendonly", "yes".
func redisArgs(_ *installation, s *Server) []string {
	return []string{"--dir", filepath.Join(s.Dir, "data"), "--bind", "127.0.0.1", "--port", strconv.Itoa(s.Port)}
}

func redisURL(addr, db string) string { return "redis://" + addr + "/" + db }

// pingRedis checks the server's identity, so that another server on the port is not taken for this one. A server with a
// password (given in Args) answers NOAUTH, which must suffice.
func pingRedis(ctx context.Context, s *Server) error {
	conn, err := (&net.Dialer{Timeout: pingTimeout}).DialContext(ctx, "tcp4", s.Addr())
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(pingTimeout)); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, "INFO\r\n"); err != nil {
		return err
	}
	r := bufio.NewReader(conn)
	head, err := r.ReadString('\n')
	if err != nil {
		return err
	}
	head = strings.TrimSpace(head)
	if strings.HasPrefix(head, "-NOAUTH") {
		return nil
	}
	size, err := strconv.Atoi(strings.TrimPrefix(head, "$"))
	if err != nil || size < 0 || size > 1<<20 {
		return errors.New("it says " + head)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return err
	}
	info := "\n" + string(body)
	if want := fmt.Sprintf("\nprocess_id:%d\r", s.PID()); !strings.Contains(info, want) {
		return fmt.Errorf("another server answers on port %d", s.Port)
	}
	if !strings.Contains(info, "\nloading:0\r") {
		return errors.New("it is still reading its data")
	}
	return nil
}
