package main

import (
	"context"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"replicator/internal/launch"
)

// process is a started program.
type process struct {
	*launch.Process
	lab  *lab
	args []string
}

// launched returns the program with the lab's environment and directory. Only runs with MySQL use the race detector.
// With MariaDB only the reading of the binlog differs, and the tests of package canal cover that.
func (l *lab) launched(args ...string) launch.Program {
	p := launch.Program{Path: l.program, Dir: l.dir}
	if p.Path == "" {
		if p.Path = built; len(args) > 0 && args[0] == "run" && !slices.Contains(args, "--until-caught-up") &&
			!l.server.Kind.IsMariaDB() {
			p.Path = watched
		}
	}
	for name, value := range l.env {
		p.Env = append(p.Env, name+"="+value)
	}
	p.Env = append(p.Env, "PATH="+os.Getenv("PATH"), "HOME="+os.Getenv("HOME"), "GORACE=atexit_sleep_ms=0")
	return p
}

// start starts the program with the given arguments.
func (l *lab) start(args ...string) *process {
	l.t.Helper()
	started, err := l.launched(args...).Start(context.WithoutCancel(l.t.Context()), args...)
	if err != nil {
		l.t.Fatal(err)
	}
	p := &process{Process: started, lab: l, args: args}
	l.t.Cleanup(func() {
		p.kill()
		if t := l.t; t.Failed() && len(args) > 0 && args[0] == "run" {
			t.Logf("log of %v:\n%s", args, p.Log())
		}
	})
	return p
}

// running starts `replicator run` and waits until it is ready.
func (l *lab) running() *process {
	l.t.Helper()
	p := l.start("run", "-c", l.file())
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	if err := p.Ready(ctx, l.listen); err != nil {
		l.t.Fatal(err)
	}
	return p
}

// wait waits until the program has ended and returns its exit status, or -1 after a signal.
func (p *process) wait() int {
	p.lab.t.Helper()
	select {
	case <-p.Done():
	case <-time.After(patience):
		p.kill()
		p.lab.t.Fatalf("replicator %v does not end\n%s", p.args, p.Log())
	}
	return p.Code()
}

func (p *process) signal(s os.Signal) {
	p.lab.t.Helper()
	if err := p.Signal(s); err != nil {
		p.lab.t.Fatal(err)
	}
}

// stop sends SIGTERM. The program must then end with exit status 0.
func (p *process) stop() {
	p.lab.t.Helper()
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 0 {
		p.lab.t.Errorf("exit status %d after SIGTERM\n%s", code, p.Log())
	}
}

// kill ends the program as a crash does. It then checks that the program's output has neither the password nor data
// races.
func (p *process) kill() {
	p.Kill()
	for _, text := range []string{p.Output(), p.Log()} {
		if strings.Contains(text, password) {
			p.lab.t.Errorf("replicator %v shows the password:\n%s", p.args, text)
		}
	}
	if strings.Contains(p.Log(), "DATA RACE") {
		p.lab.t.Errorf("replicator %v races:\n%s", p.args, p.Log())
	}
}
