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

// serverArgs give a SQL server memory and a redo log that a few hundred megabytes of cells don't overrun.
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

// start starts a server of the kind. A small broker would have Java's quick compiler alone, and take more CPU time.
func start(ctx context.Context, kind servers.Kind, progress func(string)) (*servers.Server, error) {
	return servers.Start(ctx, servers.Options{Kind: kind, Small: kind != servers.Kafka, Args: serverArgs(kind),
		Progress: progress})
}

// startSink is start for a sink. MySQL whose threads write the redo log themselves, which is its default on a machine
// of few processors, has two connections that commit at one moment wait for 100 ms now and then (9.7.4: four in 20,000
// transactions over two connections beside three readers, with nothing else at work). The program commits over two. And
// MySQL that writes zeros to what it makes a table's file longer by, which is its default, too, has all who write to
// the table wait each time: in five of six runs for 9 to 36 ms at the 4,972nd new row, in five for 14 to 25 ms at the
// 6,670th, and in none of four where the file system reserves the space.
func startSink(ctx context.Context, kind servers.Kind, progress func(string)) (*servers.Server, error) {
	args := serverArgs(kind)
	if kind.IsSQL() && !kind.IsMariaDB() {
		args = append(args, "--innodb-log-writer-threads=ON", "--innodb-extend-and-initialize=OFF")
	}
	return servers.Start(ctx, servers.Options{Kind: kind, Small: true, Args: args, Progress: progress})
}

// lab is the pair of servers that one kind is measured on, with what the stages have in common.
type lab struct {
	options
	source, sink *servers.Server
	sourceDB     *sql.DB
	sinkDB       *sql.DB
	program      string // the built program
	dir          string // for configurations, checkpoints and logs of the program
	workload     *workload
	show         *screen
	results      []result
	leftOut      []string // stages that this machine can't run, and why
	runs         int      // how many runs of the program there were

	// start starts one more server, for stages that need it. Whoever calls it closes it.
	start func(ctx context.Context, kind servers.Kind) (*servers.Server, error)
}

// newLab connects to the servers. The caller closes it; the servers stay the caller's.
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

// beside is a lab on the same sink with a source of its own, for a stage that reads its own binlog from the first byte.
// closing ends both.
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

// open connects to a server. Values are put into the statements' text: one round trip each.
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

// stage is a part of what is measured.
type stage struct {
	name  string
	run   func(l *lab, ctx context.Context) error
	alone bool // it writes cells of its own: prepare's are not needed
	asked bool // it runs only where -only names it
}

// stages are all of them, in order; each adds its results. Those that are compared with raw ones come after them.
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
		{name: "swaps", run: (*lab).swaps, alone: true, asked: true},
	}
}

// run writes the cells and runs the stages that were asked for.
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
