package canal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"replicator"
)

const (
	// newestBatch bounds the cells of one statement: it is a SELECT for each, and all of them hold locks until it ends.
	newestBatch = 64

	// lockAttempts: a locking read loses every deadlock, having changed nothing.
	lockAttempts = 10
)

// connect gives a connection to the server that the reader reads; to no other one.
func (r *Reader) connect(ctx context.Context) (*sql.Conn, error) {
	conn, err := r.source.db.Conn(ctx)
	if err != nil {
		return nil, classify(err)
	}
	if err := r.server.sameServer(ctx, conn); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// Newest reads the newest row of each cell.
//
// What is in the binlog up to asOf may not be visible yet: both servers write the binlog first and commit then. But such a
// transaction holds its rows' locks until it is visible, so a locking read waits for it. A plain one would not.
func (r *Reader) Newest(ctx context.Context, cells []replicator.Cell) ([]*replicator.Row, int64, error) {
	conn, err := r.connect(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer conn.Close()
	file, pos, _, err := r.server.status(ctx, conn)
	if err != nil {
		return nil, 0, err
	}
	asOf := orderOf(r.place.epoch, file.number, pos)
	rows := make([]*replicator.Row, len(cells))
	byTable := map[string][]int{}
	for i, c := range cells {
		byTable[c.Table] = append(byTable[c.Table], i)
	}
	for name, wanted := range byTable {
		w := r.tables.byName[name]
		if w == nil {
			return nil, 0, replicator.Fatal(fmt.Errorf("table %s isn't configured", name))
		}
		x, err := newSelection(w)
		if err != nil {
			return nil, 0, err
		}
		for len(wanted) > 0 {
			n := min(len(wanted), newestBatch)
			if err := r.newest(ctx, conn, x, cells, wanted[:n], rows, asOf); err != nil {
				return nil, 0, err
			}
			wanted = wanted[n:]
		}
	}
	return rows, asOf, nil
}

// newest reads some cells of one table into rows.
func (r *Reader) newest(ctx context.Context, db querier, x *selection, cells []replicator.Cell, wanted []int, rows []*replicator.Row, asOf int64) error {
	var q strings.Builder
	var args []any
	for n, i := range wanted {
		where, values, err := x.cellCondition(cells[i])
		if err != nil {
			return err
		}
		if n > 0 {
			q.WriteString(" UNION ALL ")
		}
		fmt.Fprintf(&q, "(SELECT %d, %s FROM %s WHERE %s", n, x.list, x.from(), where)
		args = append(args, values...)
		if order := x.newestFirst(); order != "" {
			q.WriteString(" ORDER BY " + order)
		}
		q.WriteString(" LIMIT 1 " + r.server.shareLock() + ")")
	}
	var err error
	for range lockAttempts {
		if err = x.read(ctx, db, q.String(), args, func(n int, values [][]byte) error {
			row, err := x.row(values, asOf, time.Now())
			if err == nil && n >= 0 && n < len(wanted) {
				rows[wanted[n]] = row
			}
			return err
		}); !lostLock(err) {
			break
		}
	}
	return classify(err)
}

func lostLock(err error) bool {
	var e *mysqlError
	return errors.As(err, &e) && (e.Number == errnoDeadlock || e.Number == errnoLockWaitTimeout)
}

// shareLock is the clause of a locking read that needs no more than SELECT.
func (s server) shareLock() string {
	if s.flavor == mariaFlavor {
		return "LOCK IN SHARE MODE"
	}
	return "FOR SHARE"
}

// read runs a query whose first column is a number, and gives f the rest of each row.
func (x *selection) read(ctx context.Context, db querier, query string, args []any, f func(n int, values [][]byte) error) error {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	var n int
	raw := make([]sql.RawBytes, len(x.columns))
	into := []any{&n}
	values := make([][]byte, len(x.columns))
	for i := range raw {
		into = append(into, &raw[i])
	}
	return eachRow(rows, func() error {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		for i, b := range raw {
			values[i] = b
		}
		return f(n, values)
	})
}

// cellCondition is the condition that finds a cell's rows: by the index, and byte for byte.
func (x *selection) cellCondition(c replicator.Cell) (string, []any, error) {
	key, err := c.Key.Values()
	if err != nil || len(key) != len(x.key) {
		return "", nil, replicator.Fatal(fmt.Errorf("table %s: a cell's key has not the %d columns of the configuration; rebuild", x.t.Name, len(x.key)))
	}
	var parts []string
	var args []any
	equal := func(i int, v any) {
		col := &x.columns[i]
		placeholder, arg := col.argument(v)
		parts, args = append(parts, quoteName(col.name)+" = "+placeholder), append(args, arg)
		if text, ok := v.(string); ok && col.kind == kindText {
			// A collation takes "a", "A" and "a " for equal; they are different cells.
			parts = append(parts, "CAST(CONVERT("+quoteName(col.name)+" USING utf8mb4) AS BINARY) = ?")
			args = append(args, []byte(text))
		}
	}
	for n, i := range x.key {
		equal(i, key[n])
	}
	switch {
	case x.column < 0:
	case c.Column == "":
		name := quoteName(x.columns[x.column].name)
		parts = append(parts, "("+name+" IS NULL OR "+name+" = '')")
	default:
		equal(x.column, c.Column)
	}
	return strings.Join(parts, " AND "), args, nil
}

// newestFirst orders a cell's rows.
func (x *selection) newestFirst() string {
	if x.single {
		return ""
	}
	var order []string
	if x.version >= 0 {
		order = append(order, quoteName(x.columns[x.version].name)+" DESC")
	}
	if !x.distinct { // else MariaDB would sort, and lock, all versions of the cell
		for _, i := range x.offset {
			order = append(order, quoteName(x.columns[i].name)+" DESC")
		}
	}
	return strings.Join(order, ", ")
}
