package launch

import (
	"context"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// shell starts a script.
func shell(t *testing.T, script string) *Process {
	t.Helper()
	p, err := (Program{Path: "/bin/sh", Dir: t.TempDir()}).Start(t.Context(), "-c", script)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

func TestWhatAProcessSaysAndHowItEndsIsKnown(t *testing.T) {
	p := shell(t, "echo printed; echo logged >&2; exit 3")
	if code := p.Code(); code != 3 || p.Output() != "printed\n" || p.Log() != "logged\n" || !p.Ended() {
		t.Errorf("exit status %d, printed %q, logged %q", code, p.Output(), p.Log())
	}
	if err := p.Wait(); err == nil || !strings.Contains(err.Error(), "logged") {
		t.Errorf("a bad end: %v", err)
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("a signal that nobody gets: %v", err)
	}
	if _, err := (Program{Path: "/nonexistent/program"}).Start(t.Context()); err == nil {
		t.Error("a program that is not there was started")
	}
}

func TestAProcessIsStoppedOrKilled(t *testing.T) {
	stopped := shell(t, "trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done")
	for stopped.Output() == "" {
		time.Sleep(time.Millisecond)
	}
	if err := stopped.Stop(); err != nil {
		t.Error(err)
	}
	killed := shell(t, "trap '' TERM; while :; do sleep 0.01; done")
	if killed.Kill(); killed.Code() != -1 || killed.How() != "signal: killed" {
		t.Errorf("exit status %d, %s", killed.Code(), killed.How())
	}
	ctx, cancel := context.WithCancel(t.Context())
	left, err := (Program{Path: "/bin/sh", Dir: t.TempDir()}).Start(ctx, "-c", "exec sleep 60")
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if code := left.Code(); code != -1 {
		t.Errorf("once nobody wants it: exit status %d", code)
	}
}

func TestAProcessIsReadyWhenItAnswers(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := shell(t, "exec sleep 60").Ready(t.Context(), address); err != nil {
		t.Error(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if err := shell(t, "echo no such file >&2; exit 2").Ready(t.Context(), address); err == nil ||
		!strings.Contains(err.Error(), "no such file") {
		t.Errorf("one that ends: %v", err)
	}
}
