package main

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
)

// sourceDatabase is the source database of the stages that write their rows in advance.
const sourceDatabase = "jogchat"

// prepare writes the rows, several in each transaction, over two connections.
func (l *lab) prepare(ctx context.Context) error {
	if err := create(ctx, l.sourceDB, sourceDatabase, cellDDL); err != nil {
		return err
	}
	return l.writeCells(ctx, 0, l.cells)
}

func (l *lab) writeCells(ctx context.Context, first, end int) error {
	defer l.show.begin("writing the cells")()
	return batches(ctx, l.sourceDB, 2, end-first, l.tx, func(ctx context.Context, conn *sql.Conn, from, to int) error {
		return l.workload.insert(ctx, conn, sourceDatabase, first+from, first+to)
	})
}

// insert writes a range of the workload's rows in one statement.
func (w *workload) insert(ctx context.Context, conn *sql.Conn, database string, from, to int) error {
	args := make([]any, 0, 3*(to-from))
	bodies := make([]byte, 0, (to-from)*(w.body+64))
	for n := from; n < to; n++ {
		c := w.at(n)
		key := w.key(c.entity)
		start := len(bodies)
		bodies = w.appendBody(bodies, c)
		args = append(args, key[:], c.ref, bodies[start:])
	}
	_, err := conn.ExecContext(ctx, "INSERT INTO "+database+".cell (row_key, column_name, ref_key, body) VALUES "+
		list("(?, 'users', ?, ?)", to-from), args...)
	return err
}

func list(element string, n int) string {
	return strings.Repeat(element+", ", n-1) + element
}

// batches splits total into ranges of the given size and calls f for each, on several connections at once.
func batches(ctx context.Context, db *sql.DB, connections, total, size int,
	f func(ctx context.Context, conn *sql.Conn, from, to int) error) error {
	return together(ctx, connections, func(ctx context.Context, worker int) error {
		return connected(ctx, db, func(conn *sql.Conn) error {
			return ranges(worker, connections, total, size, func(from, to int) error { return f(ctx, conn, from, to) })
		})
	})
}

// together runs workers at once. When one worker fails, the other workers' context ends.
func together(ctx context.Context, workers int, f func(ctx context.Context, worker int) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			if errs[i] = f(ctx, i); errs[i] != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// ranges splits total into ranges of this size. It calls f for every workers-th range, beginning with the range whose
// number is worker.
func ranges(worker, workers, total, size int, f func(from, to int) error) error {
	for from := worker * size; from < total; from += workers * size {
		if err := f(from, min(from+size, total)); err != nil {
			return err
		}
	}
	return nil
}

// connected calls f with its own connection.
func connected(ctx context.Context, db *sql.DB, f func(conn *sql.Conn) error) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	return errors.Join(f(conn), conn.Close())
}
