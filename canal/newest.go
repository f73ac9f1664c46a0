package canal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"replicator"
	"replicator/canal/binlog"
	"replicator/internal/sqlname"
)

// newestBatch is the most cells in one statement. The statement has a SELECT for each cell, and may hold the locks of
// all their rows until it ends.
const newestBatch = 64

// connect returns a connection to the server whose binlog the reader reads. It fails if the address leads to another
// server.
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

// Newest implements replicator.Reader. It reads the newest rows of the cells, in the given order, until the rows have
// the given number of bytes (0: no limit). The rows include every change up to the binlog's current end.
func (r *Reader) Newest(ctx context.Context, cells []replicator.Cell, bytes int64) ([]*replicator.Row, int64, error) {
	conn, err := r.connect(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer conn.Close()
	f, err := r.present(ctx, conn)
	if err != nil {
		return nil, 0, err
	}
	joined := r.joined(cells)
	if len(joined) > 0 {
		end, err := r.beginSnapshot(ctx, conn, f, joined...)
		if err != nil {
			return nil, 0, err
		}
		defer end()
	}
	l := &look{fence: f, cells: cells, rows: make([]*replicator.Row, len(cells)), bytes: bytes}
	for l.done < len(cells) && !l.full() {
		n := min(f.atMost(1, newestBatch), len(cells)-l.done)
		switch size := r.rowSize.Load(); {
		case bytes == 0:
		case size > 0:
			n = int(min(int64(n), max((bytes-l.size)/size, 1)))
		case len(joined) > 0: // read one row first, because it may have ten thousand joined rows
			n = 1
		}
		for err = r.lookAt(ctx, conn, l, n); errors.Is(err, errChunkFull) && n > 1; err = r.lookAt(ctx, conn, l, n) {
			n = max(min(l.read, n/2), 1)
		}
		if err != nil {
			return nil, 0, err
		}
		if l.read > 0 {
			r.rowSize.Store(max(l.taken/int64(l.read), 1))
		}
		l.done, l.size, l.taken = l.done+n, l.size+l.taken, 0
	}
	_, err = r.endOfRead(ctx, conn)
	return l.rows[:l.done], f.low, err
}

// look is one call of Newest. It collects the newest rows of cells until they have enough bytes.
type look struct {
	fence *fence
	cells []replicator.Cell
	rows  []*replicator.Row
	done  int   // how many cells, counted from the first, are completely read
	size  int64 // the total size of the rows of the cells counted in `done`
	bytes int64 // the total size at which the call stops; 0: read all cells

	// For the cells of the current query:
	read  int   // the number of rows read
	taken int64 // the total size of the rows read
}

func (l *look) full() bool { return l.bytes > 0 && l.size+l.taken >= l.bytes }

func (l *look) put(i int, row *replicator.Row) {
	l.rows[i] = row
	l.read, l.taken = l.read+1, l.taken+row.Size()
}

func (l *look) drop(i int) {
	if row := l.rows[i]; row != nil {
		l.rows[i] = nil
		l.read, l.taken = l.read-1, l.taken-row.Size()
	}
}

// lookAt reads the rows of the next n cells. It fails with errChunkFull if the wanted size is reached before the last
// row: a UNION's rows have no order, so it is unclear which cells are complete. The caller then reads all n cells
// again, fewer at a time.
func (r *Reader) lookAt(ctx context.Context, conn *sql.Conn, l *look, n int) error {
	clear(l.rows[l.done:])
	l.read, l.taken = 0, 0
	byTable := map[string][]int{}
	for i := l.done; i < l.done+n; i++ {
		byTable[l.cells[i].Table] = append(byTable[l.cells[i].Table], i)
	}
	for name, wanted := range byTable {
		if p := r.tables.pattern(name); p != nil {
			if err := r.newestOfSeveral(ctx, conn, l, p, wanted); err != nil {
				return err
			}
			continue
		}
		x, err := r.selection(name)
		if err != nil {
			return err
		}
		if err := x.newest(ctx, conn, l, wanted); err != nil {
			return err
		}
		if err := r.joinLook(ctx, conn, l, x.t, wanted); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reader) joined(cells []replicator.Cell) (tables []*watched) {
	for _, c := range cells {
		if w := r.tables.first(c.Table); w != nil && len(w.Lookups) > 0 && !slices.Contains(tables, w) {
			tables = append(tables, w)
		}
	}
	return tables
}

func (r *Reader) joinLook(ctx context.Context, conn *sql.Conn, l *look, t *watched, wanted []int) error {
	if len(t.Lookups) == 0 {
		return nil
	}
	rows := make([]*replicator.Row, len(wanted))
	for n, i := range wanted {
		rows[n] = l.rows[i]
	}
	l.taken -= sizeOf(rows)
	if err := r.join(ctx, conn, l.fence, t, rows); err != nil {
		return err
	}
	l.taken += sizeOf(rows)
	return nil
}

// newest reads some cells of one table. If another session has locked a row, it waits only for that row.
func (x *selection) newest(ctx context.Context, db querier, l *look, wanted []int) error {
	query, args, err := x.newestQuery(l.fence, l.cells, wanted)
	if err != nil {
		return err
	}
	once := func() error {
		for _, i := range wanted {
			l.drop(i)
		}
		return x.read(ctx, db, query, args, func(n int, values [][]byte) error {
			if l.full() {
				return errChunkFull
			}
			row, err := x.row(ctx, values, l.fence.low, time.Now())
			// Skip the row if it belongs to another cell: then its key was changed after the statement began.
			if err == nil && n >= 0 && n < len(wanted) && row.Cell == l.cells[wanted[n]] {
				l.put(wanted[n], row)
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
	if err := x.newest(ctx, db, l, wanted[:half]); err != nil {
		return err
	}
	return x.newest(ctx, db, l, wanted[half:])
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

// read runs a query whose first column is a number, and calls f with that number and the rest of each row.
func (x *selection) read(ctx context.Context, db querier, query string, args []any,
	f func(n int, values [][]byte) error) error {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return x.t.classify(err)
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

// likeLossy turns a text into a LIKE pattern in which '?' matches any character, because the server returns '?' for
// codes that have no character. The escape is '!', because not every character set has a backslash.
var likeLossy = strings.NewReplacer("?", "_", "_", "!_", "%", "!%", "!", "!!")

// cellCondition returns the SQL condition for a cell's rows. The condition compares each text of the key twice: as the
// column does, for which the server can use an index, and by its bytes. It does not compare bytes if a cell's rows may
// have keys with different bytes that the server treats as equal (mixed).
func (x *selection) cellCondition(c replicator.Cell) (string, []any, error) {
	key, err := c.Key.Values()
	if err != nil {
		return "", nil, x.t.fatal(fmt.Errorf("table %s: a cell's key: %w", x.t.Name, err))
	}
	// The sink may hold cells with an older form of the key, from before the configuration changed. The table has no
	// rows for these cells.
	if len(key) != len(x.key) {
		return "FALSE", nil, nil
	}
	var parts []string
	var args []any
	equal := func(i int, v any) {
		col := &x.columns[i]
		if col.literal != "" {
			parts, args = append(parts, col.literal+" = ?"), append(args, v)
			return
		}
		placeholder, arg := col.argument(v)
		compare := " = "
		like := false
		if text, ok := v.(string); ok && col.lossy() && strings.Contains(text, "?") {
			compare, placeholder, arg, like = " LIKE ", placeholder+" ESCAPE '!'", likeLossy.Replace(text), true
		}
		parts, args = append(parts, sqlname.Quote(col.Name)+compare+placeholder), append(args, arg)
		if text, ok := v.(string); ok && col.kind == binlog.KindText && (like || !x.mixed()) {
			// Compare the bytes, too: a LIKE pattern also matches other texts, and = also finds "A" for "a".
			parts = append(parts, col.bytes()+" = ?")
			args = append(args, []byte(text))
		}
	}
	for n, i := range x.key {
		equal(i, key[n])
	}
	switch {
	case x.column < 0:
	case c.Column == "":
		name := sqlname.Quote(x.columns[x.column].Name)
		parts = append(parts, "("+name+" IS NULL OR "+name+" = '')")
	case x.t.names != nil:
		placeholder, arg := x.columns[x.column].argument(c.Column)
		parts, args = append(parts, sqlname.Quote(x.columns[x.column].Name)+" = "+placeholder), append(args, arg)
	default:
		equal(x.column, c.Column)
	}
	return strings.Join(parts, " AND "), args, nil
}

func (x *selection) newestFirst() string {
	if x.single {
		return ""
	}
	order := []string{sqlname.Quote(x.columns[x.version].Name) + " DESC"}
	if !x.distinct { // if versions are distinct, more columns would only make MariaDB sort and lock all rows of a cell
		for _, i := range x.offset {
			order = append(order, sqlname.Quote(x.columns[i].Name)+" DESC")
		}
	}
	return strings.Join(order, ", ")
}
