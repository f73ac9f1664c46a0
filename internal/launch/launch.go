// Package launch builds the program and runs it as a child of this process, for tests, examples and measurements.
//
// A child does not outlive this process. Its standard output and its log are kept separately.
package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"replicator/internal/child"
	"replicator/internal/guide"
	"replicator/internal/pause"
)

// Build builds the program for tests and writes it to path. It uses no profile of the program's CPU use (-pgo), so it
// can reuse packages that were compiled for tests. With the flag "-race" it builds as `go test -race` does.
func Build(ctx context.Context, path string, flags ...string) error {
	switch {
	case len(flags) == 0:
		return build(ctx, path, withoutC(), []string{"-trimpath"})
	case slices.Contains(flags, "-race"): // the race detector needs cgo
		return build(ctx, path, append(os.Environ(), "CGO_ENABLED=1"), flags)
	}
	return build(ctx, path, os.Environ(), flags)
}

// BuildGuided builds the program as `make build` does: the compiler is guided by a profile of the program's CPU use
// (-pgo). Measurements use this build.
func BuildGuided(ctx context.Context, path string) error {
	root, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Root}}", module()).Output()
	if err != nil {
		return fmt.Errorf("building the program: finding its module: %w", err)
	}
	profile := filepath.Join(strings.TrimSpace(string(root)), filepath.FromSlash(guide.Path))
	return build(ctx, path, withoutC(), []string{"-trimpath", "-pgo=" + profile})
}

// BuildProfiled builds a program that writes a CPU profile of itself. The environment variable REPLICATOR_PROFILE names
// the profile's directory.
func BuildProfiled(ctx context.Context, path string) error {
	return build(ctx, path, withoutC(), []string{"-trimpath", "-tags=" + guide.Tag})
}

func withoutC() []string { return append(os.Environ(), "CGO_ENABLED=0") }

func build(ctx context.Context, path string, env, flags []string) error {
	cmd := exec.CommandContext(ctx, "go", slices.Concat([]string{"build", "-o", path}, flags,
		[]string{module() + "/cmd/replicator"})...)
	cmd.Env = env
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the program: %w\n%s", err, out)
	}
	return nil
}

func module() string {
	return strings.TrimSuffix(reflect.TypeFor[Program]().PkgPath(), "/internal/launch")
}

// Program is the built program, and the directory in which it runs. The directory also holds its configuration.
type Program struct {
	Path string
	Dir  string
	Env  []string // nil: this process's environment
}

// File returns the configuration's path.
func (p Program) File() string { return filepath.Join(p.Dir, "replicator.toml") }

// Configure writes the configuration, which consists of the parts in order.
func (p Program) Configure(parts ...string) error {
	return os.WriteFile(p.File(), []byte(strings.Join(parts, "\n")), 0o600)
}

// Start starts the program with arguments. When ctx ends, the program is asked to end.
func (p Program) Start(ctx context.Context, args ...string) (*Process, error) {
	r := &Process{cmd: exec.CommandContext(ctx, p.Path, args...)}
	r.cmd.Dir, r.cmd.Env = p.Dir, p.Env
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.log
	r.cmd.Cancel = func() error { return r.cmd.Process.Signal(syscall.SIGTERM) }
	r.cmd.WaitDelay = 30 * time.Second // longer than the program takes to stop
	var err error
	r.child, err = child.Start(r.cmd)
	return r, err
}

// Process is a program that was started.
type Process struct {
	cmd      *exec.Cmd
	child    *child.Child
	out, log buffer
}

func (r *Process) Pid() int { return r.cmd.Process.Pid }

// Output returns the standard output so far.
func (r *Process) Output() string { return r.out.String() }

// Log returns the standard error so far, to which the program logs.
func (r *Process) Log() string { return r.log.String() }

// Done is closed when the process has ended and all its output was read.
func (r *Process) Done() <-chan struct{} { return r.child.Done() }

func (r *Process) Ended() bool {
	select {
	case <-r.Done():
		return true
	default:
		return false
	}
}

// Code waits until the process has ended, and returns its exit status; -1 if a signal ended it.
func (r *Process) Code() int {
	<-r.Done()
	return r.cmd.ProcessState.ExitCode()
}

// How waits until the process has ended, and returns the exit status or the signal that ended it, as text.
func (r *Process) How() string {
	<-r.Done()
	return r.cmd.ProcessState.String()
}

// CPU returns the CPU time that the process used. The process must have ended.
func (r *Process) CPU() time.Duration {
	return r.cmd.ProcessState.UserTime() + r.cmd.ProcessState.SystemTime()
}

// Wait waits until the process has ended. If it failed, the error has the last lines of its log.
func (r *Process) Wait() error {
	if err := r.child.Wait(); err != nil {
		return fmt.Errorf("replicator %s: %w\n%s", strings.Join(r.cmd.Args[1:], " "), err, LastLines(r.Log(), 20))
	}
	return nil
}

// Signal sends a signal. It is not an error if the process has ended.
func (r *Process) Signal(s os.Signal) error {
	err := r.cmd.Process.Signal(s)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// Stop asks the process to end, and waits until it has ended.
func (r *Process) Stop() error {
	if err := r.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return r.Wait()
}

// Kill kills the process, and waits until it has ended.
func (r *Process) Kill() {
	_ = r.cmd.Process.Kill() // fails if the process has ended already
	<-r.Done()
}

// Ready waits until the process accepts connections at an address.
func (r *Process) Ready(ctx context.Context, address string) error {
	for {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			return conn.Close()
		}
		if r.Ended() {
			return fmt.Errorf("the program ended:\n%s", LastLines(r.Log(), 20))
		}
		if pause.For(ctx, 20*time.Millisecond) != nil {
			return err
		}
	}
}

// LastLines returns the last n lines of a text.
func LastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// buffer is a bytes.Buffer that may be read and written concurrently.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
