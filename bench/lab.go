package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/go-sql-driver/mysql"

	"replicator/internal/servers"
)

// serverArgs give a SQL server memory and a redo log that a few hundred megabytes of cells don't overrun, and let a
// Redis write no file, so that the programs are measured and not a disk.
func serverArgs(kind servers.Kind) []string {
	switch {
	case kind == servers.Elasticsearch:
		return nil
	case !kind.IsSQL():
		return []string{"--appendonly", "no"}
	}
	args := []string{"--innodb-buffer-pool-size=256M"}
	if kind.IsMariaDB() {
		return append(args, "--innodb-log-file-size=256M")
	}
	return append(args, "--innodb-redo-log-capacity=256M")
}

// start starts a server of the kind.
func start(ctx context.Context, kind servers.Kind, progress func(string)) (*servers.Server, error) {
	return servers.Start(ctx, servers.Options{Kind: kind, Small: true, Args: serverArgs(kind), Progress: progress})
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
	name string
	run  func(l *lab, ctx context.Context) error
}

// stages are all of them, in order; each adds its results. Those that are compared with raw ones come after them.
func stages() []stage {
	return []stage{
		{"raw-read", (*lab).rawRead},
		{"raw-scan", (*lab).rawScan},
		{"decode", (*lab).decode},
		{"raw-write", (*lab).rawWrites},
		{"catch-up", (*lab).catchUp},
		{"fill", (*lab).fill},
		{"scan", (*lab).scan},
		{"latency", (*lab).latency},
		{"redis", (*lab).redis},
		{"elastic", (*lab).elastic},
	}
}

// run writes the cells and runs the stages that were asked for.
func (l *lab) run(ctx context.Context) error {
	for _, s := range append([]stage{{"prepare", (*lab).prepare}}, l.stages...) {
		if err := s.run(l, ctx); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("%s: %s: %w", l.source.Kind, s.name, err)
		}
	}
	return nil
}
