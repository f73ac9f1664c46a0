package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"replicator/internal/launch"
	"replicator/internal/pause"
)

const (
	onReplica   = "second on a replica"
	fromReplica = "repair from a replica"
)

// takeBack is how long the program may take to resume its views after a second program had taken them over and ended.
const takeBack = 130 * time.Second

// rivalFaults let a second program write the views. That program reads a replica of the source, whose log positions
// can't be compared with those of the source.
func rivalFaults() map[string]fault {
	return map[string]fault{
		onReplica: {about: "a second program with its own state follows a replica of the source for a while",
			fits: withFile, begin: followReplica},
		fromReplica: {about: "a program that reads a replica is asked to repair a paused view", fits: withFile,
			begin: repairFromReplica},
	}
}

// followReplica lets a second program, which reads a replica, take the views over. Until the first program notices,
// each program may overwrite newer rows of the other. So the harness's reader stops checking. The first program resumes
// the views after a restart, or once the source has a change that the second program missed.
func followReplica(ctx context.Context, w *world, f Fault) (heal, error) {
	if !w.canFailOver(ctx) {
		return nil, errSkipped
	}
	if err := catchUp(ctx, w.replica, w.source); err != nil {
		return nil, err
	}
	second, listen, err := w.onReplica("rival", f)
	if err != nil {
		return nil, err
	}
	w.reader.forgive()
	if err := second.start(ctx); err != nil {
		return nil, err
	}
	w.others, w.overtaken = append(w.others, second.running), true
	end := func(ctx context.Context) error {
		second.end(syscall.SIGKILL)
		w.logs = append(w.logs, "-- on a replica --\n"+second.logged())
		if f.Arg%3 == 0 || w.running == nil {
			return nil
		}
		w.end(syscall.SIGKILL)
		return w.start(ctx)
	}
	if f.With { // while another fault lasts, the programs may not notice each other
		return end, pause.For(ctx, 2*time.Second)
	}
	return end, w.oneYields(ctx, listen)
}

// onReplica configures a second program that reads the replica. It returns the program and its HTTP address.
func (w *world) onReplica(name string, f Fault) (p *process, listen string, err error) {
	at := w.at
	if at.listen, err = freeAddress(); err != nil {
		return nil, "", err
	}
	at.source = "root@tcp(" + w.replica.Addr() + ")/" + w.databaseName(0)
	p = &process{program: w.program, say: w.say}
	p.program.Dir = filepath.Join(w.program.Dir, fmt.Sprintf("%s%d-%d", name, len(w.others), f.Arg))
	if err := os.Mkdir(p.program.Dir, 0o700); err != nil {
		return nil, "", err
	}
	return p, at.listen, p.program.Configure(w.plan.toml(at, ""))
}

// oneYields waits until the second program maintains at least one view and the programs have no running view in common.
// It records an error if a view is running in both for more than 20 seconds.
func (w *world) oneYields(ctx context.Context, second string) error {
	both := map[string]time.Time{}
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		theirs, ours := runningAt(ctx, second), runningAt(ctx, w.at.listen)
		for view := range both {
			if !ours[view] || !theirs[view] {
				delete(both, view)
			}
		}
		for view := range theirs {
			if !ours[view] {
				continue
			}
			if both[view].IsZero() {
				both[view] = time.Now()
			}
			if time.Since(both[view]) > 20*time.Second {
				w.reader.note(fmt.Sprintf("two programs that read two servers both run view %s, and neither reports it",
					view))
				return nil
			}
		}
		if len(theirs) > 0 && len(both) == 0 {
			return nil
		}
		if err := pause.For(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	w.say("%s: the programs have not divided the views within 30 seconds", onReplica)
	return nil
}

// runningAt returns the views that a program reports as running. Each key is a view's name and its source's name,
// separated by a space. If the program does not answer, runningAt returns no views.
func runningAt(ctx context.Context, listen string) map[string]bool {
	running := map[string]bool{}
	for _, s := range statesAt(ctx, listen) {
		if s.State == "running" {
			running[s.View+" "+s.Source] = true
		}
	}
	return running
}

// viewState is what a program reports about a view and a source.
type viewState struct{ View, Source, State string }

// statesAt returns the states of a program's views. It returns nil if the program does not answer.
func statesAt(ctx context.Context, listen string) []viewState {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	body, err := request(ctx, http.MethodGet, "http://"+listen+"/api/v1/status", "")
	var status struct{ Views []viewState }
	if err != nil || json.Unmarshal(body, &status) != nil {
		return nil
	}
	return status.Views
}

// repairFromReplica asks a program that reads a replica to repair a paused view that lacks some changes. The repair
// must not write the replica's log positions: the view would then ignore all later changes of the same rows.
func repairFromReplica(ctx context.Context, w *world, f Fault) (heal, error) {
	if !w.canFailOver(ctx) {
		return nil, errSkipped
	}
	v := w.any(f).Name
	w.command(ctx, "pause", v)
	resume := func(ctx context.Context) error { w.command(ctx, "resume", v); return nil }
	w.writeSome(ctx, f)
	if err := catchUp(ctx, w.replica, w.source); err != nil {
		return resume, err
	}
	p, _, err := w.onReplica("repair", f)
	if err != nil {
		return resume, err
	}
	asked, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	out, code := p.command(asked, "verify", "--repair", v)
	w.say("%s: exit status %d: %s", fromReplica, code, launch.LastLines(out, 2))
	return resume, nil
}
