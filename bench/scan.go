package main

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"
)

// The raw limits of a scan: what the source gives, and what the sink takes.
const (
	selectStage = "scan-select"
	loadStage   = "scan-load"
)

// selectRows is how many rows a chunk of the raw scan has.
const selectRows = 16_000

// scan measures what it costs to scan the cells into one index table, and into five in one scan.
func (l *lab) scan(ctx context.Context) error {
	reading, err := l.selectChunks(ctx)
	if err != nil {
		return err
	}
	var one time.Duration
	for _, tables := range [][]table{oneView(), allViews()[:5]} {
		n := len(tables)
		loading, err := l.loadTables(ctx, tables)
		if err != nil {
			return err
		}
		what := fmt.Sprintf("the program: a scan of the table into %d index table%s", n, plural(n))
		took, rows, err := l.runProgram(ctx, "snapshot", what, tables)
		if err != nil {
			return err
		}
		if n == 1 {
			one = took.wall
		} else {
			what += fmt.Sprintf(", in %.1f × the time of 1", took.wall.Seconds()/one.Seconds())
		}
		slower, limit := selectStage, reading
		if loading > limit {
			slower, limit = fmt.Sprintf("%s-%d", loadStage, n), loading
		}
		l.add(result{
			Stage: fmt.Sprintf("scan-%d", n), What: what, Unit: "cell", Units: l.cells, Checked: rows,
			Raw: slower, OfRaw: limit.Seconds() / took.wall.Seconds(),
		}, took)
	}
	return nil
}

// selectChunks selects what the program needs of every cell, in chunks along the offset, and decodes nothing.
func (l *lab) selectChunks(ctx context.Context) (time.Duration, error) {
	what := fmt.Sprintf("SELECT of every cell by %d", selectRows)
	bar := l.show.bar(what, l.cells)
	defer bar.done()
	query := fmt.Sprintf("SELECT added_at, row_key, column_name, ref_key, body FROM %s.cell WHERE added_at > ? ORDER BY added_at LIMIT %d",
		sourceDatabase, selectRows)
	took, err := l.measure(func() error {
		var last int64
		for n, more := 0, true; more; {
			before := n
			rows, err := l.sourceDB.QueryContext(ctx, query, last)
			if err != nil {
				return err
			}
			var key, column, ref, body sql.RawBytes
			for rows.Next() {
				if err := rows.Scan(&last, &key, &column, &ref, &body); err != nil {
					return err
				}
				n++
			}
			if err := rows.Err(); err != nil {
				return err
			}
			bar.add(n - before)
			if more = n-before == selectRows; !more && n != l.cells {
				return fmt.Errorf("the source holds %d cells, not %d", n, l.cells)
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	l.add(result{Stage: selectStage, What: what, Unit: "cell", Units: l.cells}, took)
	return took.wall, nil
}

// loadTables inserts the final rows of the tables, one table after the other over one connection.
func (l *lab) loadTables(ctx context.Context, tables []table) (time.Duration, error) {
	const database = "loaded"
	var ddl []string
	for _, t := range tables {
		ddl = append(ddl, t.ddl)
	}
	if err := create(ctx, l.sinkDB, database, ddl...); err != nil {
		return 0, err
	}
	var users []user
	for _, number := range l.workload.newest(l.cells) {
		if number >= 0 {
			users = append(users, l.workload.user(l.workload.at(number)))
		}
	}
	what := fmt.Sprintf("INSERT of their final rows by %d into %d table%s, 1 connection", batchRows,
		len(tables), plural(len(tables)))
	bar := l.show.bar(what, len(tables)*len(users))
	took, err := l.measure(func() error {
		return connected(ctx, l.sinkDB, func(conn *sql.Conn) error {
			for _, t := range tables {
				for from := 0; from < len(users); from += batchRows {
					to := min(from+batchRows, len(users))
					if err := t.insert(ctx, conn, database, users[from:to]); err != nil {
						return err
					}
					bar.add(to - from)
				}
			}
			return nil
		})
	})
	bar.done()
	if err != nil {
		return 0, err
	}
	l.add(result{Stage: fmt.Sprintf("%s-%d", loadStage, len(tables)), What: what, Unit: "row",
		Units: len(tables) * len(users)}, took)
	_, err = l.sinkDB.ExecContext(ctx, "DROP DATABASE "+database)
	return took.wall, err
}

// insert writes the rows of users in one statement.
func (t *table) insert(ctx context.Context, conn *sql.Conn, database string, users []user) error {
	args := make([]any, 0, (len(t.fields)+1)*len(users))
	for _, u := range users {
		for _, v := range t.row(u) {
			args = append(args, []byte(v)) // some are bytes
		}
		args = append(args, u.key[:])
	}
	_, err := conn.ExecContext(ctx, "INSERT INTO "+database+"."+t.name+" ("+strings.Join(t.fields,
		", ")+", "+t.key+") VALUES "+
		list("("+list("?", len(t.fields)+1)+")", len(users)), args...)
	return err
}
