package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"syscall"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"replicator/internal/launch"
	"replicator/internal/pause"
	"replicator/internal/servers"
)

// isolationOptions are the flags of "isolation".
type isolationOptions struct {
	kind    servers.Kind
	rate    int
	seconds int
	cells   int
	json    string
}

func parseIsolation(args []string, out io.Writer) (o isolationOptions, err error) {
	fs := flag.NewFlagSet("bench isolation", flag.ContinueOnError)
	fs.SetOutput(out)
	kind := fs.String("server", string(servers.MySQL), "the kind of source and sink")
	fs.IntVar(&o.rate, "rate", 500, "transactions a second")
	fs.IntVar(&o.seconds, "seconds", 10, "how long the lag is measured")
	fs.IntVar(&o.cells, "cells", 50_000, "of the backlog")
	fs.StringVar(&o.json, "json", "", "write every figure to this `file` too")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if o.kind, err = sourceKind(*kind); err != nil {
		return o, err
	}
	if fs.NArg() > 0 || o.rate < 1 || o.seconds < 1 || o.cells < 1 {
		return o, errors.New("isolation: every flag is at least 1, and nothing else stands beside the flags")
	}
	return o, nil
}

// trouble is what is wrong with one sink while the other is measured.
type trouble struct {
	name  string
	alone bool // there is no other sink
	begin func(ctx context.Context, x *isolation) error
	end   func(ctx context.Context, x *isolation) error
}

func nothing(context.Context, *isolation) error { return nil }

// troubles are those of Redis while the index table is measured, and the other way round.
func troubles(measured string) []trouble {
	other := func(x *isolation) *servers.Server { return x.cache }
	spoil := func(ctx context.Context, x *isolation) error { return x.rdb.FlushAll(ctx).Err() }
	if measured == "redis" {
		other = func(x *isolation) *servers.Server { return x.sink }
		spoil = func(ctx context.Context, x *isolation) error {
			_, err := x.sinkDB.ExecContext(ctx, "DROP TABLE "+x.setup.database+".index_users_email")
			return err
		}
	}
	all := []trouble{
		{name: "there is no other", alone: true, begin: nothing, end: nothing},
		{name: "the other is well", begin: nothing, end: nothing},
		{name: "the other is down",
			begin: func(_ context.Context, x *isolation) error { return other(x).Kill() },
			end:   func(ctx context.Context, x *isolation) error { return other(x).Restart(ctx) }},
		{name: "the other hangs",
			begin: func(_ context.Context, x *isolation) error { return other(x).Suspend() },
			end:   func(_ context.Context, x *isolation) error { return other(x).Resume() }},
		{name: "the other fails for good", begin: spoil, end: nothing},
	}
	if measured == "mysql" {
		all = append(all, trouble{name: "the other is slow: 20 ms a command", begin: slowDown, end: speedUp})
	}
	return all
}

// isolated is what became of the sink that was well.
type isolated struct {
	Measured string    `json:"measured"`
	Trouble  string    `json:"trouble"`
	Lag      quantiles `json:"lag"`
	Backlog  float64   `json:"backlog_cells_per_second"`
	Peak     int64     `json:"peak_bytes"`
	Load     string    `json:"load"`
}

func (r isolated) line() string {
	return fmt.Sprintf(
		"| %s | %s | %.1f | %.1f | %.1f | %s | %.0f |",
		r.Measured,
		r.Trouble,
		r.Lag.P50,
		r.Lag.P99,
		r.Lag.Max,
		thousands(int64(r.Backlog)),
		float64(r.Peak)/(1<<20),
	)
}

// isolation is one run of the program with two sinks, or with one.
type isolation struct {
	*lab
	cache *servers.Server
	rdb   *goredis.Client
	setup *liveSetup
	slow  context.CancelFunc
	slept chan struct{} // closed when nothing slows Redis down any more
}

// measureIsolation measures one sink while the other is in trouble.
func measureIsolation(ctx context.Context, o isolationOptions, out, progress io.Writer) (err error) {
	show := newScreen(progress)
	_, program, remove, err := build(ctx, show)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	machine, all := thisMachine(), []isolated{}
	for _, measured := range []string{"mysql", "redis"} {
		for _, t := range troubles(measured) {
			got, err := o.run(ctx, measured, t, program, show)
			if err != nil {
				return fmt.Errorf("isolation: %s, %s: %w", measured, t.name, err)
			}
			all = append(all, got)
			show.say(got.line())
		}
	}
	machine.LoadAfter = load()
	fmt.Fprintf(out, "\n%s\n%d transactions a second for %d s, then a backlog of %s cells\n\n"+
		"| measured | | lag p50, ms | p99 | max | backlog, cells a second | peak MiB |\n|---|---|---|---|---|---|---|\n",
		&machine, o.rate, o.seconds, thousands(int64(o.cells)))
	for _, got := range all {
		fmt.Fprintln(out, got.line())
	}
	if o.json != "" {
		return writeJSON(o.json, all)
	}
	return nil
}

