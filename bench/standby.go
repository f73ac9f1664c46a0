package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"replicator/internal/launch"
	"replicator/internal/pause"
	"replicator/internal/servers"
)

// intoKafka is the sink of a pair that publishes.
const intoKafka = "kafka"

// The topic that a pair writes.
const (
	peersTopic      = "cells"
	peersPartitions = 12
)

// standbyOptions are the flags of "standby".
type standbyOptions struct {
	kind     servers.Kind
	kills    int
	cells    int
	entities int
	rate     int
	into     []string
	json     string
}

func parseStandby(args []string, out io.Writer) (o standbyOptions, err error) {
	fs := flag.NewFlagSet("bench standby", flag.ContinueOnError)
	fs.SetOutput(out)
	kind := fs.String("server", string(servers.MySQL), "the kind of source, which has the store, too")
	fs.IntVar(&o.kills, "kills", 20, "how often the process that runs is killed")
	fs.IntVar(&o.cells, "cells", 20_000, "how many cells there are before")
	fs.IntVar(&o.entities, "entities", 5_000, "of how many entities")
	fs.IntVar(&o.rate, "rate", 200, "transactions a second, all the while")
	into := fs.String("into", mysqlSink+","+intoKafka, "what the processes keep, with commas between: mysql, kafka")
	fs.StringVar(&o.json, "json", "", "write every figure to this `file` too")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if o.kind, err = sourceKind(*kind); err != nil {
		return o, err
	}
	for name := range strings.SplitSeq(*into, ",") {
		if name != mysqlSink && name != intoKafka {
			return o, fmt.Errorf("-into: there is no sink %q", name)
		}
		o.into = append(o.into, name)
	}
	if fs.NArg() > 0 || o.kills < 1 || o.cells < 1 || o.entities < 1 || o.rate < 1 {
		return o, errors.New("standby: every number is at least 1, and nothing else stands beside the flags")
	}
	return o, nil
}

// takeover is what became of the kills into one sink.
type takeover struct {
	Into    string    `json:"into"`
	Kills   int       `json:"kills"`
	Took    quantiles `json:"took"`
	Written int       `json:"cells"`
	Checked int       `json:"checked"`
	Looks   int       `json:"looks,omitempty"` // of a reader that saw nothing step back
	Load    string    `json:"load"`
}

// takeovers are all of them.
type takeovers struct {
	Machine machine    `json:"machine"`
	Kind    string     `json:"kind"`
	Version string     `json:"version"`
	Runs    []takeover `json:"runs"`
}

func (r *takeovers) print(out io.Writer) {
	fmt.Fprintf(out, "\n%s\nsource and store: %s %s\n\n| processes keep | kill -9 | taken over after: p50, s | max, s | cells "+
		"written | found wrong |\n|---|---|---|---|---|---|\n", &r.Machine, r.Kind, r.Version)
	for _, t := range r.Runs {
		looks := ""
		if t.Looks > 0 {
			looks = fmt.Sprintf(", no step back in %s looks", thousands(int64(t.Looks)))
		}
		fmt.Fprintf(out, "| %s | %d | %.2f | %.2f | %s | nothing: %s entities compared%s |\n", t.Into, t.Kills,
			t.Took.P50/1000, t.Took.Max/1000, thousands(int64(t.Written)), thousands(int64(t.Checked)), looks)
	}
}

// measureStandby kills the one of two processes that runs, again and again, while cells are written.
func measureStandby(ctx context.Context, o standbyOptions, out, progress io.Writer) (err error) {
	show := newScreen(progress)
	dir, program, remove, err := build(ctx, show)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	r := &takeovers{Machine: thisMachine()}
	for _, into := range o.into {
		got, err := o.run(ctx, r, into, dir, program, show)
		if err != nil {
			return fmt.Errorf("standby: %s: %w", into, err)
		}
		r.Runs = append(r.Runs, got)
	}
	r.Machine.LoadAfter = load()
	r.print(out)
	if o.json != "" {
		return writeJSON(o.json, r)
	}
	return nil
}

// pair is two processes on one store, and the writer beside them.
type pair struct {
	*lab
	o       standbyOptions
	targets string // of their configuration
	runs    *member
	waits   *member
	written int // cells that are committed: the writer's while it writes
}

