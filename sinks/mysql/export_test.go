package mysql

import (
	"context"
	"database/sql"

	"replicator"
)

// SetFewCells changes how many cells a key may have before it is a crowd.
func (s *Sink) SetFewCells(n int) { s.few = n }

// LookAtEachOpening has a sink look at a view's table whenever that was opened, however short ago it did.
func LookAtEachOpening(sink replicator.Sink) {
	switch sink := sink.(type) {
	case *Sink:
		sink.looks.every = 0
	case *Sharded:
		for _, shard := range sink.shards {
			shard.looks.every = 0
		}
	}
}

// Patience is how many seconds each idle connection waits for others who use a table.
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
