package canal

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"replicator"
)

// newestBatch bounds the cells of one statement: it is a SELECT for each, and all of them may hold locks until it ends.
const newestBatch = 64

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

// Newest reads the newest row of each cell, as of the binlog's present end or a little later.
func (r *Reader) Newest(ctx context.Context, cells []replicator.Cell) ([]*replicator.Row, int64, error) {
	conn, err := r.connect(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer conn.Close()
	f, err := r.present(ctx, conn)
	if err != nil {
		return nil, 0, err
	}
	defer f.end()
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
			if err := x.newest(ctx, conn, f, cells, wanted[:n], rows); err != nil {
				return nil, 0, err
			}
			wanted = wanted[n:]
		}
	}
	return rows, f.low, nil
}

// newest reads some cells of one table into rows. Where somebody holds one of them, the others do not wait for it.
func (x *selection) newest(ctx context.Context, db querier, f *fence, cells []replicator.Cell, wanted []int, rows []*replicator.Row) error {
	query, args, err := x.newestQuery(f, cells, wanted)
	if err != nil {
		return err
	}
	once := func() error {
		return x.read(ctx, db, query, args, func(n int, values [][]byte) error {
			row, err := x.row(ctx, values, f.low, time.Now())
			if err == nil && n >= 0 && n < len(wanted) && row.Cell == cells[wanted[n]] { // else of a name that is another's now
				rows[wanted[n]] = row
			}
			return err
		})
	}
	if len(wanted) == 1 {
		return classify(untilFree(ctx, 1, func(int) error { return once() }))
	}
	if err = once(); !isHeld(err) {
		return classify(err)
	}
	half := len(wanted) / 2
	if err := x.newest(ctx, db, f, cells, wanted[:half], rows); err != nil {
		return err
	}
	return x.newest(ctx, db, f, cells, wanted[half:], rows)
}

func (x *selection) newestQuery(f *fence, cells []replicator.Cell, wanted []int) (query string, args []any, err error) {
	var q strings.Builder
	for n, i := range wanted {
		where, values, err := x.cellCondition(cells[i])
		if err != nil {
			return "", nil, err
		}
		if n > 0 {
			q.WriteString(" UNION ALL ")
		}
		fmt.Fprintf(&q, "(SELECT %d, %s FROM %s WHERE %s", n, x.list, x.from(), where)
		args = append(args, values...)
		if order := x.newestFirst(); order != "" {
			q.WriteString(" ORDER BY " + order)
		}
		q.WriteString(" LIMIT 1" + f.lock + ")")
	}
	return q.String(), args, nil
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

// likeLossy makes a pattern of a text in which a '?' may stand for any code that the server has no character for.
// The escape is '!', since not every character set has a backslash.
var likeLossy = strings.NewReplacer("?", "_", "_", "!_", "%", "!%", "!", "!!")

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
		compare := " = "
		if text, ok := v.(string); ok && col.lossy() && strings.Contains(text, "?") {
			compare, placeholder, arg = " LIKE ", placeholder+" ESCAPE '!'", likeLossy.Replace(text)
		}
		parts, args = append(parts, quoteName(col.name)+compare+placeholder), append(args, arg)
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
	case x.t.names != nil:
		placeholder, arg := x.columns[x.column].argument(c.Column)
		parts, args = append(parts, quoteName(x.columns[x.column].name)+" = "+placeholder), append(args, arg)
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
