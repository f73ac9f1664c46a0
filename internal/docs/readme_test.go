package docs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"replicator/internal/lab"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// TestTheQuickStartRunsAsItStands runs the commands of the README's quick start unchanged, in a network of their own.
// There, 127.0.0.1:3306 and 127.0.0.1:6379 lead to the test's servers.
func TestTheQuickStartRunsAsItStands(t *testing.T) {
	if testing.Short() {
		t.Skip("starts servers")
	}
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := shellOf(t, section(t, string(text), "Quick start"))
	if len(blocks) != 3 {
		t.Fatalf("the quick start has %d blocks of commands", len(blocks))
	}
	dir := t.TempDir()
	mysql, redis := servertest.Own(t, servers.MySQL), servertest.Own(t, servers.Redis7)
	join(t, filepath.Join(dir, "3306"), mysql.Addr())
	join(t, filepath.Join(dir, "6379"), redis.Addr())
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(lab.Binary(t), filepath.Join(bin, "replicator")); err != nil {
		t.Fatal(err)
	}
	client(t, bin, mysql, "mysql", "--no-defaults --protocol=tcp -h 127.0.0.1")
	client(t, bin, redis, "redis-cli", "")
	began := time.Now()
	out := inOwnNetwork(t, dir, "export PATH="+bin+":$PATH\n"+strings.Join(blocks, "\n"))
	if took := time.Since(began); took > 2*time.Minute {
		t.Errorf("it took %s", took)
	}
	want := "customer\nada\nstatus\nnew\ntotal\n99.95\n1\npaid\n2\n"
	if got := withoutFindings(out); got != want {
		t.Errorf("got\n%s\nwant\n%s\nof\n%s", got, want, out)
	}
}

// withoutFindings removes the lines that check prints.
func withoutFindings(out string) string {
	var b strings.Builder
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "ok ") && !strings.HasPrefix(line, "warn ") && !strings.HasPrefix(line, "      ") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// client makes a command that runs a server's client, with args before the caller's arguments.
func client(t *testing.T, bin string, s *servers.Server, name, args string) {
	t.Helper()
	program, err := servers.Program(s.Kind, name)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("#!/bin/sh\nexec '%s' %s \"$@\"\n", program, args)
	if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// join makes a Unix socket that leads to an address. Processes in another network can open the socket, but can't reach
// the address.
func join(t *testing.T, socket, address string) {
	t.Helper()
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	forward(listener, "tcp", address)
	t.Cleanup(func() { listener.Close() })
}

// forward forwards a listener's connections to an address, until the listener is closed.
func forward(from net.Listener, network, address string) {
	go func() {
		for {
			in, err := from.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial(network, address)
			if err != nil {
				in.Close()
				continue
			}
			pass := func(to, from net.Conn) {
				_, _ = io.Copy(to, from) // it ends when either side does
				to.Close()
				from.Close()
			}
			go pass(in, out)
			go pass(out, in)
		}
	}()
}

// insideVariable names the directory that inside works in.
const insideVariable = "REPLICATOR_DOCS_INSIDE"

// inOwnNetwork runs a script in a directory and in a new network, where nothing else listens. A port of that network
// leads to the directory's socket that has the port's number as its name.
func inOwnNetwork(t *testing.T, dir, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	cmd := exec.CommandContext(ctx, self)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stderr = dir, append(os.Environ(),
		insideVariable+"="+dir), strings.NewReader(script), &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		Pdeathsig:   syscall.SIGKILL,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}}
	out, err := cmd.Output()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) {
		if os.Getenv("CI") != "" {
			t.Fatalf("this machine gives no network of one's own: %v", err)
		}
		t.Skipf("NOT TESTED: this machine gives no network of one's own: %v", err)
	}
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, said.String())
	}
	return string(out)
}

// inside is the process in the new network. It forwards its ports to the sockets, and runs the script.
func inside(dir string) int {
	err := loopback()
	for _, port := range []string{"3306", "6379"} {
		var listener net.Listener
		if err == nil {
			listener, err = net.Listen("tcp", "127.0.0.1:"+port)
		}
		if err == nil {
			forward(listener, "unix", filepath.Join(dir, port))
		}
	}
	if err == nil {
		cmd := exec.Command("bash", "-eu")
		cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, os.Stdin, os.Stdout, os.Stderr
		err = cmd.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// loopback brings up the loopback interface, which is down in a new network.
func loopback() error {
	s, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(s)
	request := struct {
		name  [16]byte
		flags uint16
		_     [22]byte
	}{flags: syscall.IFF_UP | syscall.IFF_RUNNING}
	copy(request.name[:], "lo")
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(s), syscall.SIOCSIFFLAGS,
		uintptr(unsafe.Pointer(&request))); errno != 0 {
		return fmt.Errorf("taking the loopback up: %w", errno)
	}
	return nil
}
