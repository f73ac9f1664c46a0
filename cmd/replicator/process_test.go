package main

import (
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"replicator/internal/child"
)

// process is a program that was started.
type process struct {
	lab      *lab
	args     []string
	cmd      *exec.Cmd
	out, log buffer
	done     <-chan struct{}
}

// start starts a command line, with the lab's environment and directory.
func (l *lab) start(args ...string) *process {
	l.t.Helper()
	program := l.program
	if program == "" {
		if program = built; args[0] == "run" {
			program = watched
		}
	}
	p := &process{lab: l, args: args, cmd: exec.Command(program, args...)}
	p.cmd.Dir = l.dir
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.log
	for name, value := range l.env {
		p.cmd.Env = append(p.cmd.Env, name+"="+value)
	}
	p.cmd.Env = append(p.cmd.Env, "PATH="+os.Getenv("PATH"), "HOME="+os.Getenv("HOME"), "GORACE=atexit_sleep_ms=0")
	tied, err := child.Start(p.cmd)
	if err != nil {
		l.t.Fatal(err)
	}
	p.done = tied.Done() // ProcessState tells how it ended
	l.t.Cleanup(func() {
		p.kill()
		if t := l.t; t.Failed() && len(args) > 0 && args[0] == "run" {
			t.Logf("log of %v:\n%s", args, p.log.String())
		}
	})
	return p
}

// running starts `run` and waits until it answers.
func (l *lab) running() *process {
	l.t.Helper()
	p := l.start("run", "-c", l.file())
	eventually(l.t, func() error {
		if p.ended() {
			l.t.Fatalf("the program ended:\n%s", p.log.String())
		}
		conn, err := net.DialTimeout("tcp", l.listen, time.Second)
		if err == nil {
			conn.Close()
		}
		return err
	})
	return p
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// wait waits for the end and returns the exit status; -1 for a signal.
func (p *process) wait() int {
	p.lab.t.Helper()
	select {
	case <-p.done:
	case <-time.After(3 * time.Minute):
		p.kill()
		p.lab.t.Fatalf("replicator %v does not end\n%s", p.args, p.log.String())
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) signal(s os.Signal) {
	p.lab.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.lab.t.Fatal(err)
	}
}

// stop asks the program to end, which it must do well.
func (p *process) stop() {
	p.lab.t.Helper()
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 0 {
		p.lab.t.Errorf("exit status %d after SIGTERM\n%s", code, p.log.String())
	}
}

// kill ends the program as a crash does. Then nothing it said may show a secret, and no race may have been seen.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
	for _, text := range []string{p.out.String(), p.log.String()} {
		if strings.Contains(text, password) {
			p.lab.t.Errorf("replicator %v shows the password:\n%s", p.args, text)
		}
	}
	if strings.Contains(p.log.String(), "DATA RACE") {
		p.lab.t.Errorf("replicator %v races:\n%s", p.args, p.log.String())
	}
}

// buffer is a bytes.Buffer that may be read while it is written to.
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
