package canal

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"replicator"
	"replicator/canal/binlog"
	"replicator/internal/sqlname"
)

// If a table has many rows per cell, views show only the newest of them. An index may hold a cell's versions side by
// side. Then a scan walks along that index, and reads only the newest rows by their primary keys.
//
// This package finds the newest version by itself, in the same order as the reader of the binlog. In SQL, NOT EXISTS (a
// newer version) would take ten times as long.
//
// It is safe to skip older versions. One of them can become the newest only by a delete, after which the reader of the
// binlog re-reads the cell.

// versionWalk selects columns of such an index, in the order of its entries: the columns that identify a cell, the
// version, and the primary key.
type versionWalk struct {
	*selection
	primary []int // the indexes of the primary key's columns in `columns`
}

// versions returns the walk along an index that holds a cell's versions side by side; nil if the table has no such
// index. It is also nil if rows of a cell may have equal versions: then the offset decides which row is the newest, and
// the index doesn't contain the offset.
func (x *selection) versions() *versionWalk {
	if x.single || !x.distinct || len(x.shape.primary) == 0 {
		return nil
	}
	cell := slices.Clone(x.t.Key)
	if x.t.Column != "" && !containsFold(cell, x.t.Column) {
		cell = append(cell, x.t.Column)
	}
	for _, index := range x.shape.ordered {
		columns := append(slices.Clone(index.columns), x.shape.primary...) // InnoDB appends the primary key to every index
		n := len(cell)
		if len(columns) > n && subset(cell, columns[:n]) && strings.EqualFold(columns[n], x.t.Version) {
			return x.walk(index.name, columns[:n+1])
		}
	}
	return nil
}

// walk returns the walk along the named index, in the order of the given columns. It returns nil if one of these
// columns is an ENUM or a SET, because the server sorts such columns by number but compares them as text.
func (x *selection) walk(index string, columns []string) *versionWalk {
	w := &versionWalk{selection: &selection{t: x.t, shape: x.shape, roles: noRoles(),
		hint: " FORCE INDEX (" + sqlname.Quote(index) + ")"}}
	var list []string
	add := func(c selected) int {
		if i := slices.IndexFunc(w.columns, func(o selected) bool { return o.Name == c.Name && o.raw == c.raw }); i >= 0 {
			return i
		}
		w.columns, list = append(w.columns, c), append(list, c.expression())
		return len(w.columns) - 1
	}
	at := func(name string) int { return add(newSelected(x.shape.column(name))) }
	place := func(i int) int { return add(w.columns[i].place()) }
	for _, name := range columns {
		i := at(name)
		if k := w.columns[i].kind; k == binlog.KindEnum || k == binlog.KindSet {
			return nil
		}
		w.offset = append(w.offset, place(i))
	}
	for _, name := range x.t.Key {
		w.key = append(w.key, at(name))
	}
	if x.t.Column != "" {
		w.column = at(x.t.Column)
	}
	w.version = at(x.t.Version)
	for _, name := range x.shape.primary {
		w.primary = append(w.primary, place(at(name)))
	}
	w.list = strings.Join(list, ", ")
	return w
}

// version is one entry of the index that a walk reads: a row's version, with the row's key.
type version struct {
	values [][]byte
	number int64
	place  int // the number of the entry, counted from the first entry that the walk read
}

func (v *version) set(values [][]byte, number int64, place int) {
	if v.values == nil {
		v.values = make([][]byte, len(values))
	}
	for i, b := range values {
		if b == nil {
			v.values[i] = nil
			continue
		}
		v.values[i] = append(v.values[i][:0], b...)
		if v.values[i] == nil {
			v.values[i] = []byte{} // empty, not NULL
		}
	}
	v.number, v.place = number, place
}

// sameCell reports whether two entries of the index certainly belong to one cell: their keys are the same bytes.
func (w *versionWalk) sameCell(a, b [][]byte) bool {
	same := func(i int) bool { return a[i] != nil && b[i] != nil && string(a[i]) == string(b[i]) }
	for _, i := range w.key {
		if !same(i) {
			return false
		}
	}
	return w.column < 0 || same(w.column)
}

// newest reads entries of the index with a query. It returns the newest version of each cell, in the order of the
// index. It also returns the last entry that was read, after which the scan continues.
func (w *versionWalk) newest(ctx context.Context, db querier, query string, args []any,
	columns []string) (found []*version, last version, err error) {
	cells := map[replicator.Cell]*version{}
	var best *version
	err = w.read(ctx, db, query, args, func(_ int, values [][]byte) error {
		if best == nil || !w.sameCell(last.values, values) {
			row, err := w.row(ctx, values, 0, time.Time{})
			if err != nil {
				return err
			}
			if best = cells[row.Cell]; best == nil {
				best = &version{}
				cells[row.Cell] = best
				if len(columns) == 0 || slices.Contains(columns, row.Cell.Column) {
					found = append(found, best)
				}
			}
		}
		// If the version is invalid, `number` is the valid one by which the reader of the binlog ranks the row.
		number, _ := w.columns[w.version].version(values[w.version])
		last.set(values, number, last.place+1)
		if best.values == nil || number >= best.number {
			best.set(values, number, last.place)
		}
		return nil
	})
	slices.SortFunc(found, func(a, b *version) int { return cmp.Compare(a.place, b.place) })
	return found, last, err
}

// walkPlace is the prefix of the offset of a scan along versions. Other offsets are JSON, or begin with namedPlace.
const walkPlace = "v"

