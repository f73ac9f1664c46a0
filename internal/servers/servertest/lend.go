package servertest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"replicator/internal/servers"
)

// lenderVariable is the environment variable with the path of a Lender's socket.
const lenderVariable = "REPLICATOR_TEST_LENDER"

// lendable are the kinds whose servers need many seconds of CPU to warm up. Their tests use only names of their own, so
// test binaries can share a server.
var lendable = []servers.Kind{servers.Elasticsearch, servers.Elasticsearch9, servers.OpenSearch, servers.Kafka}

// Lender shares one server of a kind among all test binaries of a run. It starts the server when a test first asks for
// it.
type Lender struct {
	dir      string
	listener net.Listener
	wg       sync.WaitGroup

	mu     sync.Mutex
	shares map[servers.Kind]*share
}

// loan is a Lender's answer.
type loan struct {
	Addr    string // the server's address, as Server.DSN("") returns it
	Version string
	Error   string
}

// NewLender returns a Lender that listens on its socket. The caller closes it.
func NewLender() (*Lender, error) {
	dir, err := os.MkdirTemp("", "servers-*") // short, because a socket's path is limited to 107 bytes
	if err != nil {
		return nil, fmt.Errorf("servertest: %w", err)
	}
	l := &Lender{dir: dir, shares: map[servers.Kind]*share{}}
	if l.listener, err = net.Listen("unix", l.socket()); err != nil {
		return nil, errors.Join(fmt.Errorf("servertest: %w", err), os.RemoveAll(dir))
	}
	l.wg.Go(l.accept)
	return l, nil
}

func (l *Lender) socket() string { return filepath.Join(l.dir, "lender") }

// Run runs a command whose tests borrow servers from the lender, until the command or ctx ends.
func (l *Lender) Run(ctx context.Context, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), lenderVariable+"="+l.socket())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	// If the program is make, it passes the interrupt on to its commands.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	return cmd.Run()
}

func (l *Lender) accept() {
	for {
		conn, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.wg.Go(func() {
			defer conn.Close()
			if kind, err := bufio.NewReader(conn).ReadString('\n'); err == nil {
				// An error means that the borrower is gone.
				_ = json.NewEncoder(conn).Encode(l.lend(servers.Kind(kind[:len(kind)-1])))
			}
		})
	}
}

func (l *Lender) lend(kind servers.Kind) loan {
	if !slices.Contains(lendable, kind) {
		return loan{Error: fmt.Sprintf("the lender does not lend %q", kind)}
	}
	l.mu.Lock()
	sh := l.shares[kind]
	if sh == nil {
		sh = &share{}
		l.shares[kind] = sh
	}
	l.mu.Unlock()
	sh.once.Do(func() { sh.server, sh.err = servers.Start(context.Background(), options(kind, nil)) })
	if sh.err != nil {
		return loan{Error: sh.err.Error()}
	}
	return loan{Addr: sh.server.DSN(""), Version: sh.server.Version}
}

// Close ends the servers.
func (l *Lender) Close() error {
	err := l.listener.Close()
	l.wg.Wait()
	for _, sh := range l.shares {
		if sh.server != nil {
			err = errors.Join(err, sh.server.Close())
		}
	}
	return errors.Join(err, os.RemoveAll(l.dir))
}

// borrow returns the address of a lender's server. It returns "" if there is no lender, or if the lender can't start
// such a server. The caller then starts a server in the test's own binary, or reports what is missing.
func borrow(t testing.TB, kind servers.Kind) string {
	t.Helper()
	socket := os.Getenv(lenderVariable)
	if socket == "" {
		return ""
	}
	kind = chosen(t, kind)
	skipUnselected(t, kind)
	got, err := askLender(socket, kind)
	if err != nil {
		fmt.Fprintf(os.Stderr, "servertest: can't borrow %s: %v\n", kind, err)
		return ""
	}
	used.note(t, string(kind)+" "+got.Version)
	return got.Addr
}

func askLender(socket string, kind servers.Kind) (got loan, err error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return got, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Hour)); err != nil { // the lender may have to fetch the server first
		return got, err
	}
	if _, err := io.WriteString(conn, string(kind)+"\n"); err != nil {
		return got, err
	}
	if err := json.NewDecoder(conn).Decode(&got); err != nil {
		return got, err
	}
	if got.Error != "" {
		return got, errors.New(got.Error)
	}
	return got, nil
}
