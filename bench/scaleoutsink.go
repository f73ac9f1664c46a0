package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"replicator/internal/pause"
	"replicator/internal/servers"
)

// appliedSink is what members write to.
type appliedSink struct {
	server  *servers.Server                           // nil: it costs nothing
	prepare func(ctx context.Context) (string, error) // makes its part of a configuration
	check   func(ctx context.Context) error           // compares what it holds with the workload
	empty   func(ctx context.Context) error           // removes it
	end     func() error                              // gives up the connections
}

func (s *appliedSink) close() error {
	err := s.end()
	if s.server != nil {
		err = errors.Join(err, s.server.Close())
	}
	return err
}

// settled waits until the sink holds what it should. What was applied twice was counted twice, so something may be left
// to do when the count is full.
func (s *appliedSink) settled(ctx context.Context) error {
	for began := time.Now(); ; {
		err := s.check(ctx)
		if err == nil || time.Since(began) > timeout {
			return err
		}
		if err := pause.For(ctx, 250*time.Millisecond); err != nil {
			return err
		}
	}
}

// openSink starts the server of a sink.
func (x *stream) openSink(ctx context.Context, name string) (*appliedSink, error) {
	switch name {
	case redisSink:
		return x.redisSink(ctx)
	case mysqlSink:
		return x.mysqlSink(ctx)
	}
	none := func(context.Context) error { return nil }
	return &appliedSink{check: none, empty: none, end: func() error { return nil },
		prepare: func(context.Context) (string, error) {
			return "[sinks.main]\ntype = \"" + discardSink + "\"\n\n" + hashView, nil
		}}, nil
}

// redisSink keeps a hash for each entity.
func (x *stream) redisSink(ctx context.Context) (*appliedSink, error) {
	server, err := start(ctx, servers.Redis7, x.show.say)
	if err != nil {
		return nil, err
	}
	h, err := openHashes(server)
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return &appliedSink{server: server, end: h.close, empty: h.drop,
		prepare: func(ctx context.Context) (string, error) { return hashSink(server) + hashView, nil },
		check: func(ctx context.Context) error {
			_, err := h.verify(ctx, x.workload, x.cells)
			return err
		}}, nil
}

// mysqlSink keeps an index table.
func (x *stream) mysqlSink(ctx context.Context) (*appliedSink, error) {
	server, err := start(ctx, x.o.kind, x.show.say)
	if err != nil {
		return nil, err
	}
	db, err := open(server)
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	database := ""
	return &appliedSink{server: server, end: db.Close,
		prepare: func(ctx context.Context) (string, error) {
			database = fmt.Sprintf("run%d", x.runs)
			return fmt.Sprintf("[sinks.main]\ntype = \"mysql\"\ndsn = %q\n", server.DSN(database)) +
				usersEmail.view("cell.users", "main"), create(ctx, db, database, usersEmail.ddl())
		},
		check: func(ctx context.Context) error {
			_, err := usersEmail.verify(ctx, db, database, x.workload, x.cells)
			return err
		},
		empty: func(ctx context.Context) error {
			_, err := db.ExecContext(ctx, "DROP DATABASE "+database)
			return err
		}}, nil
}
