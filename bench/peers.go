package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"replicator/internal/child"
	"replicator/internal/launch"
	"replicator/internal/servers"
)

type peersOptions struct {
	kind     servers.Kind
	runs     int
	cells    int
	transfer string   // the path of go-mysql-transfer
	only     []string // the names of the programs to run
	json     string
}

func parsePeers(args []string, out io.Writer) (o peersOptions, err error) {
	fs := flag.NewFlagSet("bench peers", flag.ContinueOnError)
	fs.SetOutput(out)
	kind := fs.String("server", string(servers.MariaDB1011), "the kind of source server")
	fs.IntVar(&o.runs, "runs", 3, "how many turns each program gets")
	fs.IntVar(&o.cells, "cells", 500_000, "how many cells w1 has; w2 has a fifth of that")
	fs.StringVar(&o.transfer, "go-mysql-transfer", "", "the built `program`; without it, go-mysql-transfer is left out")
	only := fs.String("only", "",
		"run only these `programs`, separated by commas: "+strings.Join(contenderNames(), ", "))
	fs.StringVar(&o.json, "json", "", "write every turn to this `file` too")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if o.kind, err = sourceKind(*kind); err != nil {
		return o, err
	}
	if fs.NArg() > 0 || o.runs < 1 || o.cells < 5 {
		return o, errors.New(
			"peers: -runs must be at least 1, -cells at least 5, and arguments besides flags are not allowed")
	}
	if *only != "" {
		o.only = strings.Split(*only, ",")
	}
	for _, name := range o.only {
		if !slices.Contains(contenderNames(), name) {
			return o, fmt.Errorf("-only: unknown program %q", name)
		}
	}
	if o.transfer != "" {
		o.transfer, err = filepath.Abs(o.transfer)
	}
	return o, err
}

type task struct {
	name  string
	cells int
	tx    int // rows in a transaction
}

// tasks returns two tasks. The first writes about five versions of each user, ten in a transaction. The second writes
// about one version of each user, each in its own transaction.
func (o peersOptions) tasks() []task {
	return []task{{name: "w1", cells: o.cells, tx: 10}, {name: "w2", cells: o.cells / 5, tx: 1}}
}

// turn is one run of one program.
type turn struct {
	Task      string  `json:"task"`
	Program   string  `json:"program"`
	Round     int     `json:"round"`
	Cells     int     `json:"cells"`
	Seconds   float64 `json:"seconds"`
	CPU       float64 `json:"cpu_us"`                // µs of CPU time a row, like the next three
	WarmCPU   float64 `json:"warm_cpu_us,omitempty"` // the program's CPU for the second half of the rows
	SinkCPU   float64 `json:"sink_cpu_us"`
	SourceCPU float64 `json:"source_cpu_us"`
	PeakBytes int64   `json:"peak_bytes"`
	Holds     string  `json:"holds,omitempty"` // a description of the sink's content
	Failed    string  `json:"failed,omitempty"`
	Load      string  `json:"load"` // the machine's load at the end
}

// peers runs replicator and other programs in turns, on the same server and the same rows. Each program reads from the
// binlog's first byte and writes to an empty Redis.
func peers(ctx context.Context, o peersOptions, compile compiler, out, progress io.Writer) (err error) {
	show := newScreen(progress)
	dir, program, remove, err := build(ctx, compile, show)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	r := campaign{Machine: thisMachine()}
	if err := r.runAll(ctx, o, dir, program, show); err != nil {
		return err
	}
	r.Machine.LoadAfter = load()
	r.print(out)
	if o.json != "" {
		return writeJSON(o.json, r)
	}
	return nil
}

func (r *campaign) runAll(ctx context.Context, o peersOptions, dir, program string, show *screen) error {
	for _, t := range o.tasks() {
		if err := r.run(ctx, o, t, dir, program, show); err != nil {
			return fmt.Errorf("peers: %s: %w", t.name, err)
		}
	}
	return nil
}

// run gives every program its turns at one task.
func (r *campaign) run(ctx context.Context, o peersOptions, t task, dir, program string, show *screen) (err error) {
	source, err := start(ctx, o.kind, show.say)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	l := &lab{options: options{cells: t.cells, tx: t.tx}, source: source, program: program, show: show,
		dir:      filepath.Join(dir, t.name),
		workload: &workload{entities: max(o.cells/5, 1), body: 250, begin: time.Now().UnixNano()}}
	if l.sourceDB, err = open(source); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.sourceDB.Close()) }()
	if err := os.Mkdir(l.dir, 0o755); err != nil {
		return err
	}
	if err := errors.Join(addPeer(ctx, l.sourceDB), l.prepare(ctx)); err != nil {
		return err
	}
	r.Version, r.Kind = source.Version, string(source.Kind)
	all := contenders(o)
	for round := range o.runs {
		for i := range all {
			c := all[(i+round)%len(all)] // each round begins with another program
			got, err := l.turn(ctx, c, t, round+1)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			r.Turns = append(r.Turns, got)
			show.say(got.String())
		}
	}
	return nil
}

