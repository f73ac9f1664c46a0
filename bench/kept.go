package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"replicator/internal/servers"
)

// kept is a sink with a view, as a stage measures it: the configuration, the raw writes to compare with, and the check
// of the content.
type kept struct {
	name    string // what the results call the sink
	what    string
	server  *servers.Server
	targets string // the configuration of the sink and its views
	raw     *rawWrites
	// verify compares the sink's values with the workload's first n rows, and returns the number of values.
	verify func(ctx context.Context, w *workload, n int) (int64, error)
	close  func() error
}

// rawWrites write values directly to a sink: the same values that the program writes there.
type rawWrites struct {
	name string // what the results call the writes
	how  string
	// create empties and prepares the sink. drop removes the written values.
	create, drop func(ctx context.Context) error
	// write sends one request that writes the users' values. It reads nothing from the sink.
	write func(ctx context.Context, users []user) error
}

// Raw writes use as many connections as the program has lanes, and as many rows a request as a lane's batch has.
const (
	lanes     = 2   // the program's parallel writers to a sink
	laneBatch = 800 // the most rows in a lane's batch
)

// keptStage is a measurement in phases. Each phase writes rows to the source, and then measures a newly started program
// for one sink after another.
type keptStage struct {
	into   []func(l *lab, ctx context.Context) (*kept, error)
	cells  int // how many rows (cells) each phase writes
	order  order
	phases []string
}

// redis measures writing a hash for each user, and then a newer version of each hash.
func (l *lab) redis(ctx context.Context) error {
	return l.measureKept(ctx, keptStage{into: []func(*lab, context.Context) (*kept, error){(*lab).keptHash},
		cells: max(l.cells/4, 1), order: round, phases: []string{"new", "update"}})
}

// elastic measures writing a document for each user, and then a newer version of each document.
func (l *lab) elastic(ctx context.Context) error {
	return l.measureKept(ctx, keptStage{into: []func(*lab, context.Context) (*kept, error){(*lab).keptDocument},
		cells: max(l.cells/10, 1), order: round, phases: []string{"new", "update"}})
}

// distinct measures the cost of rows with different keys, which the program can't combine before it writes them. In the
// last phase all rows have one key, so the program can combine them.
func (l *lab) distinct(ctx context.Context) error {
	return l.measureKept(ctx, keptStage{
		into:  []func(*lab, context.Context) (*kept, error){(*lab).keptTable, (*lab).keptHashAndIndex},
		cells: l.cells, order: phased, phases: phaseNames[:]})
}

// measureKept measures writing to each sink of a stage: first without the program, then with it. The stage has its own
// source, because the program reads the whole binlog, and a shared binlog would contain other stages' rows.
func (l *lab) measureKept(ctx context.Context, stage keptStage) (err error) {
	own, closing, err := l.beside(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closing()) }()
	n := stage.cells
	own.workload = &workload{entities: n, body: l.body, begin: time.Now().UnixNano(), order: stage.order}
	if err := create(ctx, own.sourceDB, sourceDatabase, cellDDL); err != nil {
		return err
	}
	var all []*kept
	for _, start := range stage.into {
		var k *kept
		k, err = start(own, ctx)
		if missing := (*servers.MissingError)(nil); errors.As(err, &missing) {
			l.leftOut = append(l.leftOut, err.Error())
			continue
		}
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, k.close()) }()
		if err := own.configure(filepath.Join(own.dir, k.name), sourceDatabase, "earliest", k.targets); err != nil {
			return err
		}
		all = append(all, k)
	}
	if len(all) == 0 {
		return nil
	}
	for _, k := range all {
		if err := l.writeRaw(ctx, own, k, stage.phases); err != nil {
			return err
		}
	}
	for i, phase := range stage.phases {
		if err := own.writeCells(ctx, i*n, (i+1)*n); err != nil {
			return err
		}
		for _, k := range all {
			if err := l.measurePhase(ctx, own, k, phase, (i+1)*n); err != nil {
				return err
			}
		}
	}
	return nil
}

