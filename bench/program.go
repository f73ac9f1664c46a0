package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"replicator/internal/launch"
)

// setup is what a run needs: a configuration, its own state, and empty tables in the sink.
type setup struct {
	dir      string
	database string // the sink's database
	tables   []table
}

// configuration is the program's configuration without source, sinks and views. The columns have the same roles as in
// the jogchat example.
const configuration = `[source]
%s
[checkpoint]
path = %q

[http]
listen = ""

[tables.cell]
key     = "row_key"
column  = "column_name"
version = "ref_key"
offset  = "added_at"
body    = "body"
codec   = "json"

`

func (l *lab) setUp(ctx context.Context, source, start string, tables []table) (*setup, error) {
	l.runs++
	s := &setup{
		dir:      filepath.Join(l.dir, fmt.Sprint(l.runs)),
		database: fmt.Sprintf("run%d", l.runs),
		tables:   tables,
	}
	text := tableSink(l.sink, s.database)
	var ddl []string
	for _, t := range tables {
		text += t.view("cell.users", "main")
		ddl = append(ddl, t.ddl())
	}
	if err := l.configure(s.dir, source, start, text); err != nil {
		return nil, err
	}
	return s, create(ctx, l.sinkDB, s.database, ddl...)
}

// configure makes the directory of a run that reads a source database, and writes its configuration.
func (l *lab) configure(dir, database, start, targets string) error {
	return configure(dir, fmt.Sprintf("dsn = %q\nstart = %q\n", l.source.DSN(database), start), targets)
}

// configure makes the directory of a run, and writes its configuration. targets has the configuration's sinks and
// views.
func configure(dir, source, targets string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return launch.Program{Dir: dir}.Configure(fmt.Sprintf(configuration, source, filepath.Join(dir, "state")), targets)
}

// check compares all tables of a run with the workload's first n rows, and drops the tables. It returns how many rows
// the tables had.
func (l *lab) check(ctx context.Context, s *setup, w *workload, n int) (rows int64, err error) {
	defer l.show.begin("checking every row")()
	for _, t := range s.tables {
		held, err := t.verify(ctx, l.sinkDB, s.database, w, n)
		if err != nil {
			return 0, fmt.Errorf("the result is wrong: %w", err)
		}
		rows += held
	}
	_, err = l.sinkDB.ExecContext(ctx, "DROP DATABASE "+s.database)
	return rows, err
}

// program is a running replicator, started as a child process, and its peak memory.
type program struct {
	*launch.Process
	peak int64 // peak memory in bytes; final when the program has ended
}

// caughtUp runs the program with the configuration in dir until it has caught up.
func (l *lab) caughtUp(ctx context.Context, dir, what string) (usage, error) {
	defer l.show.begin(what)()
	return l.measureProgram(ctx, dir, []string{"run", "--until-caught-up"}, func(p *program) error { return p.Wait() })
}

// measureProgram runs the program with the configuration in dir while f runs. f must return after the program has
// ended.
func (l *lab) measureProgram(ctx context.Context, dir string, args []string, f func(p *program) error) (usage, error) {
	before, err := l.read()
	if err != nil {
		return usage{}, err
	}
	at := launch.Program{Path: l.program, Dir: dir}
	started, err := at.Start(ctx, append(args, "-c", at.File())...)
	if err != nil {
		return usage{}, err
	}
	p := &program{Process: started}
	var watching sync.WaitGroup
	watching.Go(p.watch)
	err = f(p)
	if err != nil {
		p.Kill()
	}
	watching.Wait()
	if err != nil {
		return usage{}, err
	}
	after, err := l.read()
	return usage{
		wall:   after.at.Sub(before.at),
		client: p.CPU(),
		source: after.source - before.source,
		sink:   after.sink - before.sink,
		peak:   p.peak,
	}, err
}

// watch records the program's peak memory until the program has ended.
func (p *program) watch() {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		p.peak = max(p.peak, peakMemory(p.Pid()))
		select {
		case <-tick.C:
		case <-p.Done():
			return
		}
	}
}