// addPeer creates the user for the other programs, because go-mysql-transfer requires a password.
func addPeer(ctx context.Context, db *sql.DB) error {
	return connected(ctx, db, func(conn *sql.Conn) error {
		for _, q := range []string{"SET sql_log_bin = 0", "CREATE USER peer@'127.0.0.1' IDENTIFIED BY 'peer'",
			"GRANT ALL ON *.* TO peer@'127.0.0.1'", "SET sql_log_bin = 1"} {
			if _, err := conn.ExecContext(ctx, q); err != nil {
				return fmt.Errorf("%s: %w", q, err)
			}
		}
		return nil
	})
}

// turn makes one program do the task once. If replicator fails, turn returns an error. If another program fails, turn
// records the failure in got.Failed.
func (l *lab) turn(ctx context.Context, c contender, t task, round int) (got turn, err error) {
	at := *l
	at.dir = filepath.Join(l.dir, fmt.Sprintf("%s-%d", c.name, round))
	x := &contest{lab: &at}
	at.sink, err = start(ctx, servers.Redis7, func(string) {})
	if err != nil {
		return got, err
	}
	defer func() { err = errors.Join(err, at.sink.Close()) }()
	address, err := goredis.ParseURL(at.sink.DSN("0"))
	if err != nil {
		return got, err
	}
	x.rdb = goredis.NewClient(address)
	defer func() { err = errors.Join(err, x.rdb.Close()) }()
	got = turn{Task: t.name, Program: c.name, Round: round, Cells: t.cells}
	err = x.measure(ctx, c, &got)
	if err == nil {
		got.Holds, err = c.check(ctx, x)
	}
	got.Load = load()
	if err != nil && ctx.Err() == nil && !c.ours {
		got.Failed, err = err.Error(), nil
	}
	return got, err
}

// contest is one program's turn. The lab's dir is the program's directory, and the lab's sink is the Redis that the
// program writes to.
type contest struct {
	*lab
	rdb *goredis.Client
}

// stuck is how long a program may write nothing before it counts as stuck. A JVM on a busy machine starts slowly.
const stuck = 2 * time.Minute

// measure runs the program until the sink has every row, or until the process exits if the contender has no `count`.
func (x *contest) measure(ctx context.Context, c contender, got *turn) error {
	cmd, err := c.command(ctx, x)
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(x.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	before, err := x.read()
	if err != nil {
		return err
	}
	p, err := child.Start(cmd)
	if err != nil {
		return err
	}
	took, warm, err := x.follow(ctx, c, cmd, p)
	_ = cmd.Process.Kill() // an error means that the program has already ended
	<-p.Done()
	if err != nil {
		text, _ := os.ReadFile(log.Name()) // if the log can't be read, the error has fewer details
		return fmt.Errorf("%w\n%s", err, launch.LastLines(string(text), 10))
	}
	after, err := x.read()
	if err != nil {
		return err
	}
	micros := func(d time.Duration, cells int) float64 { return d.Seconds() * 1e6 / float64(max(cells, 1)) }
	got.Seconds = took.wall.Seconds()
	got.CPU, got.PeakBytes = micros(took.client, x.cells), took.peak
	got.SinkCPU = micros(after.sink-before.sink, x.cells)
	got.SourceCPU = micros(after.source-before.source, x.cells)
	if warm.cells > 0 {
		got.WarmCPU = micros(took.client-warm.client, x.cells-warm.cells)
	}
	return nil
}

// halfway is what a program had used when half of the rows were in the sink.
type halfway struct {
	cells  int
	client time.Duration
}

func (x *contest) follow(ctx context.Context, c contender, cmd *exec.Cmd, p *child.Child) (u usage, h halfway,
	err error) {
	begin, moved, last := time.Now(), time.Now(), -1
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		u.peak = max(u.peak, peakMemory(cmd.Process.Pid))
		select {
		case <-ctx.Done():
			return u, h, context.Cause(ctx)
		case <-p.Done():
			u.wall = time.Since(begin)
			u.client = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
			if err = p.Wait(); err == nil && c.count != nil {
				err = errors.New("the program ended before every cell had arrived")
			}
			return u, h, err
		case <-tick.C:
		}
		if c.count == nil {
			continue
		}
		n, err := c.count(ctx, x)
		if err != nil {
			return u, h, err
		}
		if u.client, err = processCPU(cmd.Process.Pid); err != nil {
			return u, h, err
		}
		if u.wall = time.Since(begin); n >= x.cells {
			return u, h, nil
		}
		if n != last {
			moved, last = time.Now(), n
		}
		if time.Since(moved) > stuck {
			return u, h, fmt.Errorf("%d of %d cells arrived, then none for %v", n, x.cells, stuck)
		}
		if h.cells == 0 && n >= x.cells/2 {
			h = halfway{n, u.client}
		}
	}
}
