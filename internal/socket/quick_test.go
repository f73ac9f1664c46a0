//go:build linux && (amd64 || arm64) && !race

package socket

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
)

// pair returns a quick connection and its other side.
func pair(t *testing.T, network, address string) (quick, other net.Conn) {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var wg sync.WaitGroup
	wg.Go(func() { other, _ = l.Accept() })
	dialed, err := net.Dial(network, l.Addr().String())
	wg.Wait()
	if err != nil || other == nil {
		t.Fatal("no connection:", err)
	}
	quick = Quick(dialed)
	if _, is := quick.(*conn); !is {
		t.Fatalf("it is a %T", quick)
	}
	t.Cleanup(func() { quick.Close(); other.Close() })
	return quick, other
}

func TestWhatIsWrittenArrives(t *testing.T) {
	for _, on := range [][2]string{{"tcp", "127.0.0.1:0"}, {"unix", t.TempDir() + "/socket"}} {
		t.Run(on[0], func(t *testing.T) {
			quick, other := pair(t, on[0], on[1])
			sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<18) // more than the socket's buffers hold
			var wg sync.WaitGroup
			wg.Go(func() {
				if n, err := quick.Write(sent); n != len(sent) || err != nil {
					t.Errorf("%d bytes written, %v", n, err)
				}
			})
			wg.Go(func() { _, _ = io.Copy(other, io.LimitReader(other, int64(len(sent)))) }) // sends it back
			got := make([]byte, len(sent))
			if _, err := io.ReadFull(quick, got); err != nil || !bytes.Equal(got, sent) {
				t.Errorf("something else came back (%v)", err)
			}
			wg.Wait()
			other.Close()
			if n, err := quick.Read(got); n != 0 || err != io.EOF {
				t.Errorf("the end: %d bytes, %v", n, err)
			}
		})
	}
}

func TestAReadEndsAtItsDeadline(t *testing.T) {
	quick, _ := pair(t, "tcp", "127.0.0.1:0")
	if err := quick.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	_, err := quick.Read(make([]byte, 1))
	var network net.Error
	if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &network) || !network.Timeout() {
		t.Errorf("it ended with %v", err)
	}
}

func TestAReadEndsWhenItsConnectionIsClosed(t *testing.T) {
	quick, _ := pair(t, "tcp", "127.0.0.1:0")
	ended := make(chan error)
	go func() {
		_, err := quick.Read(make([]byte, 1))
		ended <- err
	}()
	quick.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("it ended with %v", err)
	}
}

func TestAWriteToWhoIsGoneFails(t *testing.T) {
	quick, other := pair(t, "tcp", "127.0.0.1:0")
	other.(*net.TCPConn).SetLinger(0) // so that the connection is reset at once
	other.Close()
	var err error
	for err == nil {
		_, err = quick.Write([]byte("x"))
	}
	var network net.Error
	if !errors.As(err, &network) || network.Timeout() {
		t.Errorf("it failed with %v", err)
	}
}

func TestAPoolSeesWhetherAnIdleConnectionCanBeUsed(t *testing.T) {
	look := func(c net.Conn) error {
		raw, err := c.(syscall.Conn).SyscallConn()
		if err == nil {
			err = raw.Read(func(uintptr) bool { t.Error("it is looked into twice"); return true })
		}
		return err
	}
	quick, other := pair(t, "tcp", "127.0.0.1:0")
	if err := look(quick); err != nil {
		t.Error("idle:", err)
	}
	if _, err := other.Write([]byte("?")); err != nil {
		t.Fatal(err)
	}
	for look(quick) == nil { // until it has arrived
	}
	if err := look(quick); !errors.Is(err, errUnexpected) {
		t.Error("something arrived:", err)
	}
	if _, err := quick.Read(make([]byte, 1)); err != nil {
		t.Error("it was taken by a look:", err)
	}
	other.Close()
	for look(quick) == nil {
	}
	if err := look(quick); err != io.EOF {
		t.Error("closed:", err)
	}
}

func TestReadsAndWritesMakeNoGarbage(t *testing.T) {
	quick, other := pair(t, "tcp", "127.0.0.1:0")
	echo := make([]byte, 1)
	b := make([]byte, 1)
	n := testing.AllocsPerRun(100, func() {
		if _, err := quick.Write(b); err != nil {
			t.Fatal(err)
		}
		if _, err := other.Read(echo); err != nil {
			t.Fatal(err)
		}
		if _, err := other.Write(echo); err != nil {
			t.Fatal(err)
		}
		if _, err := quick.Read(b); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
