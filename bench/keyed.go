package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"replicator/internal/servers"
)

// The program's lanes, which raw writes of hashes and documents have, too: so many requests under way at once, of so
// many cells.
const (
	lanes     = 2
	laneBatch = 800
)

// keyed is a sink that holds one value for each entity and speaks no SQL, as its stage needs it.
type keyed interface {
	// create makes it empty and ready for raw writes, drop removes what they wrote.
	create(ctx context.Context) error
	drop(ctx context.Context) error
	// write writes one raw request: the users as they are, nothing asked.
	write(ctx context.Context, users []user) error
	// verify compares what it holds with what the first n cells of the workload say, and returns how many values that are.
	verify(ctx context.Context, w *workload, n int) (int64, error)
	close() error
}

// keyedStage is the stage of one such sink.
type keyedStage struct {
	name  string // of the stage, and how its results begin
	kind  servers.Kind
	share int    // it has one entity for so many cells of the other stages
	raw   string // how the results of raw writes begin
	how   string // what these are
	views string // in the configuration, after the sink
	sink  func(s *servers.Server) string
	open  func(s *servers.Server) (keyed, error)
}

// phases are what is measured of a keyed sink: cells of entities that it has never seen, then a newer cell of each,
// which a process that was just started meets without any memory of the first.
var phases = [...]string{"new", "update"}

// keyed measures a keyed sink. It has a source of its own: the program reads a binlog from its first byte.
func (l *lab) keyed(ctx context.Context, k keyedStage) (err error) {
	closing := func(s *servers.Server) { err = errors.Join(err, s.Close()) }
	sink, err := l.start(ctx, k.kind)
	if missing := (*servers.MissingError)(nil); errors.As(err, &missing) {
		l.leftOut = append(l.leftOut, fmt.Sprintf("%s: %v", k.name, err))
		return nil
	}
	if err != nil {
		return err
	}
	defer closing(sink)
	source, err := l.start(ctx, l.source.Kind)
	if err != nil {
		return err
	}
	defer closing(source)
	store, err := k.open(sink)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.close()) }()
	n := max(l.cells/k.share, 1)
	own := &lab{
		options: l.options, source: source, sink: sink, program: l.program, show: l.show, dir: filepath.Join(l.dir, k.name),
		workload: &workload{entities: n, body: l.body, begin: time.Now().UnixNano(), order: round},
	}
	if own.sourceDB, err = open(source); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, own.sourceDB.Close()) }()
	err = own.rawKeyed(ctx, k, store)
	if err == nil {
		err = own.catchUpKeyed(ctx, k, store)
	}
	l.results = append(l.results, own.results...)
	return err
}

// rawKeyed writes every user of each phase as fast as the sink takes them: the least that it costs. Once before,
// nothing is measured: a server is slower at first, the most one that compiles itself as it runs.
func (l *lab) rawKeyed(ctx context.Context, k keyedStage, store keyed) error {
	for _, measured := range []bool{false, true} {
		if err := store.create(ctx); err != nil {
			return err
		}
		for i, phase := range phases {
			users := l.usersOf(i)
			what := fmt.Sprintf("%s by %d, %d connections, %s", k.how, laneBatch, lanes, phase)
			done := l.show.begin(what)
			took, err := l.measure(func() error {
				return together(ctx, lanes, func(ctx context.Context, lane int) error {
					return ranges(lane, lanes, len(users), laneBatch, func(from, to int) error {
						return store.write(ctx, users[from:to])
					})
				})
			})
			done()
			if err != nil {
				return err
			}
			r := result{Stage: k.raw + "-" + phase, What: what, Cells: len(users)}
			if r.Checked, err = l.checkKeyed(ctx, store, i); err != nil {
				return err
			}
			if measured {
				l.add(r, took)
			}
		}
		if err := store.drop(ctx); err != nil {
			return err
		}
	}
	return nil
}

// usersOf are what the cells of a phase say, made beforehand: that they are computed is no part of a sink's cost.
func (l *lab) usersOf(phase int) []user {
	n := l.workload.entities
	users := make([]user, n)
	for i := range users {
		users[i] = l.workload.user(l.workload.at(phase*n + i))
	}
	return users
}

// catchUpKeyed runs the program once for each phase. The second run goes on where the first one stopped.
func (l *lab) catchUpKeyed(ctx context.Context, k keyedStage, store keyed) error {
	if err := create(ctx, l.sourceDB, sourceDatabase, cellDDL); err != nil {
		return err
	}
	if err := l.configure(l.dir, sourceDatabase, "earliest", k.sink(l.sink)+"\n"+k.views); err != nil {
		return err
	}
	n := l.workload.entities
	for i, phase := range phases {
		if err := l.writeCells(ctx, i*n, (i+1)*n); err != nil {
			return err
		}
		what := fmt.Sprintf("the program: into %s %s, %s entities, %s", k.kind, l.sink.Version, thousands(int64(n)), phase)
		took, err := l.caughtUp(ctx, l.dir, what)
		if err != nil {
			return err
		}
		r := result{Stage: k.name + "-" + phase, What: what, Cells: n, Raw: k.raw + "-" + phase}
		if r.Checked, err = l.checkKeyed(ctx, store, i); err != nil {
			return err
		}
		r.OfRaw = l.raw(r.Raw, n) / took.wall.Seconds()
		l.add(r, took)
	}
	return nil
}

// checkKeyed compares what the sink holds after a phase with the workload.
func (l *lab) checkKeyed(ctx context.Context, store keyed, phase int) (int64, error) {
	defer l.show.begin("checking every value")()
	held, err := store.verify(ctx, l.workload, (phase+1)*l.workload.entities)
	if err != nil {
		return 0, fmt.Errorf("the result is wrong: %w", err)
	}
	return held, nil
}
