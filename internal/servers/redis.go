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

// redisArgs returns the options for a Redis with its defaults: no append-only file, and occasional snapshots. A test
// whose Redis must keep all acknowledged writes after a kill adds "--appendonly", "yes".
func redisArgs(_ *installation, s *Server) []string {
	return []string{"--dir", filepath.Join(s.Dir, "data"), "--bind", "127.0.0.1", "--port", strconv.Itoa(s.Port)}
}

func redisURL(addr, db string) string { return "redis://" + addr + "/" + db }

// pingRedis checks the id of the process that answers, so that it does not accept a different server on the same port.
// If the caller's options set a password, the answer NOAUTH is enough.
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
		return errors.New("the server answers " + head)
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
		return errors.New("the server is still reading its data")
	}
	return nil
}