// run makes the kills into one sink.
func (o standbyOptions) run(ctx context.Context, r *takeovers, into, dir, program string,
	show *screen) (got takeover, err error) {
	source, err := start(ctx, o.kind, show.say)
	if err != nil {
		return got, err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	r.Kind, r.Version = string(source.Kind), source.Version
	x := &pair{o: o, lab: &lab{options: options{cells: o.cells, tx: 10}, source: source, program: program, show: show,
		dir:      filepath.Join(dir, into),
		workload: &workload{entities: o.entities, body: 250, begin: time.Now().UnixNano(), order: round}}}
	if x.sourceDB, err = open(source); err != nil {
		return got, err
	}
	defer func() { err = errors.Join(err, x.sourceDB.Close()) }()
	if err := errors.Join(os.Mkdir(x.dir, 0o755), x.prepare(ctx)); err != nil {
		return got, err
	}
	if err := create(ctx, x.sourceDB, "store"); err != nil {
		return got, err
	}
	x.written = o.cells
	got = takeover{Into: into, Kills: o.kills}
	if into == intoKafka {
		err = x.intoKafka(ctx, &got)
	} else {
		err = x.intoTable(ctx, &got)
	}
	got.Load = load()
	return got, err
}

// intoKafka lets the pair publish, and compares the topic.
func (x *pair) intoKafka(ctx context.Context, got *takeover) (err error) {
	broker, err := servers.Start(ctx, servers.Options{Kind: servers.Kafka, Progress: x.show.say})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, broker.Close()) }()
	got.Into = "a topic in Kafka"
	x.targets = changelogView(broker, peersTopic, peersPartitions)
	return x.kills(ctx, got, func(ctx context.Context) (err error) {
		got.Checked, err = checkTopic(ctx, broker, peersTopic, x.workload, x.written)
		return err
	})
}

// intoTable lets the pair keep an index table in the source's server. A reader looks at it all the while.
func (x *pair) intoTable(ctx context.Context, got *takeover) error {
	if err := create(ctx, x.sourceDB, "kept", usersEmail.ddl()); err != nil {
		return err
	}
	got.Into = "an index table in MySQL"
	x.targets = fmt.Sprintf("[sinks.main]\ntype = \"mysql\"\ndsn = %q\n", x.source.DSN("kept")) +
		usersEmail.view("cell.users", "main")
	reading, end := context.WithCancel(ctx)
	var wrong error
	var reader sync.WaitGroup
	reader.Go(func() { got.Looks, wrong = neverBack(reading, x.sourceDB, "kept."+string(usersEmail)) })
	err := x.kills(ctx, got, func(ctx context.Context) error {
		rows, err := usersEmail.verify(ctx, x.sourceDB, "kept", x.workload, x.written)
		got.Checked = int(rows)
		return err
	})
	end()
	reader.Wait()
	return errors.Join(err, wrong)
}

// neverBack looks at an index table until ctx is done. An email sorts behind those that its entity had before.
func neverBack(ctx context.Context, db *sql.DB, table string) (looks int, err error) {
	shown := map[string]string{}
	for ; pause.For(ctx, 20*time.Millisecond) == nil; looks++ {
		seen, err := emails(ctx, db, table)
		if ctx.Err() != nil {
			break // it was cut off in its middle
		}
		if err != nil {
			return looks, err
		}
		for key, email := range shown {
			if seen[key] < email {
				return looks, fmt.Errorf("of %x a reader saw %q, and then %q", key, email, seen[key])
			}
		}
		shown = seen
	}
	return looks, nil
}

// emails are what an index table holds, by key.
func emails(ctx context.Context, db *sql.DB, table string) (map[string]string, error) {
	rows, err := db.QueryContext(ctx, "SELECT row_key, email FROM "+table)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	held := map[string]string{}
	for rows.Next() {
		var key, email string
		if err := rows.Scan(&key, &email); err != nil {
			return nil, err
		}
		held[key] = max(held[key], email)
	}
	return held, rows.Err()
}

// slowTakeover is after how long a takeover is told of with what the process logged meanwhile.
const slowTakeover = 5 * time.Second