// measurePhase runs the program until it has caught up with a phase. end is the number of rows up to the phase's end.
func (l *lab) measurePhase(ctx context.Context, own *lab, k *kept, phase string, end int) error {
	n := own.workload.entities
	what := fmt.Sprintf("the program: %s cells into %s, %s", thousands(int64(n)), k.what, phase)
	measured := *own
	measured.sink = k.server
	took, err := measured.caughtUp(ctx, filepath.Join(own.dir, k.name), what)
	if err != nil {
		return err
	}
	r := result{Stage: phase + "-" + k.name, What: what, Cells: n}
	if k.raw != nil {
		r.Raw = k.raw.name + "-" + phase
		r.OfRaw = l.seconds(r.Raw) / took.wall.Seconds()
	}
	if r.Checked, err = own.checkKept(ctx, k, end); err != nil {
		return err
	}
	l.add(r, took)
	return nil
}

// writeRaw writes the same values to the sink `k` as the program does, but directly, as fast as the sink accepts them.
// This is the minimum cost. writeRaw writes everything twice and only counts the second time, because servers are
// slower at first, especially with a JIT compiler.
func (l *lab) writeRaw(ctx context.Context, own *lab, k *kept, phases []string) error {
	if k.raw == nil {
		return nil
	}
	measured := *own
	measured.sink = k.server
	for _, counts := range []bool{false, true} {
		if err := k.raw.create(ctx); err != nil {
			return err
		}
		for i, phase := range phases {
			users := own.usersOf(i)
			what := fmt.Sprintf("%s by %d, %d connections, %s", k.raw.how, laneBatch, lanes, phase)
			done := l.show.begin(what)
			took, err := measured.measure(func() error {
				return together(ctx, lanes, func(ctx context.Context, lane int) error {
					return ranges(lane, lanes, len(users), laneBatch, func(from, to int) error {
						return k.raw.write(ctx, users[from:to])
					})
				})
			})
			done()
			if err != nil {
				return err
			}
			r := result{Stage: k.raw.name + "-" + phase, What: what, Cells: len(users)}
			if r.Checked, err = own.checkKept(ctx, k, (i+1)*len(users)); err != nil {
				return err
			}
			if counts {
				l.add(r, took)
			}
		}
		if err := k.raw.drop(ctx); err != nil {
			return err
		}
	}
	return nil
}

// usersOf computes the users that the rows of one phase contain. Callers do so before they measure raw writes, so that
// the time does not count as the sink's cost.
func (l *lab) usersOf(phase int) []user {
	n := l.workload.entities
	users := make([]user, n)
	for i := range users {
		users[i] = l.workload.user(l.workload.at(phase*n + i))
	}
	return users
}

func (l *lab) checkKept(ctx context.Context, k *kept, n int) (int64, error) {
	defer l.show.begin("checking every value")()
	held, err := k.verify(ctx, l.workload, n)
	if err != nil {
		return 0, fmt.Errorf("the result is wrong: %w", err)
	}
	return held, nil
}

func (l *lab) keptTable(ctx context.Context) (*kept, error) {
	const database = "kept"
	return &kept{name: "mysql", what: "an index table", server: l.sink,
		targets: tableSink(l.sink, database) + usersEmail.view("cell.users", "main"),
		verify: func(ctx context.Context, w *workload, n int) (int64, error) {
			return usersEmail.verify(ctx, l.sinkDB, database, w, n)
		},
		close: func() error {
			_, err := l.sinkDB.ExecContext(context.WithoutCancel(ctx), "DROP DATABASE "+database)
			return err
		},
	}, create(ctx, l.sinkDB, database, usersEmail.ddl())
}

func (l *lab) keptHash(ctx context.Context) (*kept, error) {
	h, err := l.startHashes(ctx)
	if err != nil {
		return nil, err
	}
	return &kept{name: "redis", what: "a Redis hash", server: h.server, targets: hashSink(h.server) + hashView,
		raw: &rawWrites{name: "raw-hset", how: "pipelined HSET of the same hashes",
			create: func(context.Context) error { return nil }, drop: h.drop, write: h.write},
		verify: h.verify, close: h.close}, nil
}

// keptHashAndIndex returns a hash view and an index view, both in one Redis of their own.
func (l *lab) keptHashAndIndex(ctx context.Context) (*kept, error) {
	h, err := l.startHashes(ctx)
	if err != nil {
		return nil, err
	}
	verify := func(ctx context.Context, w *workload, n int) (int64, error) {
		held, err := h.verify(ctx, w, n)
		if err != nil {
			return 0, err
		}
		entries, err := h.verifyIndex(ctx, w, n)
		return held + entries, err
	}
	return &kept{name: "redis", what: "a Redis hash and index", server: h.server,
		targets: hashSink(h.server) + hashView + emailView, verify: verify, close: h.close}, nil
}
