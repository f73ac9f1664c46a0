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

// takeBack is how long the program may take to resume views after another program that took them over has ended.
const takeBack = 130 * time.Second

// rivalFaults make a program with a replica as its source write the views. Its Orders have another epoch.
func rivalFaults() map[string]fault {
	return map[string]fault{
		onReplica: {about: "a second program with a state of its own follows a replica of the source for a while",
			fits: withFile, begin: followReplica},
		fromReplica: {about: "a paused view is to be repaired by a replica of the source", fits: withFile,
			begin: repairFromReplica},
	}
}

// followReplica lets a second program take the views over. Before the first program notices, each may overwrite a newer
// row of the other, so the reader stops checking. The first program resumes the views after a restart, or alone once
// the source has a change that the second program missed.
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
	if f.With { // with another fault, a program may not notice anything
		return end, pause.For(ctx, 2*time.Second)
	}
	return end, w.oneYields(ctx, listen)
}

// onReplica returns a second program that reads the replica.
func (w *world) onReplica(name string, f Fault) (p *process, listen string, err error) {
	at := w.at
	if at.listen, err = freeAddress(); err != nil {
		return nil, "", err
	}
	at.source = "root@tcp(" + w.replica.Addr() + ")/" + w.sinkName(0)
	p = &process{program: w.program, say: w.say}
	p.program.Dir = filepath.Join(w.program.Dir, fmt.Sprintf("%s%d-%d", name, len(w.others), f.Arg))
	if err := os.Mkdir(p.program.Dir, 0o700); err != nil {
		return nil, "", err
	}
	return p, at.listen, p.program.Configure(w.plan.toml(at, ""))
}

// oneYields waits until the programs keep different views up, and the second keeps at least one. It is an error if both
// keep a view up for longer than it takes to notice the other.
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
				w.reader.note(fmt.Sprintf("two programs, which read two servers, keep up view %s, and neither says so", view))
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
	w.say("%s: it keeps nothing up", onReplica)
	return nil
}

// runningAt returns the views that a program reports as running, each with its source; none if it does not answer.
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

// statesAt returns what a program reports about its views; nil if it does not answer.
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

// repairFromReplica asks for a repair of a view that lacks some changes. If the repair wrote them in an epoch that the
// view does not have, the view would ignore all later changes of the same cells.
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
