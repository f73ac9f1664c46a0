package canal

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"replicator"
	"replicator/internal/sqlname"
)

// join reads the joined rows of the given rows (Table.Lookups) into Row.Joined. f is the fence after which the given
// rows were read.
func (r *Reader) join(ctx context.Context, conn *sql.Conn, f *fence, t *watched, rows []*replicator.Row) error {
	for _, row := range rows {
		if len(t.Lookups) > 0 && row != nil {
			row.Joined = make(map[string][]*replicator.Row, len(t.Lookups))
		}
	}
	for i := range t.Lookups {
		l := &t.Lookups[i]
		j, err := r.newJoining(t, l)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if row == nil {
				continue
			}
			if err := j.add(row); err != nil {
				return err
			}
		}
		if err := j.read(ctx, conn, f); err != nil {
			return err
		}
	}
	return nil
}

// beginSnapshot makes all reads see the tables and their joined tables at one moment, until end is called. It opens all
// tables first, so that no table can be renamed before everything is read.
//
// With a fence that locks rows there is no snapshot, because locking reads always return the newest rows.
func (r *Reader) beginSnapshot(ctx context.Context, conn *sql.Conn, f *fence, of ...*watched) (end func(), err error) {
	if f.lock != "" {
		return func() {}, nil
	}
	begin := []string{"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION"}
	for _, t := range of {
		for _, name := range append([]string{t.Name}, t.lookedUp()...) {
			if w := r.tables.first(name); w != nil {
				begin = append(begin, fmt.Sprintf("SELECT 1 FROM %s.%s WHERE FALSE", sqlname.Quote(w.Database),
					sqlname.Quote(w.Table.Table)))
			}
		}
	}
	for _, q := range begin {
		if _, err := conn.ExecContext(ctx, q); err != nil {
			_ = commit(ctx, conn)
			return nil, classify(err)
		}
	}
	return func() { _ = commit(ctx, conn) }, nil
}

func (t *watched) lookedUp() (tables []string) {
	for _, l := range t.Lookups {
		if l.Table != t.Name && !slices.Contains(tables, l.Table) {
			tables = append(tables, l.Table)
		}
	}
	return tables
}

func sizeOf(rows []*replicator.Row) (size int64) {
	for _, row := range rows {
		if row != nil {
			size += row.Size()
		}
	}
	return size
}

// joinedChunk records where a chunk of a scan can be cut, if its rows and their joined rows take too many bytes.
type joinedChunk struct {
	next   []string // for each row: the offset after it, which becomes Chunk.Next if that row is the last
	passed []int    // for each row: how many rows the scan passed up to it (Chunk.Passed)
}

func (c *joinedChunk) note(next string, passed int) {
	if c != nil {
		c.next, c.passed = append(c.next, next), append(c.passed, passed)
	}
}

// join reads the joined rows of a chunk's rows: first for one row, then for more and more at a time. It cuts the chunk
// when the rows read so far, with their joined rows, have at least the given number of bytes; 0 means never.
func (c *joinedChunk) join(chunk *replicator.Chunk, bytes int64, join func([]*replicator.Row) error) error {
	size := int64(0)
	for from, n := 0, 1; from < len(chunk.Rows); n = min(2*n, newestBatch) {
		to := min(from+n, len(chunk.Rows))
		if err := join(chunk.Rows[from:to]); err != nil {
			return err
		}
		size += sizeOf(chunk.Rows[from:to])
		if from = to; bytes > 0 && size >= bytes && to < len(chunk.Rows) {
			chunk.Rows, chunk.Next, chunk.Passed, chunk.Done = chunk.Rows[:to], c.next[to-1], c.passed[to-1], false
			return nil
		}
	}
	return nil
}

// joining runs one lookup (the read of one joined table) for some rows.
type joining struct {
	tables tables
	table  *watched // the table whose rows get joined rows
	lookup *replicator.Lookup
	x      *selection
	on     []*selected // the columns of the joined table that On compares
	order  []string

	wanted [][]any                   // the combinations of values by which to look up joined rows, each once
	at     map[replicator.Key]int    // the index in `wanted` of each combination, encoded as a Key
	rows   map[int][]*replicator.Row // by index in wanted: the rows to join that have this combination of values
}

func (r *Reader) newJoining(table *watched, l *replicator.Lookup) (*joining, error) {
	x, err := r.selection(l.Table)
	if err != nil {
		return nil, err
	}
	j := &joining{
		tables: r.tables, table: table, lookup: l, x: x, at: map[replicator.Key]int{}, rows: map[int][]*replicator.Row{},
	}
	for _, on := range l.On {
		c, err := x.t.joinedBy(on.Column)
		if err != nil {
			return nil, err
		}
		j.on = append(j.on, c)
	}
	for _, name := range slices.Concat(l.Order, x.t.Key) {
		column, falls := strings.CutPrefix(name, "-")
		by := sqlname.Quote(column)
		if falls {
			by += " DESC"
		}
		j.order = append(j.order, by)
	}
	return j, nil
}

func (t *watched) joinedBy(name string) (*selected, error) {
	c := t.schema.Load().column(name)
	if c == nil {
		return nil, t.limitToViews(name, t.fatal(fmt.Errorf("table %s has no column %s, which a join uses. The table was "+
			"altered, or the configuration is wrong", t.Name, name)))
	}
	s := newSelected(c)
	return &s, nil
}