// run makes one run, on servers of its own: what was hurt is never met again.
func (o isolationOptions) run(ctx context.Context, measured string, t trouble, program string,
	show *screen) (got isolated, err error) {
	closing := func(s *servers.Server) { err = errors.Join(err, s.Close()) }
	source, err := start(ctx, o.kind, func(string) {})
	if err != nil {
		return got, err
	}
	defer closing(source)
	sink, err := start(ctx, o.kind, func(string) {})
	if err != nil {
		return got, err
	}
	defer closing(sink)
	cache, err := servers.Start(ctx, servers.Options{Kind: servers.Redis7, Small: true,
		Args: append(serverArgs(servers.Redis7), "--enable-debug-command", "local")})
	if err != nil {
		return got, err
	}
	defer closing(cache)
	l, err := newLab(
		options{body: 250, tx: 10, rate: o.rate, seconds: o.seconds, entities: o.cells},
		source,
		sink,
		program,
		show,
	)
	if err != nil {
		return got, err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	at, err := goredis.ParseURL(cache.DSN("0"))
	if err != nil {
		return got, err
	}
	x := &isolation{lab: l, cache: cache, rdb: goredis.NewClient(at)}
	defer func() { err = errors.Join(err, x.rdb.Close()) }()
	got = isolated{Measured: measured, Trouble: t.name}
	err = x.run(ctx, o, t, &got)
	return got, err
}

// run starts the program, begins the trouble once the first cell is seen, measures the lag and then a backlog.
func (x *isolation) run(ctx context.Context, o isolationOptions, t trouble, got *isolated) error {
	if err := create(ctx, x.sourceDB, liveDatabase, cellDDL); err != nil {
		return err
	}
	x.setup = &liveSetup{live: newLive(x.options, liveDatabase), database: "isolated"}
	store := &hashes{rdb: x.rdb, want: keptUser}
	table := func() error { return x.liveTable(ctx, x.setup) }
	hash := func() error { return x.liveHash(ctx, x.setup, x.cache, store) }
	sinks, drained := []func() error{table, hash}, x.tableHas
	if got.Measured == "redis" {
		sinks, drained = []func() error{hash, table}, x.hashesHave
	}
	if t.alone {
		sinks = sinks[:1]
	}
	for _, add := range sinks {
		if err := add(); err != nil {
			return err
		}
	}
	x.setup.sights = x.setup.sights[:1]
	x.setup.ready = func(ctx context.Context) error { return t.begin(ctx, x) }
	dir := filepath.Join(x.dir, "isolated")
	if err := x.configure(dir, liveDatabase, "snapshot", x.setup.targets); err != nil {
		return err
	}
	p, err := launch.Program{Path: x.program, Dir: dir}.Start(ctx, "run", "-c", launch.Program{Dir: dir}.File())
	if err != nil {
		return err
	}
	defer p.Kill()
	bar := x.show.bar(got.Measured+": "+t.name, 0)
	defer bar.done()
	if err := x.setup.run(ctx, x.sourceDB, &program{Process: p}, bar); err != nil {
		return fmt.Errorf("%w\n%s", err, launch.LastLines(p.Log(), 10))
	}
	got.Lag = x.setup.latency(x.setup.sights[0]).quantiles
	if got.Backlog, err = x.backlog(ctx, o, p, drained); err != nil {
		return fmt.Errorf("%w\n%s", err, launch.LastLines(p.Log(), 10))
	}
	got.Peak, got.Load = peakMemory(p.Pid()), load()
	return t.end(ctx, x)
}

// backlog writes cells while the program stands still, and says how many a second it then brings to the sink.
func (x *isolation) backlog(ctx context.Context, o isolationOptions, p *launch.Process,
	has func(ctx context.Context, w *workload) (bool, error)) (float64, error) {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return 0, err
	}
	x.workload = &workload{entities: o.cells, body: x.body, begin: time.Now().UnixNano(), order: phased}
	err := batches(ctx, x.sourceDB, 2, o.cells, x.tx, func(ctx context.Context, conn *sql.Conn, from, to int) error {
		return x.workload.insert(ctx, conn, liveDatabase, from, to)
	})
	if err = errors.Join(err, p.Signal(syscall.SIGCONT)); err != nil {
		return 0, err
	}
	began := time.Now()
	for {
		done, err := has(ctx, x.workload)
		if err != nil {
			return 0, err
		}
		if done {
			return float64(o.cells) / time.Since(began).Seconds(), nil
		}
		if time.Since(began) > 5*timeout {
			return 0, errors.New("the backlog does not arrive")
		}
		if err := pause.For(ctx, 50*time.Millisecond); err != nil {
			return 0, err
		}
	}
}

// tableHas reports whether the index has every cell of the backlog: emails of other cells have no dot in their names.
func (x *isolation) tableHas(ctx context.Context, w *workload) (bool, error) {
	var held int
	err := x.sinkDB.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+x.setup.database+
		".index_users_email WHERE email LIKE '%.%@%'").Scan(&held)
	if err != nil || held < w.entities {
		return false, err
	}
	_, err = usersEmail.verify(ctx, x.sinkDB, x.setup.database, w, w.entities)
	return true, err
}

// hashesHave reports whether the hashes of the backlog's last cells are there, and then looks at all.
func (x *isolation) hashesHave(ctx context.Context, w *workload) (bool, error) {
	h := &hashes{rdb: x.rdb, want: keptUser}
	for _, entity := range []int{w.entities - 1, w.entities / 2} {
		email, err := x.rdb.HGet(ctx, hashKey(w.key(entity)), "email").Result()
		if errors.Is(err, goredis.Nil) || err == nil && email != w.user(w.at(entity)).email {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	_, err := h.verify(ctx, w, w.entities)
	return err == nil, nil
}

// slowDown lets Redis take 20 ms for each command.
func slowDown(_ context.Context, x *isolation) error {
	ctx, cancel := context.WithCancel(context.Background())
	x.slow, x.slept = cancel, make(chan struct{})
	go func() {
		defer close(x.slept)
		for ctx.Err() == nil {
			if err := x.rdb.Do(ctx, "DEBUG", "SLEEP", "0.02").Err(); err != nil {
				return
			}
		}
	}()
	return nil
}

func speedUp(_ context.Context, x *isolation) error {
	x.slow()
	<-x.slept
	return nil
}
