package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"replicator/internal/launch"
	"replicator/internal/servers"
)

// beside is the view that keeps running while the other view is rebuilt.
const beside table = "index_users_beside"

// swaps measures how long readers wait for committed changes while a rebuilt view is swapped in. One of two views in a
// database is rebuilt repeatedly. Each rebuild counts once, with the longest time from a commit until a reader sees the
// change.
func (l *lab) swaps(ctx context.Context) error {
	source := "swaps"
	if err := create(ctx, l.sourceDB, source, cellDDL); err != nil {
		return err
	}
	if err := create(ctx, l.sinkDB, source, usersEmail.ddl(), beside.ddl()); err != nil {
		return err
	}
	dir := filepath.Join(l.dir, source)
	targets := tableSink(l.sink, source) + usersEmail.view("cell.users", "main") + beside.view("cell.users", "main")
	if err := l.configure(dir, source, "snapshot", targets); err != nil {
		return err
	}
	if err := listening(dir); err != nil {
		return err
	}
	v := newLive(l.options, source)
	v.addReader("rebuilt", l.tableSight(source+"."+string(usersEmail), v, pollEvery))
	v.addReader("beside", l.tableSight(source+"."+string(beside), v, pollEvery))
	what := fmt.Sprintf("%d transactions a second into two index tables, one of which is rebuilt", l.rate)
	done := l.show.begin(what)
	var ends []time.Duration
	took, err := l.measureProgram(ctx, dir, []string{"run"}, func(p *program) (err error) {
		ends, err = l.rebuildWhile(ctx, v, dir, p)
		return errors.Join(err, p.Stop())
	})
	done()
	if err != nil {
		return err
	}
	for i, t := range []table{usersEmail, beside} {
		r := result{Stage: "swaps-" + v.sights[i].name, Cells: v.total(), Latency: v.longest(v.sights[i], ends),
			What: "the program: the longest commit to visible of each rebuild, " + what}
		if r.Checked, err = t.verify(ctx, l.sinkDB, source, v.cells, v.total()); err != nil {
			return fmt.Errorf("the result is wrong: %w", err)
		}
		l.add(r, took)
	}
	return nil
}

// listening changes the program's configuration in `dir` so that the program accepts commands over HTTP. The bench's
// other measurements send no commands.
func listening(dir string) error {
	file := launch.Program{Dir: dir}.File()
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	address, giveBack, err := servers.FreeAddress()
	if err != nil {
		return err
	}
	listen := fmt.Sprintf("listen = %q", address)
	err = os.WriteFile(file, bytes.Replace(text, []byte(`listen = ""`), []byte(listen), 1), 0o600)
	return errors.Join(err, giveBack())
}

// rebuildWhile runs the measurement v, and rebuilds the view again and again while v writes rows. It starts no rebuild
// in the last second of the writes. `ends` has the end of each rebuild, as time since the writer began.
func (l *lab) rebuildWhile(ctx context.Context, v *live, dir string, p *program) (ends []time.Duration, err error) {
	at := launch.Program{Path: l.program, Dir: dir}
	rebuilding, enough := context.WithCancel(ctx)
	defer enough()
	var wg sync.WaitGroup
	defer wg.Wait()
	failed := make(chan error, 1)
	v.ready = func(context.Context) error {
		wg.Go(func() {
			defer close(failed)
			for int(v.next.Load()) < v.total()-l.rate {
				rebuild, err := at.Start(rebuilding, "rebuild", string(usersEmail), "-c", at.File())
				if err == nil {
					err = rebuild.Wait()
				}
				if err != nil {
					failed <- fmt.Errorf("rebuilding: %w", err)
					return
				}
				ends = append(ends, v.now())
			}
		})
		return nil
	}
	if err := v.run(ctx, l.sourceDB, p); err != nil {
		enough()
		return nil, err
	}
	return ends, <-failed
}

// longest summarizes the longest waits in one sink. Each rebuild has one value: the longest wait of the rows that were
// committed since the previous rebuild ended.
func (v *live) longest(s *sight, ends []time.Duration) *latency {
	all := make([]float64, len(ends))
	for n := v.warm; n < v.total(); n++ {
		for i, end := range ends {
			if v.commits[n] <= end {
				all[i] = max(all[i], (s.seen[n]-v.commits[n]).Seconds()*1000)
				break
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	return &latency{Rate: float64(v.rate), quantiles: quantilesOf(all)}
}
