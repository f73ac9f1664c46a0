package main

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"replicator/internal/servers"
)

// liveDatabase is the prefix of the names of the source databases in the latency stage. Each run has its own source
// database. The database is empty at first, so that the program starts fast.
const liveDatabase = "live"

// latency runs the program while a writer commits single-row transactions at a steady rate: into an index table, into a
// hash in Redis, and into both at once.
func (l *lab) latency(ctx context.Context) error {
	if err := l.latencyInto(ctx, "latency", "an index table", l.sink, l.liveTable(pollEvery)); err != nil {
		return err
	}
	return l.withHashes(ctx, "latency into Redis", func(store *hashes) error {
		hash := l.liveHash(store, store.notified)
		if err := l.latencyInto(ctx, "latency-redis", "a Redis hash", store.server, hash); err != nil {
			return err
		}
		return l.latencyInto(ctx, "latency-both", "an index table and a Redis hash", l.sink, l.liveTable(pollEvery), hash)
	})
}

// liveSetup is one run of the latency stage: its configuration, and the readers of its sinks.
type liveSetup struct {
	*live
	database string // the sink's database
	targets  string // the configuration of the run's sinks and views
	verify   []func(ctx context.Context) (int64, error)
	over     func(ctx context.Context) error // called when all rows have been seen; may be nil
}

// adding adds a part to a latency run: a sink with a view and a reader, or an outage of a sink (trouble.besides).
type adding func(ctx context.Context, s *liveSetup) error

// latencyInto measures one run of the latency stage. If the run has several sinks, only the CPU time of the server
// `sink` counts.
func (l *lab) latencyInto(ctx context.Context, stage, into string, sink *servers.Server, parts ...adding) error {
	source := fmt.Sprintf("%s%d", liveDatabase, l.runs)
	if err := create(ctx, l.sourceDB, source, cellDDL); err != nil {
		return err
	}
	l.runs++
	s := &liveSetup{live: newLive(l.options, source), database: fmt.Sprintf("run%d", l.runs)}
	for _, add := range parts {
		if err := add(ctx, s); err != nil {
			return err
		}
	}
	dir := filepath.Join(l.dir, fmt.Sprint(l.runs))
	if err := l.configure(dir, source, "snapshot", s.targets); err != nil {
		return err
	}
	what := fmt.Sprintf("commit to visible in %s, %d transactions a second", into, l.rate)
	done := l.show.begin(what)
	measured := *l
	measured.sink = sink
	took, err := measured.measureProgram(ctx, dir, []string{"run"}, func(p *program) error {
		if err := s.run(ctx, l.sourceDB, p); err != nil {
			return err
		}
		if s.over != nil {
			if err := s.over(ctx); err != nil {
				return err
			}
		}
		return p.Stop()
	})
	done()
	if err != nil {
		return err
	}
	for i, sight := range s.sights {
		r := result{Stage: stage, What: "the program: " + what, Cells: s.total(), Latency: s.latency(sight)}
		if len(s.sights) > 1 {
			r.Stage += "-" + sight.name
		}
		if r.Checked, err = s.verify[i](ctx); err != nil {
			return err
		}
		l.add(r, took)
	}
	return nil
}

func (l *lab) liveTable(every time.Duration) adding {
	return func(ctx context.Context, s *liveSetup) error {
		if err := create(ctx, l.sinkDB, s.database, usersEmail.ddl()); err != nil {
			return err
		}
		s.targets += strings.ReplaceAll(tableSink(l.sink, s.database), "main", "table") +
			usersEmail.view("cell.users", "table")
		s.verify = append(s.verify, func(ctx context.Context) (int64, error) {
			return l.check(ctx, &setup{database: s.database, tables: []table{usersEmail}}, s.cells, s.total())
		})
		s.addReader("mysql", l.tableSight(s.database+"."+string(usersEmail), s.live, every))
		return nil
	}
}

func (l *lab) liveHash(store *hashes, reader func(v *live) watcher) adding {
	return func(ctx context.Context, s *liveSetup) error {
		if err := store.drop(ctx); err != nil {
			return err
		}
		s.targets += strings.ReplaceAll(hashSink(store.server)+hashView, "main", "cache")
		s.verify = append(s.verify, func(ctx context.Context) (int64, error) {
			held, err := store.verify(ctx, s.cells, s.total())
			if err != nil {
				err = fmt.Errorf("the result is wrong: %w", err)
			}
			return held, err
		})
		s.addReader("redis", reader(s.live))
		return nil
	}
}

func (l *lab) tableSight(index string, v *live, every time.Duration) watcher {
	return l.polled(v, every, "SELECT email FROM "+index+" WHERE email >= ? ORDER BY email")
}

// polled returns a watcher that polls a table with a query. The query selects the values from a given value on.
func (l *lab) polled(v *live, every time.Duration, query string) watcher {
	return func(ctx context.Context, s *sight, poll func(look func(oldest int) error) error) error {
		return connected(ctx, l.sinkDB, func(conn *sql.Conn) error {
			prepared, err := conn.PrepareContext(ctx, query)
			if err != nil {
				return err
			}
			defer prepared.Close()
			var email sql.RawBytes
			return poll(func(oldest int) error {
				nap(every)
				rows, err := prepared.QueryContext(ctx, fmt.Sprintf("%010d", oldest))
				if err != nil {
					return err
				}
				defer rows.Close()
				now := v.now()
				for rows.Next() {
					if err := rows.Scan(&email); err != nil {
						return err
					}
					if err := v.note(s, now, string(email)); err != nil {
						return err
					}
				}
				return rows.Err()
			})
		})
	}
}
