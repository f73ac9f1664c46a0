package mysql

import (
	"context"
	"database/sql"

	"replicator"
)

// SetFewCells changes how many cells a key may have before it is a crowd.
func (s *Sink) SetFewCells(n int) { s.few = n }

// LookAtEachOpening makes a sink check its views' tables at every mark, however short ago the last check was.
func LookAtEachOpening(sink replicator.Sink) {
	switch sink := sink.(type) {
	case *Sink:
		sink.lastChecks.every = 0
	case *Sharded:
		for _, shard := range sink.shards {
			shard.lastChecks.every = 0
		}
	}
}

// Patience returns, for each idle connection, how many seconds it waits for other sessions' use of a table.
func (s *Sink) Patience(ctx context.Context) (seconds []int, err error) {
	for range s.db.Stats().Idle {
		var conn *sql.Conn
		if conn, err = s.db.Conn(ctx); err != nil {
			return nil, err
		}
		defer conn.Close()
		var patience int
		if err = conn.QueryRowContext(ctx, "SELECT @@lock_wait_timeout").Scan(&patience); err != nil {
			return nil, err
		}
		seconds = append(seconds, patience)
	}
	return seconds, nil
}