type newestScan struct {
	reader  *Reader
	conn    *sql.Conn
	rows    *selection
	along   *versionWalk
	columns []string
	fence   *fence
	limit   replicator.ScanLimit
	asked   int // how many rows were requested at first; after a wait for locks, limit.Rows is lower
}

// scanNewest reads the newest rows of the next cells. done is false if there is no suitable index, or if cells have
// less than two versions on average. In that case, reading the table in its own order costs less.
func (r *Reader) scanNewest(ctx context.Context, conn *sql.Conn, x *selection, columns []string, after string,
	limit replicator.ScanLimit) (chunk replicator.Chunk, done bool, err error) {
	w := x.versions()
	place, begun := strings.CutPrefix(after, walkPlace)
	if w == nil || after != "" && !begun {
		return chunk, false, nil
	}
	limit.Rows = max(limit.Rows, 1)
	s := &newestScan{reader: r, conn: conn, rows: x, along: w, columns: columns, limit: limit, asked: limit.Rows}
	err = untilFree(ctx, limit.Rows, func(rows int) (err error) {
		s.limit.Rows = rows
		chunk, done, err = s.read(ctx, place, begun)
		return err
	})
	// the index was just dropped, or made invisible: scan without it
	if my := (*mysqlError)(nil); errors.As(err, &my) && my.Number == errnoNoSuchKey {
		return replicator.Chunk{}, false, nil
	}
	return chunk, done, err
}

func (s *newestScan) read(ctx context.Context, place string,
	begun bool) (chunk replicator.Chunk, done bool, err error) {
	if s.fence, err = s.reader.fence(ctx, s.conn); err != nil {
		return chunk, false, err
	}
	if len(s.rows.t.Lookups) > 0 {
		end, err := s.reader.beginSnapshot(ctx, s.conn, s.fence, s.rows.t)
		if err != nil {
			return chunk, false, err
		}
		defer end()
	}
	s.limit.Rows, s.asked = s.fence.atMost(waitingRows, s.limit.Rows), s.fence.atMost(waitingRows, s.asked)
	query, args, err := s.along.scanQuery(s.columns, place, s.limit.Rows)
	if err != nil {
		return chunk, false, err
	}
	chunk.Low = s.fence.low
	found, last, err := s.along.newest(ctx, s.conn, query+s.fence.lock, args, s.columns)
	if err != nil || !begun && s.limit.Rows == s.asked && 2*len(found) > last.place {
		return chunk, false, err
	}
	chunk.Passed, chunk.Done = last.place, last.place < s.limit.Rows
	if last.place > 0 {
		chunk.Next = walkPlace + s.along.encodeOffset(last.values)
	}
	if err = s.fetch(ctx, &chunk, found); err != nil {
		return replicator.Chunk{}, false, err
	}
	chunk.High, err = s.reader.endOfRead(ctx, s.conn)
	return chunk, true, err
}

// fetchRows is how many rows are read at once by their primary keys. With 1,000 values or more, MariaDB makes a
// temporary table.
const fetchRows = 999

func (s *newestScan) fetch(ctx context.Context, chunk *replicator.Chunk, newest []*version) error {
	now, size := time.Now(), int64(0)
	for len(newest) > 0 {
		left := replicator.ScanLimit{Rows: fetchRows}
		if s.limit.Bytes > 0 {
			left.Bytes = max(s.limit.Bytes-size, 1)
		}
		n := min(len(newest), s.rows.t.rowsFor(left))
		query, args := s.byPrimary(newest[:n])
		before := len(chunk.Rows)
		if err := s.rows.read(ctx, s.conn, query, args, func(_ int, values [][]byte) error {
			row, err := s.rows.row(ctx, values, chunk.Low, now)
			if err == nil && (len(s.columns) == 0 || slices.Contains(s.columns, row.Cell.Column)) {
				chunk.Rows = append(chunk.Rows, row)
			}
			return err
		}); err != nil {
			return err
		}
		if err := s.reader.join(ctx, s.conn, s.fence, s.rows.t, chunk.Rows[before:]); err != nil {
			return err
		}
		read := sizeOf(chunk.Rows[before:])
		size += read
		s.rows.t.rowSize.Store(max(read/int64(n), 1))
		end := newest[n-1]
		if newest = newest[n:]; len(newest) > 0 && s.limit.Bytes > 0 && size >= s.limit.Bytes {
			chunk.Next, chunk.Passed, chunk.Done = walkPlace+s.along.encodeOffset(end.values), end.place, false
			return nil
		}
	}
	return nil
}

// byPrimary returns the query that reads the rows of versions by primary key. Rows that were just deleted are missing;
// the reader of the binlog delivers their deletes.
//
// Several columns are compared one by one, because on MariaDB (a, b) IN ((x, y), …) finds nothing if a column is text
// of a different character set than the connection's.
func (s *newestScan) byPrimary(versions []*version) (query string, args []any) {
	w := s.along
	wanted := make([]string, len(versions))
	for n, v := range versions {
		var parts []string
		for _, i := range w.primary {
			c := &w.columns[i]
			placeholder, arg := c.offsetArgument(string(v.values[i]))
			if len(w.primary) > 1 {
				placeholder = sqlname.Quote(c.Name) + " = " + placeholder
			}
			parts, args = append(parts, placeholder), append(args, arg)
		}
		wanted[n] = strings.Join(parts, " AND ")
	}
	condition := sqlname.Quote(w.columns[w.primary[0]].Name) + " IN (" + strings.Join(wanted, ", ") + ")"
	if len(w.primary) > 1 {
		condition = strings.Join(wanted, " OR ")
	}
	return "SELECT 0, " + s.rows.list + " FROM " + s.rows.from() + " WHERE " + condition + s.fence.lock, args
}