// add takes from a row the values by which to look up its joined rows. If one of them is NULL, the row gets no joined
// rows.
func (j *joining) add(row *replicator.Row) error {
	values := make([]any, len(j.lookup.On))
	for i, on := range j.lookup.On {
		from := row
		if on.From != "" {
			some := row.Joined[on.From]
			if len(some) == 0 {
				return nil
			}
			from = some[0]
		}
		var err error
		if values[i], err = j.tables.columnOf(from, on.Path); err != nil || values[i] == nil {
			return err
		}
	}
	key, err := replicator.MakeKey(values...)
	if err != nil {
		return j.table.fatal(fmt.Errorf("table %s: a row has a value by which it can't be joined with rows of %s: %w",
			j.table.Name, j.lookup.Table, err))
	}
	at, known := j.at[key]
	if !known {
		at = len(j.wanted)
		j.at[key], j.wanted = at, append(j.wanted, values)
	}
	j.rows[at] = append(j.rows[at], row)
	return nil
}

// columnOf returns a row's value of a column; nil if the value is NULL, or if the row lacks the column.
func (t tables) columnOf(row *replicator.Row, name string) (any, error) {
	i := slices.IndexFunc(row.Names, func(n string) bool { return strings.EqualFold(n, name) })
	if i >= 0 {
		return row.Columns[i], nil
	}
	w := t.first(row.Cell.Table)
	if w == nil {
		return nil, nil
	}
	if strings.EqualFold(name, w.Column) {
		return cmp.Or(row.ColumnAs, row.Cell.Column), nil
	}
	i = slices.IndexFunc(w.Key, func(n string) bool { return strings.EqualFold(n, name) })
	if i < 0 {
		return nil, nil
	}
	key, err := row.Cell.Key.Values()
	if err != nil || i >= len(key) {
		return nil, err
	}
	return key[i], nil
}

// read reads the joined rows of all rows that were added. If another session has locked a row, it reads fewer rows at a
// time until the row is unlocked.
func (j *joining) read(ctx context.Context, conn *sql.Conn, f *fence) error {
	for from := 0; from < len(j.wanted); {
		to := 0
		err := untilFree(ctx, f.atMost(1, newestBatch), func(n int) error {
			to = min(from+n, len(j.wanted))
			return j.readSome(ctx, conn, f, from, to)
		})
		if err != nil {
			return classify(err)
		}
		from = to
	}
	return nil
}

func (j *joining) readSome(ctx context.Context, conn *sql.Conn, f *fence, from, to int) error {
	var q strings.Builder
	var args []any
	for n := from; n < to; n++ {
		if n > from {
			q.WriteString(" UNION ALL ")
		}
		fmt.Fprintf(&q, "(SELECT %d, %s FROM %s WHERE ", n, j.x.list, j.x.from())
		for i, c := range j.on {
			placeholder, arg := c.argument(j.wanted[n][i])
			fmt.Fprintf(&q, "%s = %s AND ", sqlname.Quote(c.Name), placeholder)
			args = append(args, arg)
		}
		fmt.Fprintf(&q, "%s ORDER BY %s LIMIT %d%s)", j.x.isNewest(), strings.Join(j.order, ", "), j.atMost(), f.lock)
	}
	found := make(map[int][]*replicator.Row, to-from)
	now := time.Now()
	err := j.x.read(ctx, conn, q.String(), args, func(n int, values [][]byte) error {
		row, err := j.x.row(ctx, values, f.low, now)
		if err == nil {
			found[n] = append(found[n], row)
		}
		return err
	})
	if err != nil {
		return err
	}
	for n := from; n < to; n++ {
		for _, row := range j.rows[n] {
			row.Joined[j.lookup.ID] = found[n]
		}
	}
	return nil
}

// atMost returns how many joined rows to read for one row. Without a smaller limit, it is one more than the allowed
// number, so that too many rows are noticed.
func (j *joining) atMost() int {
	switch {
	case !j.lookup.Many:
		return 1
	case j.lookup.Limit > 0:
		return min(j.lookup.Limit, replicator.MaxJoined+1)
	}
	return replicator.MaxJoined + 1
}

// isNewest returns the SQL condition that a row is the newest of its cell.
func (x *selection) isNewest() string {
	if x.single {
		return "TRUE"
	}
	// The outer table has no alias, because the select list and other conditions name its columns without an alias.
	own := sqlname.Quote(x.t.Database) + "." + sqlname.Quote(x.t.Table.Table) + "."
	newer, older := "`newer`.", own
	var same []string
	for _, i := range x.key {
		name := sqlname.Quote(x.columns[i].Name)
		same = append(same, newer+name+" = "+older+name)
	}
	if x.column >= 0 {
		name := sqlname.Quote(x.columns[x.column].Name)
		same = append(same, newer+name+" <=> "+older+name)
	}
	version := sqlname.Quote(x.columns[x.version].Name)
	after := newer + version + " > " + older + version
	if !x.distinct {
		equal := []string{newer + version + " = " + older + version}
		for _, i := range x.offset {
			name := sqlname.Quote(x.columns[i].Name)
			after += " OR " + strings.Join(append(slices.Clone(equal), newer+name+" > "+older+name), " AND ")
			equal = append(equal, newer+name+" = "+older+name)
		}
	}
	return "NOT EXISTS (SELECT 1 FROM " + strings.TrimSuffix(own, ".") + " AS `newer` WHERE " + strings.Join(same, " AND ") +
		" AND (" + after + "))"
}
