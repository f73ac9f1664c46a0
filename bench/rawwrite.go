package main

import (
	"context"
	"database/sql"
	"fmt"
)

// batchRows is how many rows a raw write has: more make it hardly faster.
const batchRows = 800

// entry is a row of the email index.
type entry struct {
	email string
	key   []byte
}

// rawWrites puts the final rows of the email index into a table of the same shape, as fast as one and two connections
// can, and moves every entry once: the least that a sink costs.
func (l *lab) rawWrites(ctx context.Context) error {
	const database = "raw"
	index := oneView()[0]
	if err := create(ctx, l.sinkDB, database, index.ddl); err != nil {
		return err
	}
	entries := l.finalEntries()
	name := database + "." + index.name
	for _, s := range []struct {
		stage, what string
		connections int
		write       func(ctx context.Context, conn *sql.Conn, table string, entries []entry) error
	}{
		{rawInsertStage, fmt.Sprintf("INSERT of the email index's final rows by %d, 1 connection",
			batchRows), 1, insertEntries},
		{rawMoveStage, fmt.Sprintf("DELETE and INSERT of all of them by %d, 1 connection", batchRows), 1, moveEntries},
		{rawInsert2Stage, fmt.Sprintf("INSERT of them by %d, 2 connections", batchRows), 2, insertEntries},
	} {
		if s.stage != rawMoveStage { // which wants them to be there
			if _, err := l.sinkDB.ExecContext(ctx, "TRUNCATE TABLE "+name); err != nil {
				return err
			}
		}
		bar := l.show.bar(s.what, len(entries))
		took, err := l.measure(func() error {
			return batches(ctx, l.sinkDB, s.connections, len(entries), batchRows,
				func(ctx context.Context, conn *sql.Conn, from, to int) error {
					bar.add(to - from)
					return s.write(ctx, conn, name, entries[from:to])
				})
		})
		bar.done()
		if err != nil {
			return err
		}
		l.add(result{Stage: s.stage, What: s.what, Unit: "row", Units: len(entries)}, took)
	}
	_, err := l.sinkDB.ExecContext(ctx, "DROP DATABASE "+database)
	return err
}

// finalEntries are the rows that the email index holds in the end, made beforehand: that they are computed is no part
// of a sink's cost.
func (l *lab) finalEntries() []entry {
	var entries []entry
	for _, number := range l.workload.newest(l.cells) {
		if number >= 0 {
			u := l.workload.user(l.workload.at(number))
			entries = append(entries, entry{u.email, u.key[:]})
		}
	}
	return entries
}

// insertEntries writes entries in one statement.
func insertEntries(ctx context.Context, conn *sql.Conn, table string, entries []entry) error {
	args := make([]any, 0, 2*len(entries))
	for _, e := range entries {
		args = append(args, e.email, e.key)
	}
	_, err := conn.ExecContext(ctx, "INSERT INTO "+table+" (email, row_key) VALUES "+list("(?, ?)", len(entries)), args...)
	return err
}

// moveEntries gives entries another value, in one transaction.
func moveEntries(ctx context.Context, conn *sql.Conn, table string, entries []entry) error {
	remove := make([]any, 0, len(entries))
	insert := make([]any, 0, 2*len(entries))
	for _, e := range entries {
		remove = append(remove, e.key)
		insert = append(insert, e.email[1:], e.key)
	}
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if _, err := tx.ExecContext(ctx, "DELETE FROM "+table+" WHERE row_key IN ("+list("?", len(entries))+")",
		remove...); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO "+table+" (email, row_key) VALUES "+list("(?, ?)", len(entries)),
		insert...); err != nil {
		return err
	}
	return tx.Commit()
}
