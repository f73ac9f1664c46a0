package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"replicator/internal/launch"
)

// process is a program with its own directory. It may be running or not.
type process struct {
	program launch.Program
	say     func(format string, args ...any)
	running *launch.Process
	logs    []string // the logs of earlier processes
}

func (p *process) start(ctx context.Context) (err error) {
	if p.running != nil {
		return nil
	}
	p.running, err = p.program.Start(context.WithoutCancel(ctx), "run", "-c", p.program.File())
	return err
}

// end ends the program with a signal, and saves its log.
func (p *process) end(how syscall.Signal) {
	if p.running == nil {
		return
	}
	if how == syscall.SIGTERM {
		_ = p.running.Signal(how)
		select {
		case <-p.running.Done():
		case <-time.After(40 * time.Second):
			p.say("the program does not end after SIGTERM")
		}
	}
	p.running.Kill()
	p.logs = append(p.logs, p.running.Log())
	p.running = nil
}

// command runs a command of the program, and returns its output and exit status.
func (p *process) command(ctx context.Context, args ...string) (out string, code int) {
	c, err := p.program.Start(ctx, append(args, "-c", p.program.File())...)
	if err != nil {
		return err.Error(), -1
	}
	code = c.Code() // waits until all output was read
	return c.Output() + c.Log(), code
}

// failing describes the views that the program reports as neither running nor run by another member of the group.
func (p *process) failing(ctx context.Context) []string {
	out, code := p.command(ctx, "status", "--json")
	if code != 0 {
		return []string{"status: " + out}
	}
	var all []string
	for line := range strings.Lines(out) {
		var s struct{ View, Source, State, Error string }
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			return []string{"status: " + err.Error()}
		}
		if !slices.Contains([]string{"running", "member"}, s.State) {
			all = append(all, fmt.Sprintf("view %s of %s is %s: %s", s.View, s.Source, s.State, s.Error))
		}
	}
	return all
}

func (p *process) logged() string {
	all := strings.Join(p.logs, "\n-- the next program --\n")
	if p.running != nil {
		all += "\n-- the last program --\n" + p.running.Log()
	}
	return all
}

func (p *process) stateDir() string { return filepath.Join(p.program.Dir, "state") }
