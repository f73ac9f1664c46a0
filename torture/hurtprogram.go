package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"replicator/internal/pause"
)

// programFaults disturb the program itself, or send it a command at a bad time.
func programFaults() map[string]fault {
	return map[string]fault{
		"kill": {about: "kill -9, and an immediate restart",
			begin: func(ctx context.Context, w *world, _ Fault) (heal, error) {
				w.end(syscall.SIGKILL)
				return healed(w.start(ctx))
			}},
		"down": {about: "kill -9, and a later restart",
			begin: func(_ context.Context, w *world, _ Fault) (heal, error) {
				w.end(syscall.SIGKILL)
				return w.start, nil
			}},
		"stop": {about: "SIGTERM, and an immediate restart",
			begin: func(ctx context.Context, w *world, _ Fault) (heal, error) {
				w.end(syscall.SIGTERM)
				return healed(w.start(ctx))
			}},
		"freeze": {about: "SIGSTOP for a while",
			begin: func(_ context.Context, w *world, _ Fault) (heal, error) {
				if w.running == nil {
					return nil, errSkipped
				}
				frozen := w.running
				return func(context.Context) error { return frozen.Signal(syscall.SIGCONT) }, frozen.Signal(syscall.SIGSTOP)
			}},
		"reload": {about: "SIGHUP after a view was removed from the configuration, and again after it was restored",
			begin: func(ctx context.Context, w *world, f Fault) (heal, error) {
				v := w.any(f)
				// The sink must keep at least one view. The view of the parents must stay, too: without it, the
				// children's rows become dead letters, and the run never retries these letters.
				if len(w.plan.views(v.Sink)) < 2 || v.Table == forest[1].Name {
					return nil, w.reload(ctx, "")
				}
				return func(ctx context.Context) error { return w.reload(ctx, "") }, w.reload(ctx, v.Name)
			}},
		"second": {about: "a second program with a separate state maintains the views", fits: withFile, begin: second},
		"late second": {about: "a second program is suspended in the middle of its work, and continues later",
			fits: withFile, begin: lateSecond},
		"reset": {about: "checkpoint reset",
			begin: func(ctx context.Context, w *world, _ Fault) (heal, error) {
				w.end(syscall.SIGTERM)
				if out, code := w.command(ctx, "checkpoint", "reset", "--yes"); code != 0 {
					w.say("checkpoint reset: %s", out)
				}
				return healed(w.start(ctx))
			}},
		"pause": {about: "a view is paused for a while",
			begin: func(ctx context.Context, w *world, f Fault) (heal, error) {
				w.command(ctx, "pause", w.any(f).Name)
				return func(ctx context.Context) error { w.command(ctx, "resume", w.any(f).Name); return nil }, nil
			}},
		"rebuild": {about: "a view is rebuilt",
			begin: func(ctx context.Context, w *world, f Fault) (heal, error) {
				return healed(w.beside(ctx, "rebuild", w.any(f).Name))
			}},
		"rebuild all": {about: "all views are rebuilt in place",
			begin: func(ctx context.Context, w *world, _ Fault) (heal, error) {
				args := []string{"rebuild", "--in-place"}
				for _, v := range w.plan.Views {
					args = append(args, v.Name)
				}
				return healed(w.beside(ctx, args...))
			}},
		"verify": {about: "all views are verified and repaired",
			begin: func(ctx context.Context, w *world, _ Fault) (heal, error) {
				return healed(w.beside(ctx, "verify", "--repair"))
			}},
	}
}

// beside starts a command while the program runs, and does not wait for it. If the program does not run, beside does
// nothing: the command would lock the state, so the program could not start until the command ends.
func (w *world) beside(ctx context.Context, args ...string) error {
	if w.running == nil {
		return nil
	}
	if err := w.awaitAnswer(ctx); err != nil { // another fault prevents the program's start
		w.say("%s: %v", args[0], err)
		return nil
	}
	p, err := w.program.Start(context.WithoutCancel(ctx), append(args, "-c", w.program.File())...)
	if err == nil {
		w.others = append(w.others, p)
	}
	return err
}

// awaitAnswer waits until the program answers HTTP requests, or returns the reason why it does not.
func (w *world) awaitAnswer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return w.running.Ready(ctx, w.at.listen)
}

// reload writes the configuration again and makes the program read it. The view named in the parameter `without` is
// left out; "" leaves none out. reload first waits up to 5 s until the program answers: SIGHUP would end a
// process that has just started and does not handle the signal yet.
func (w *world) reload(ctx context.Context, without string) error {
	if err := w.configure(without); err != nil || w.running == nil {
		return err
	}
	if err := w.awaitAnswer(ctx); err != nil {
		w.say("reload: %v", err) // another fault prevents the answer, but a program that is 5 s old handles SIGHUP
	}
	return w.running.Signal(syscall.SIGHUP)
}

// lateSecond suspends a second program, so that its pending writes arrive late.
func lateSecond(ctx context.Context, w *world, f Fault) (heal, error) {
	end, err := second(ctx, w, f)
	if err != nil {
		return nil, err
	}
	other := w.others[len(w.others)-1]
	if err := pause.For(ctx, 500*time.Millisecond); err != nil {
		return end, err
	}
	return func(ctx context.Context) error {
		if err := other.Signal(syscall.SIGCONT); err != nil {
			return err
		}
		if err := pause.For(ctx, 300*time.Millisecond); err != nil {
			return err
		}
		return end(ctx)
	}, other.Signal(syscall.SIGSTOP)
}

// second runs a second program that maintains the same views with its own state.
func second(ctx context.Context, w *world, f Fault) (heal, error) {
	other := w.program
	other.Dir = filepath.Join(w.program.Dir, fmt.Sprintf("second%d-%d", len(w.others), f.Arg))
	if err := os.Mkdir(other.Dir, 0o700); err != nil {
		return nil, err
	}
	at := w.at
	at.listen = ""
	if err := other.Configure(w.plan.toml(at, "")); err != nil {
		return nil, err
	}
	p, err := other.Start(context.WithoutCancel(ctx), "run", "-c", other.File())
	if err != nil {
		return nil, err
	}
	w.others = append(w.others, p)
	return func(context.Context) error { p.Kill(); return nil }, nil
}
