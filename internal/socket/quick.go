//go:build linux && (amd64 || arm64) && !race

package socket

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"unsafe"
)

// conn is a connection that makes its system calls without telling the Go runtime, as the package comment explains.
type conn struct {
	net.Conn
	raw     syscall.RawConn
	in, out transfer
	peek    transfer // reads without removing the data, to check an idle connection
}

// Quick returns c with cheap reads and writes if c is a socket of package net. Otherwise it returns c unchanged.
func Quick(c net.Conn) net.Conn {
	s, ok := c.(syscall.Conn)
	if !ok {
		return c
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return c
	}
	q := &conn{Conn: c, raw: raw}
	q.in.init(syscall.SYS_RECVFROM, 0)
	q.peek.init(syscall.SYS_RECVFROM, syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	q.out.init(syscall.SYS_SENDTO, syscall.MSG_NOSIGNAL)
	return q
}

// SyscallConn implements syscall.Conn for pools. It fails if the other side closed the idle connection or sent
// unexpected data. The RawConn that it returns does no further checks.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	var one [1]byte
	n, errno, err := c.peek.do(c.raw.Read, one[:])
	switch {
	case err != nil:
		return nil, err
	case errno == syscall.EAGAIN:
		return looked{}, nil
	case errno != 0:
		return nil, os.NewSyscallError("recvfrom", errno)
	case n == 0:
		return nil, io.EOF
	}
	return nil, errUnexpected
}

// Read reads up to len(b) bytes, once the socket has data.
func (c *conn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, errno, err := c.in.do(c.raw.Read, b)
	switch {
	case err != nil:
		return 0, err
	case errno != 0:
		return 0, c.failed("read", errno)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// Write writes all of b. It waits while the socket's buffer is full.
func (c *conn) Write(b []byte) (int, error) {
	written := 0
	for written < len(b) {
		n, errno, err := c.out.do(c.raw.Write, b[written:])
		if err == nil && errno != 0 {
			err = c.failed("write", errno)
		}
		if err != nil {
			return written, err
		}
		written += n
	}
	return written, nil
}

func (c *conn) failed(op string, errno syscall.Errno) error {
	local := c.LocalAddr()
	return &net.OpError{Op: op, Net: local.Network(), Source: local, Addr: c.RemoteAddr(),
		Err: os.NewSyscallError(op, errno)}
}

// transfer is one direction of a connection. Its mutex admits one caller at a time. Its calls allocate no memory.
type transfer struct {
	call, flags uintptr
	try         func(fd uintptr) bool

	mu    sync.Mutex
	b     []byte
	n     int
	errno syscall.Errno
}

func (t *transfer) init(call uintptr, flags int) {
	t.call, t.flags, t.try = call, uintptr(flags), t.attempt
}

// do makes the system call with b, once the socket is ready. `whenReady` is a RawConn's method Read or Write, which
// waits until the socket is ready.
func (t *transfer) do(whenReady func(func(fd uintptr) bool) error, b []byte) (n int, errno syscall.Errno, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b, t.n, t.errno = b, 0, 0
	err = whenReady(t.try)
	t.b = nil
	return t.n, t.errno, err
}

// attempt makes the system call. It returns false if the caller must wait until the socket is ready.
func (t *transfer) attempt(fd uintptr) bool {
	for {
		n, _, errno := syscall.RawSyscall6(t.call, fd, uintptr(unsafe.Pointer(unsafe.SliceData(t.b))), uintptr(len(t.b)),
			t.flags, 0, 0)
		switch {
		case errno == syscall.EINTR:
			continue
		case errno == syscall.EAGAIN && t.flags&syscall.MSG_DONTWAIT == 0:
			return false
		}
		t.n, t.errno = int(n), errno
		return true
	}
}

var errUnexpected = errors.New("the other side sent unexpected data")

// looked stands for the socket of an idle connection that was already checked. Its methods do nothing, so a pool
// finds nothing wrong.
type looked struct{}

var _ syscall.RawConn = looked{}

func (looked) Control(func(uintptr)) error { return nil }

func (looked) Read(func(uintptr) bool) error { return nil }

func (looked) Write(func(uintptr) bool) error { return nil }
