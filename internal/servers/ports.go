package servers

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Start picks ports from lowPort up to the kernel's first ephemeral port, excluding it, and never from 32768 on. The
// package comment explains why.
const (
	lowPort  = 20000
	highPort = 32768
)

// portLease reserves a port among servers of this package, in this process and in others.
type portLease struct {
	port int
	lock *os.File
}

// FreeAddress returns an address for a listener outside this package. This package's servers don't use its port until
// giveBack is called. A port that the kernel picks (127.0.0.1:0) is less safe: an outgoing connection may take it.
func FreeAddress() (address string, giveBack func() error, err error) {
	l, err := leasePort(0)
	if err != nil {
		return "", nil, err
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(l.port)), l.release, nil
}

// leasePort reserves the port, or a free port if port is 0.
func leasePort(port int) (*portLease, error) {
	if port != 0 {
		l, err := tryPort(port)
		if err == nil && l == nil {
			err = fmt.Errorf(
				"servers: port %d of 127.0.0.1 is taken. End its process, or choose another port (0 picks a free one)",
				port)
		}
		return l, err
	}
	low, high := portRange()
	for range 2000 {
		l, err := tryPort(low + rand.IntN(high-low))
		if l != nil || err != nil {
			return l, err
		}
	}
	return nil, fmt.Errorf("servers: found no free port of 127.0.0.1 from %d to %d", low, high-1)
}

func portRange() (low, high int) {
	low, high = lowPort, highPort
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return low, high // not Linux: other systems' ephemeral ports begin at 49152
	}
	if f := strings.Fields(string(text)); len(f) == 2 {
		if first, err := strconv.Atoi(f[0]); err == nil && first < high && first > 2048 {
			low, high = min(low, first-1024), first
		}
	}
	return low, high
}

// tryPort reserves the port. It returns nil and no error if another process has it.
func tryPort(port int) (*portLease, error) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("replicator-ports-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("servers: %w", err)
	}
	lock, err := tryLock(filepath.Join(dir, strconv.Itoa(port)))
	if lock == nil {
		return nil, err
	}
	if !portFree(port) {
		lock.Close()
		return nil, nil
	}
	return &portLease{port: port, lock: lock}, nil
}

// portFree reports whether a server could listen on the port now. It binds the port and does not dial it: a dial to a
// dead port may get that port as its own and connect to itself.
func portFree(port int) bool {
	l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// release releases the port. It leaves the lock file, because removing it could break the lock of another process.
func (l *portLease) release() error { return l.lock.Close() }
