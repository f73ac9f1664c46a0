package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/go-sql-driver/mysql"

	"replicator/internal/servers"
)

// serverArgs give an SQL server enough memory and redo log for a few hundred megabytes of rows.
func serverArgs(kind servers.Kind) []string {
	if !kind.IsSQL() {
		return nil
	}
	args := []string{"--innodb-buffer-pool-size=256M"}
	if kind.IsMariaDB() {
		return append(args, "--innodb-log-file-size=256M")
	}
	return append(args, "--innodb-redo-log-capacity=256M")
}

// start starts a server of the kind. A Kafka broker is not Small, because that would limit Java to its fast compiler,
// and the broker would use more CPU time.
func start(ctx context.Context, kind servers.Kind, progress func(string)) (*servers.Server, error) {
	return servers.Start(ctx, servers.Options{Kind: kind, Small: kind != servers.Kafka, Args: serverArgs(kind),
		Progress: progress})
}

// startSink starts a sink server. It turns on MySQL's log writer threads, without which two connections that commit at
// once sometimes wait for 100 ms. It also lets the file system reserve the space by which a table's file grows: by
// default, MySQL fills that space with zeros, and all writers of the table wait for 9 to 36 ms.
func startSink(ctx context.Context, kind servers.Kind, progress func(string)) (*servers.Server, error) {
	args := serverArgs(kind)
	if kind.IsSQL() && !kind.IsMariaDB() {
		args = append(args, "--innodb-log-writer-threads=ON", "--innodb-extend-and-initialize=OFF")
	}
	return servers.Start(ctx, servers.Options{Kind: kind, Small: true, Args: args, Progress: progress})
}

// lab has two servers of one kind, the source and the sink, and everything else that the measurements (stages) share.
type lab struct {
	options
	source, sink *servers.Server
	sourceDB     *sql.DB
	sinkDB       *sql.DB
	program      string // the path of the built program
	dir          string // for the program's configurations, checkpoints and logs
	workload     *workload
	show         *screen
	results      []result
	leftOut      []string // stages that this machine can't run, and why
	runs         int      // counts the program's runs, to name their databases and directories

	// start starts an additional server for a stage. The caller closes it.
	start func(ctx context.Context, kind servers.Kind) (*servers.Server, error)
}

// newLab connects to the servers. The caller closes the lab and the servers.
func newLab(o options, source, sink *servers.Server, program string, show *screen) (*lab, error) {
	l := &lab{options: o, source: source, sink: sink, program: program, show: show}
	l.start = func(ctx context.Context, kind servers.Kind) (*servers.Server, error) {
		return start(ctx, kind, show.say)
	}
	var err error
	if l.sourceDB, err = open(source); err != nil {
		return nil, err
	}
	if l.sinkDB, err = open(sink); err != nil {
		return nil, errors.Join(err, l.close())
	}
	if l.dir, err = os.MkdirTemp("", "replicator-bench-"); err != nil {
		return nil, errors.Join(err, l.close())
	}
	l.workload = &workload{entities: o.entities, body: o.body, begin: time.Now().UnixNano()}
	return l, nil
}

// beside returns a lab on the same sink with its own source, for a stage that reads its own binlog from the first byte.
// closing closes the lab and its source.
func (l *lab) beside(ctx context.Context) (own *lab, closing func() error, err error) {
	source, err := l.start(ctx, l.source.Kind)
	if err != nil {
		return nil, nil, err
	}
	if own, err = newLab(l.options, source, l.sink, l.program, l.show); err != nil {
		return nil, nil, errors.Join(err, source.Close())
	}
	own.start = l.start
	return own, func() error { return errors.Join(own.close(), source.Close()) }, nil
}

func (l *lab) close() error {
	var errs []error
	for _, db := range []*sql.DB{l.sourceDB, l.sinkDB} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	if l.dir != "" {
		errs = append(errs, os.RemoveAll(l.dir))
	}
	return errors.Join(errs...)
}

// open connects to a server. The client puts values into the statements' text, so each statement takes one round trip.
func open(s *servers.Server) (*sql.DB, error) {
	cfg, err := mysql.ParseDSN(s.DSN(""))
	if err != nil {
		return nil, err
	}
	cfg.InterpolateParams = true
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

type stage struct {
	name  string
	run   func(l *lab, ctx context.Context) error
	alone bool // the stage writes its own rows and does not need the rows that prepare writes
	asked bool // the stage runs only if -only names it
}

// stages returns all measurements (stages) of the bench, in the order in which they run. Each adds its results to its
// lab.
func stages() []stage {
	return []stage{
		{name: "catch-up", run: (*lab).catchUp},
		{name: "fill", run: (*lab).fill},
		{name: "latency", run: (*lab).latency, alone: true},
		{name: "redis", run: (*lab).redis, alone: true},
		{name: "elastic", run: (*lab).elastic, alone: true},
		{name: "distinct", run: (*lab).distinct, alone: true, asked: true},
		{name: "growth", run: (*lab).growth, alone: true, asked: true},
		{name: "kafka", run: (*lab).kafka, alone: true, asked: true},
		{name: "isolation", run: (*lab).isolation, alone: true, asked: true},
		{name: "joins", run: (*lab).joins, alone: true, asked: true},
		{name: "tables", run: (*lab).patternTables, alone: true, asked: true},
		{name: "images", run: (*lab).images, alone: true, asked: true},
		{name: "transaction", run: (*lab).transaction, alone: true, asked: true},
		{name: "swaps", run: (*lab).swaps, alone: true, asked: true},
	}
}

func (l *lab) run(ctx context.Context) error {
	todo := l.stages
	if slices.ContainsFunc(todo, func(s stage) bool { return !s.alone }) {
		todo = append([]stage{{name: "prepare", run: (*lab).prepare}}, todo...)
	}
	for _, s := range todo {
		if err := s.run(l, ctx); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("%s: %s: %w", l.source.Kind, s.name, err)
		}
	}
	return nil
}
