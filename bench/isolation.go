package main

import (
	"context"
	"fmt"

	"replicator/internal/servers"
)

// trouble is a failure of one sink while a different sink is measured.
type trouble struct {
	name       string
	begin, end func(ctx context.Context, s *liveSetup) error
}

// troublesOf returns the troubles of a sink's server. spoil makes the sink's view fail until an operator acts.
func troublesOf(server *servers.Server, spoil func(ctx context.Context, s *liveSetup) error) []trouble {
	nothing := func(context.Context, *liveSetup) error { return nil }
	return []trouble{
		{"well", nothing, nothing},
		{"down", func(context.Context, *liveSetup) error { return server.Kill() },
			func(ctx context.Context, _ *liveSetup) error { return server.Restart(ctx) }},
		{"hanging", func(context.Context, *liveSetup) error { return server.Suspend() },
			func(context.Context, *liveSetup) error { return server.Resume() }},
		{"spoiled", spoil, nothing},
	}
}

// isolation measures the latency into an index table while Redis fails, and into a hash while the table's server fails.
func (l *lab) isolation(ctx context.Context) error {
	return l.withHashes(ctx, "isolation", func(store *hashes) error {
		flush := func(ctx context.Context, _ *liveSetup) error { return store.drop(ctx) }
		dropTable := func(ctx context.Context, s *liveSetup) error {
			_, err := l.sinkDB.ExecContext(ctx, fmt.Sprintf("DROP TABLE %s.%s", s.database, usersEmail))
			return err
		}
		table, hash := l.liveTable(pollEvery), l.liveHash(store, store.notified)
		for _, t := range troublesOf(store.server, flush) {
			into := "an index table, Redis " + t.name
			if err := l.latencyInto(ctx, "isolation-mysql-"+t.name, into, l.sink, table, hash, t.besides); err != nil {
				return err
			}
		}
		for _, t := range troublesOf(l.sink, dropTable) {
			into := "a Redis hash, the table's server " + t.name
			if err := l.latencyInto(ctx, "isolation-redis-"+t.name, into, store.server, hash, table, t.besides); err != nil {
				return err
			}
		}
		return nil
	})
}

// besides lets the trouble `t` hit the second of a run's two sinks, and measures the latency of the first one. The
// trouble begins once the first row is visible in the first sink, and ends with the run.
func (t trouble) besides(_ context.Context, s *liveSetup) error {
	s.sights = s.sights[:1]
	s.ready = func(ctx context.Context) error { return t.begin(ctx, s) }
	s.over = func(ctx context.Context) error { return t.end(ctx, s) }
	return nil
}
