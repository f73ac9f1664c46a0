package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"replicator/internal/servers"
)

// distinctPhase is one kind of cells that coalesce with no other in flight, or, the last, with all.
type distinctPhase int

const (
	newPhase       distinctPhase = iota // the first cell of each entity
	movedPhase                          // a newer one of each, with another email: its index entry moves
	unchangedPhase                      // a newer one of each that says the same: only the version rises
	hotPhase                            // as many again, all of one entity
	distinctPhases                      // how many there are
)

func (p distinctPhase) String() string {
	return [...]string{"distinct", "moved", "unchanged", "hot"}[p]
}

// distinct measures cells that are all of different entities, and then of one, into an index table and into Redis. A
// process that was just started meets each phase, without any memory of those before.
func (l *lab) distinct(ctx context.Context) (err error) {
	own, closing, err := l.beside(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closing()) }()
	n := l.cells
	own.workload = &workload{entities: n, body: l.body, begin: time.Now().UnixNano(), order: phased}
	if err := create(ctx, own.sourceDB, sourceDatabase, cellDDL); err != nil {
		return err
	}
	table, err := own.setUp(ctx, sourceDatabase, "earliest", []table{usersEmail})
	if err != nil {
		return err
	}
	sinks := []distinctSink{own.distinctTable(table)}
	into, closeRedis, err := own.distinctRedis(ctx)
	if missing := (*servers.MissingError)(nil); errors.As(err, &missing) {
		l.leftOut = append(l.leftOut, fmt.Sprintf("distinct: %v", err))
	} else if err != nil {
		return err
	} else {
		defer func() { err = errors.Join(err, closeRedis()) }()
		sinks = append(sinks, into)
	}
	for phase := range distinctPhases {
		if err := own.writeCells(ctx, int(phase)*n, (int(phase)+1)*n); err != nil {
			return err
		}
		for _, s := range sinks {
			if err := l.measurePhase(ctx, phase, s); err != nil {
				return err
			}
		}
	}
	// The next stage beside this one counts its runs from 1 again.
	_, err = own.sinkDB.ExecContext(ctx, "DROP DATABASE "+table.database)
	return err
}

// distinctSink is a sink of the distinct stage with the configuration of its run.
type distinctSink struct {
	*lab   // whose sink it is
	name   string
	what   string
	dir    string
	verify func(ctx context.Context, cells int) (int64, error)
}

// measurePhase runs the program until it has caught up with one phase's cells, and checks all that the sink holds.
func (l *lab) measurePhase(ctx context.Context, phase distinctPhase, into distinctSink) error {
	n := into.workload.entities
	what := fmt.Sprintf("the program: %s cells into %s, %v", thousands(int64(n)), into.what, phase)
	took, err := into.caughtUp(ctx, into.dir, what)
	if err != nil {
		return err
	}
	r := result{Stage: fmt.Sprintf("%v-%s", phase, into.name), What: what, Cells: n}
	if r.Checked, err = into.verify(ctx, (int(phase)+1)*n); err != nil {
		return err
	}
	l.add(r, took)
	return nil
}

// distinctTable is an index table on the lab's sink.
func (l *lab) distinctTable(s *setup) distinctSink {
	return distinctSink{lab: l, name: "mysql", what: "an index table", dir: s.dir,
		verify: func(ctx context.Context, cells int) (int64, error) { return l.compare(ctx, s, l.workload, cells) },
	}
}

// emailPrefix begins the keys of the index in Redis.
const emailPrefix = "email:"

// emailView is the view of the index in the configuration.
const emailView = "\n[views.user_by_email]\nfrom = \"cell.users\"\nsink = \"main\"\nkind = \"index\"\nkey = \"" + emailPrefix +
	"{email}\"\n"

// distinctRedis is a hash and an index in a Redis of its own, which closing ends.
func (l *lab) distinctRedis(ctx context.Context) (into distinctSink, closing func() error, err error) {
	store, err := l.startHashes(ctx)
	if err != nil {
		return into, nil, err
	}
	beside := *l
	beside.sink = store.server
	dir := filepath.Join(l.dir, "redis")
	err = l.configure(dir, sourceDatabase, "earliest", hashSink(store.server)+hashView+emailView)
	if err != nil {
		return into, nil, errors.Join(err, store.close())
	}
	verify := func(ctx context.Context, cells int) (int64, error) {
		held, err := store.verify(ctx, l.workload, cells)
		if err != nil {
			return 0, fmt.Errorf("the result is wrong: %w", err)
		}
		entries, err := store.verifyIndex(ctx, l.workload, cells)
		if err != nil {
			return 0, fmt.Errorf("the result is wrong: %w", err)
		}
		return held + entries, nil
	}
	return distinctSink{lab: &beside, name: "redis", what: "a Redis hash and index", dir: dir,
		verify: verify}, store.close, nil
}

// verifyIndex compares every entry of the index with what the first n cells of the workload say, and returns how many
// there are.
func (h *hashes) verifyIndex(ctx context.Context, w *workload, n int) (int64, error) {
	newest := w.present(n)
	err := ranges(0, 1, len(newest), laneBatch, func(from, to int) error {
		cmds, err := h.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, c := range newest[from:to] {
				p.SMembers(ctx, emailPrefix+w.user(c).email)
			}
			return nil
		})
		if err != nil {
			return err
		}
		for i, cmd := range cmds {
			key := w.key(newest[from+i].entity)
			want := []string{hex.EncodeToString(key[:])}
			if held := cmd.(*redis.StringSliceCmd).Val(); !slices.Equal(held, want) {
				return fmt.Errorf("%v is %v, not %v", cmd.Args()[1], held, want)
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	held, err := h.count(ctx, emailPrefix)
	if err == nil && held != len(newest) {
		err = fmt.Errorf("there are %d index entries of %d entities", held, len(newest))
	}
	return int64(held), err
}