// kills kills the process that runs, and measures until the other one is ready. Then it compares what is kept.
func (x *pair) kills(ctx context.Context, got *takeover, right func(ctx context.Context) error) (err error) {
	defer func() {
		for _, m := range []*member{x.runs, x.waits} {
			if m != nil {
				m.Kill()
			}
		}
	}()
	if x.runs, err = x.begin(ctx, "first", http.StatusOK); err != nil {
		return err
	}
	if x.waits, err = x.begin(ctx, "second", http.StatusServiceUnavailable); err != nil {
		return err
	}
	writing, end := context.WithCancel(ctx)
	var failed error
	var writer sync.WaitGroup
	writer.Go(func() { failed = x.write(writing) })
	defer writer.Wait()
	defer end()
	bar := x.show.bar(fmt.Sprintf("%s: %d kills", got.Into, x.o.kills), x.o.kills)
	defer bar.done()
	var took []float64 // ms
	for n := range x.o.kills {
		began := time.Now()
		x.runs.Kill()
		if err := x.waits.answers(ctx, http.StatusOK); err != nil {
			return err
		}
		took = append(took, time.Since(began).Seconds()*1000)
		if since := time.Since(began); since > slowTakeover {
			x.show.say(fmt.Sprintf("kill %d: taken over after %s; the process logged\n%s", n+1, since.Round(time.Millisecond),
				launch.LastLines(x.waits.Log(), 30)))
		}
		bar.add(1)
		x.runs, x.waits = x.waits, nil
		if x.waits, err = x.begin(ctx, fmt.Sprint("standby", n), http.StatusServiceUnavailable); err != nil {
			return err
		}
	}
	end()
	writer.Wait()
	got.Took, got.Written = quantilesOf(took), x.written
	if failed != nil {
		return failed
	}
	if err := (&appliedSink{check: right}).settled(ctx); err != nil {
		return fmt.Errorf("the result is wrong: %w\n%s", err, launch.LastLines(x.runs.Log(), 10))
	}
	return nil
}

// begin starts a process and waits until it is ready, or says that it stands by.
func (x *pair) begin(ctx context.Context, name string, code int) (m *member, err error) {
	p := launch.Program{Path: x.program, Dir: filepath.Join(x.dir, name)}
	listen, err := freeAddress()
	if err == nil {
		err = os.Mkdir(p.Dir, 0o755)
	}
	if err == nil {
		err = p.Configure(fmt.Sprintf(pairConfiguration, x.source.DSN(sourceDatabase), x.source.DSN("store"), listen), x.targets)
	}
	if err != nil {
		return nil, err
	}
	running, err := p.Start(ctx, "run", "-c", p.File())
	if err != nil {
		return nil, err
	}
	m = &member{Process: running, listen: listen}
	if err := m.answers(ctx, code); err != nil {
		m.Kill()
		return nil, err
	}
	return m, nil
}

// pairConfiguration is both processes', but for the sink and its view.
const pairConfiguration = `[source]
dsn = %q
start = "snapshot"

[checkpoint]
store = "mysql"
dsn = %q

[http]
listen = %q

` + cellTable

// answers waits until /readyz is 200, or until it is 503 because another process runs.
func (m *member) answers(ctx context.Context, code int) error {
	last := ""
	for began := time.Now(); ; {
		got, body := m.readyz(ctx)
		if got == code && (code == http.StatusOK || strings.Contains(body, "another replicator runs")) {
			return nil
		}
		if last = body; m.Ended() || time.Since(began) > stuck {
			return fmt.Errorf("/readyz is not %d: %s\n%s", code, last, launch.LastLines(m.Log(), 10))
		}
		if err := pause.For(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

func (m *member) readyz(ctx context.Context) (code int, body string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.listen+"/readyz", nil)
	if err != nil {
		return 0, err.Error()
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, err.Error()
	}
	return r.StatusCode, string(text)
}

// write commits cells one by one at a steady rate, until ctx is done.
func (x *pair) write(ctx context.Context) error {
	return connected(ctx, x.sourceDB, func(conn *sql.Conn) error {
		tick := time.NewTicker(time.Second / time.Duration(x.o.rate))
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
			if err := x.workload.insert(context.WithoutCancel(ctx), conn, sourceDatabase, x.written, x.written+1); err != nil {
				return err
			}
			x.written++
		}
	})
}
