package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"replicator/internal/child"
)

// setup is what one run of the program needs: a configuration, a state of its own, empty tables in the sink.
type setup struct {
	dir      string
	database string // in the sink
	tables   []table
}

// configuration is the program's, but for sinks and views. The columns have the roles that the jogchat example gives
// them.
const configuration = `[source]
dsn = %q
start = %q

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

// setUp makes a run that keeps the tables from the cells of a source database.
func (l *lab) setUp(ctx context.Context, source, start string, tables []table) (*setup, error) {
	l.runs++
	s := &setup{
		dir:      filepath.Join(l.dir, fmt.Sprint(l.runs)),
		database: fmt.Sprintf("run%d", l.runs),
		tables:   tables,
	}
	text := fmt.Sprintf("[sinks.main]\ntype = \"mysql\"\ndsn = %q\n", l.sink.DSN(s.database))
	var ddl []string
	for _, t := range tables {
		text += fmt.Sprintf("\n[views.%s]\nfrom = \"cell.users\"\nsink = \"main\"\n%s\n", t.name, t.view)
		ddl = append(ddl, t.ddl)
	}
	if err := l.configure(s.dir, source, start, text); err != nil {
		return nil, err
	}
	return s, create(ctx, l.sinkDB, s.database, ddl...)
}

// configure makes the directory of a run, with a configuration: targets are its sinks and views.
func (l *lab) configure(dir, source, start, targets string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	text := fmt.Sprintf(configuration, l.source.DSN(source), start, filepath.Join(dir, "state")) + targets
	return os.WriteFile(filepath.Join(dir, "replicator.toml"), []byte(text), 0o644)
}

// check compares all tables of a run with the first n cells of the workload, and drops them. It returns how many rows
// they had.
func (l *lab) check(ctx context.Context, s *setup, w *workload, n int) (rows int64, err error) {
	bar := l.show.bar("checking every row", 0)
	defer bar.done()
	for i := range s.tables {
		held, err := s.tables[i].verify(ctx, l.sinkDB, s.database, w, n)
		if err != nil {
			return 0, fmt.Errorf("the result is wrong: %w", err)
		}
		rows += held
	}
	_, err = l.sinkDB.ExecContext(ctx, "DROP DATABASE "+s.database)
	return rows, err
}

// program is the program as a child of this process.
type program struct {
	cmd  *exec.Cmd
	log  string
	peak int64         // bytes
	done chan struct{} // closed when it has ended
	err  error         // how it ended; to be read after done
}

// measureProgram runs the program on the configuration in dir while f does; f returns when it has ended.
func (l *lab) measureProgram(ctx context.Context, dir string, args []string, f func(p *program) error) (usage, error) {
	before, err := l.read()
	if err != nil {
		return usage{}, err
	}
	p, err := startProgram(ctx, l.program, dir, args)
	if err != nil {
		return usage{}, err
	}
	if err := f(p); err != nil {
		_ = p.cmd.Process.Kill() // it may have ended by itself
		<-p.done
		return usage{}, err
	}
	after, err := l.read()
	return usage{
		wall:   after.at.Sub(before.at),
		client: p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime(),
		source: after.source - before.source,
		sink:   after.sink - before.sink,
		peak:   p.peak,
	}, err
}

// startProgram starts the program with the configuration in dir. When ctx ends, so does it.
func startProgram(ctx context.Context, path, dir string, args []string) (*program, error) {
	p := &program{log: filepath.Join(dir, "log"), done: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own
	p.cmd = exec.CommandContext(ctx, path, append(args, "-c", filepath.Join(dir, "replicator.toml"))...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = 10 * time.Second
	c, err := child.Start(p.cmd)
	if err != nil {
		return nil, err
	}
	go p.attend(c)
	return p, nil
}

// attend watches the program until it has ended.
func (p *program) attend(c *child.Child) {
	p.watch(c.Done())
	if err := c.Wait(); err != nil {
		text, _ := os.ReadFile(p.log) // what matters is how it ended
		p.err = fmt.Errorf("%s: %w\n%s", strings.Join(p.cmd.Args[1:], " "), err, lastLines(string(text), 20))
	}
	close(p.done)
}

// watch looks at the program's memory until it has ended.
func (p *program) watch(ended <-chan struct{}) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		p.peak = max(p.peak, peakMemory(p.cmd.Process.Pid))
		select {
		case <-tick.C:
		case <-ended:
			return
		}
	}
}

// wait returns when the program has ended.
func (p *program) wait() error {
	<-p.done
	return p.err
}

// stop asks the program to end and waits until it has.
func (p *program) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return p.wait()
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
