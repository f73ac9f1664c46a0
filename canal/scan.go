package canal

import (
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"replicator"
	"replicator/canal/binlog"
	"replicator/canal/gtid"
	"replicator/internal/sqlname"
)

// Scan reads the next rows of a table by keyset pagination, usually in the order of the table's offset columns. If the
// table has many old rows, and an index shows which rows are the newest of their cells, Scan follows that index and
// reads only the newest rows.
func (r *Reader) Scan(ctx context.Context, table string, columns []string, after string,
	limit replicator.ScanLimit) (replicator.Chunk, error) {
	var chunk replicator.Chunk
	at, err := r.at(table, after)
	if err != nil {
		return chunk, err
	}
	if at == nil { // the rest of the pattern's tables were dropped
		return replicator.Chunk{Low: r.start.Order, High: r.start.Order, Done: true}, nil
	}
	if chunk, err = r.scanTable(ctx, at.x, columns, at.after, limit); err != nil {
		return chunk, err
	}
	if at.pattern {
		chunk.Total = 0
		chunk.Next, chunk.Done = at.nextOffset(chunk.Next, chunk.Done)
	}
	return chunk, nil
}

func (r *Reader) scanTable(ctx context.Context, x *selection, columns []string, after string,
	limit replicator.ScanLimit) (replicator.Chunk, error) {
	var chunk replicator.Chunk
	if !x.ordered() {
		return chunk, x.t.fatal(fmt.Errorf("table %s: %s.%s has no key by which a scan could page through its rows. "+
			"Give it a primary key", x.t.Name, x.t.Database, x.t.Table.Table))
	}
	conn, err := r.connect(ctx)
	if err != nil {
		return chunk, err
	}
	defer conn.Close()
	total, err := r.expected(ctx, conn, x, columns)
	if err != nil {
		return replicator.Chunk{}, classify(err)
	}
	chunk, done := replicator.Chunk{}, false
	if !x.t.Pattern {
		chunk, done, err = r.scanNewest(ctx, conn, x, columns, after, limit)
	}
	chunk.Total = total
	if err != nil || done {
		return chunk, classify(err)
	}
	if strings.HasPrefix(after, walkPlace) { // the index that the scan followed was dropped, so the scan begins again
		after = ""
	}
	err = untilFree(ctx, x.t.rowsFor(limit), func(rows int) (err error) {
		limit.Rows = rows
		chunk, err = r.scanChunk(ctx, conn, x, columns, after, limit)
		return err
	})
	chunk.Total = total
	return chunk, classify(err)
}

func (r *Reader) scanChunk(ctx context.Context, conn *sql.Conn, x *selection, columns []string, after string,
	limit replicator.ScanLimit) (chunk replicator.Chunk, err error) {
	f, err := r.fence(ctx, conn)
	if err != nil {
		return chunk, err
	}
	var joins *joinedChunk
	if len(x.t.Lookups) > 0 {
		end, err := r.beginSnapshot(ctx, conn, f, x.t)
		if err != nil {
			return chunk, err
		}
		defer end()
		joins = &joinedChunk{}
	}
	limit.Rows = f.atMost(waitingRows, limit.Rows)
	query, args, err := x.scanQuery(columns, after, limit.Rows)
	if err != nil {
		return chunk, err
	}
	chunk.Low = f.low
	now := time.Now()
	read, size := 0, int64(0)
	chunk.Next = ""
	full := false
	err = x.read(ctx, conn, query+f.lock, args, func(_ int, values [][]byte) error {
		if full {
			return errChunkFull
		}
		read++
		row, err := x.row(ctx, values, chunk.Low, now)
		if err != nil {
			return err
		}
		chunk.Next = x.encodeOffset(values)
		if len(columns) == 0 || slices.Contains(columns, row.Cell.Column) {
			chunk.Rows = append(chunk.Rows, row)
			size += row.Size()
			joins.note(chunk.Next, read)
		}
		full = limit.Bytes > 0 && size >= limit.Bytes
		return nil
	})
	if errors.Is(err, errChunkFull) {
		err = nil
	} else {
		chunk.Done = err == nil && read < limit.Rows
	}
	if err != nil {
		return replicator.Chunk{}, err
	}
	chunk.Passed = read
	if joins != nil {
		join := func(rows []*replicator.Row) error { return r.join(ctx, conn, f, x.t, rows) }
		if err := joins.join(&chunk, limit.Bytes, join); err != nil {
			return replicator.Chunk{}, err
		}
		size = sizeOf(chunk.Rows)
	}
	if chunk.High, err = r.endOfRead(ctx, conn); err != nil {
		return replicator.Chunk{}, err
	}
	if len(chunk.Rows) > 0 {
		x.t.rowSize.Store(max(size/int64(len(chunk.Rows)), 1))
	}
	return chunk, nil
}

func (r *Reader) end(ctx context.Context, conn *sql.Conn) (int64, error) {
	file, pos, _, err := r.server.status(ctx, conn)
	return orderOf(r.place.epoch, file.number, pos), err
}

// endOfRead returns the end of the binlog after rows were read. No row that was read is from a later position. Sinks
// may get these rows before the reader of the log reaches that end. So endOfRead also records the end in the history,
// and positions that are saved later contain it (token.Read).
func (r *Reader) endOfRead(ctx context.Context, conn *sql.Conn) (int64, error) {
	file, pos, gtids, err := r.server.status(ctx, conn)
	if err != nil {
		return 0, err
	}
	var executed *gtid.Set
	switch {
	case !r.server.gtid():
	case r.server.flavor == gtid.MariaDB:
		executed, err = r.server.executed(ctx, conn)
	default:
		executed, err = gtid.Parse(r.server.flavor, gtids)
	}
	if err != nil {
		return 0, err
	}
	var further end
	if file.number > r.history.file() {
		further = end{file: file, pos: 4, order: orderOf(r.place.epoch, file.number, 4)}
		w, err := r.source.witness(ctx, r.server, further.placed())
		if err != nil {
			return 0, err
		}
		further.born = w.Born
	}
	r.history.see(further, executed)
	return orderOf(r.place.epoch, file.number, pos), nil
}

const firstRows = 100

// rowsFor returns how many rows to request, judged by the size of the last chunk's rows. The server sends all requested
// rows, even if the reader stops early.
func (t *watched) rowsFor(limit replicator.ScanLimit) int {
	rows := max(limit.Rows, 1)
	if limit.Bytes <= 0 {
		return rows
	}
	size := t.rowSize.Load()
	if size == 0 {
		return min(rows, firstRows)
	}
	return int(min(int64(rows), max(limit.Bytes/size+limit.Bytes/size/4, 1)))
}

var errChunkFull = errors.New("chunk is full")

func (x *selection) scanQuery(columns []string, after string, limit int) (string, []any, error) {
	if in, values := x.wanted(columns); in != "" {
		return x.page(after, []string{in}, values, limit)
	}
	return x.page(after, nil, nil, limit)
}

// page returns the query for rows after an offset that meet conditions, in offset order. The query selects a constant
// first, because selection.read expects a number there.
func (x *selection) page(after string, conditions []string, of []any, limit int) (string, []any, error) {
	var where []string
	var args []any
	if text, named := strings.CutPrefix(after, namedPlace); named {
		bounds, err := x.namedBounds(text)
		if err != nil {
			return "", nil, err
		}
		cond, values := keyset(bounds, true)
		where, args = append(where, cond), append(args, values...)
	} else if last, same := x.decodeOffset(after); same {
		cond, values := keyset(x.lastBounds(last), false)
		where, args = append(where, cond), append(args, values...)
	}
	where, args = append(where, conditions...), append(args, of...)
	query := "SELECT 0, " + x.list + " FROM " + x.from()
	if len(where) > 0 {
		query += " WHERE " + strings.Join(where, " AND ")
	}
	var order []string
	for _, i := range x.offset { // the server sorts these columns by what the condition compares (selected.sorted)
		order = append(order, sqlname.Quote(x.columns[i].Name))
	}
	return query + " ORDER BY " + strings.Join(order, ", ") + fmt.Sprintf(" LIMIT %d", limit), args, nil
}

// wanted returns the condition that selects rows with the given values of the column role; "" if no values are given,
// or if the column isn't text.
func (x *selection) wanted(columns []string) (in string, args []any) {
	if x.column < 0 || len(columns) == 0 || x.columns[x.column].kind != binlog.KindText {
		return "", nil
	}
	name := sqlname.Quote(x.columns[x.column].Name)
	in = name + " IN (?" + strings.Repeat(", ?", len(columns)-1) + ")"
	if slices.Contains(columns, "") {
		in = "(" + in + " OR " + name + " IS NULL)"
	}
	for _, c := range columns {
		args = append(args, c)
	}
	return in, args
}

type bound struct {
	name, placeholder string // an empty placeholder means NULL
	arg               any
}

func (x *selection) lastBounds(last []*string) []bound {
	bounds := make([]bound, len(x.offset))
	for n, i := range x.offset {
		b := bound{name: x.columns[i].sorted()}
		if last[n] != nil {
			b.placeholder, b.arg = x.columns[i].offsetArgument(*last[n])
		}
		bounds[n] = b
	}
	return bounds
}

// keyset returns the condition (a, b) > (x, y), or >= if inclusive, in a form for which MySQL and MariaDB use an index:
// a >= x AND (a > x OR a = x AND b > y). NULLs sort first, so they compare as the lowest values.
func keyset(bounds []bound, inclusive bool) (cond string, args []any) {
	var alternatives, equal []string
	var before []any
	for n, b := range bounds {
		more, same, arg := b.name+" > "+b.placeholder, b.name+" = "+b.placeholder, []any{b.arg}
		switch {
		case b.placeholder == "":
			more, same, arg = b.name+" IS NOT NULL", b.name+" IS NULL", nil
		case inclusive && n == len(bounds)-1:
			more = b.name + " >= " + b.placeholder
		}
		alternatives = append(alternatives, strings.Join(append(slices.Clip(equal), more), " AND "))
		args = append(append(args, before...), arg...)
		equal, before = append(equal, same), append(before, arg...)
	}
	cond = "(" + strings.Join(alternatives, " OR ") + ")"
	if len(bounds) > 1 && bounds[0].placeholder != "" {
		first := bounds[0]
		return first.name + " >= " + first.placeholder + " AND " + cond, append([]any{first.arg}, args...)
	}
	return cond, args
}

// offsetArgument returns the placeholder and the argument for a value of an offset, which is in the server's text form.
func (c *selected) offsetArgument(text string) (placeholder string, arg any) {
	if c.raw && c.kind == binlog.KindText {
		return "CONVERT(? USING " + c.Charset + ") COLLATE " + c.collation, []byte(text)
	}
	if c.kind == binlog.KindBytes {
		return "?", []byte(text)
	}
	switch c.kind {
	case binlog.KindBit:
		return "?", binlog.Unsigned(binlog.BigEndian([]byte(text)))
	case binlog.KindEnum:
		return "?", slices.Index(c.Members, text) + 1 // 0 is the number of an invalid member, whose text is ""
	case binlog.KindSet:
		var bits uint64
		for i, member := range c.Members {
			if slices.Contains(strings.Split(text, ","), member) {
				bits |= 1 << i
			}
		}
		return "?", bits
	}
	return c.argument(text)
}

// sorted returns the expression by which the server sorts a column. The server sorts an ENUM or a SET by its number,
// but compares it as text.
func (c *selected) sorted() string {
	if c.kind == binlog.KindEnum || c.kind == binlog.KindSet {
		return "(" + sqlname.Quote(c.Name) + " + 0)"
	}
	return sqlname.Quote(c.Name)
}

// encodeOffset returns a chunk's Next: the offset columns with their values as the server sent them.
func (x *selection) encodeOffset(values [][]byte) string {
	out := make([][2]*string, len(x.offset))
	for n, i := range x.offset {
		out[n][0] = &x.columns[i].Name
		if values[i] != nil {
			s := base64.RawStdEncoding.EncodeToString(values[i])
			out[n][1] = &s
		}
	}
	text, _ := json.Marshal(out) // can't fail: all values are strings
	return string(text)
}

// decodeOffset is the inverse of encodeOffset. same reports whether the offset has the columns that the scan follows
// now. If it has others, the scan must start again, because the primary key or index that it follows has changed.
func (x *selection) decodeOffset(place string) (values []*string, same bool) {
	var out [][2]*string
	if json.Unmarshal([]byte(place), &out) != nil || len(out) != len(x.offset) {
		return nil, false
	}
	for n, i := range x.offset {
		name, value := out[n][0], out[n][1]
		if name == nil || !strings.EqualFold(*name, x.columns[i].Name) {
			return nil, false
		}
		if value != nil {
			b, err := base64.RawStdEncoding.DecodeString(*value)
			if err != nil {
				return nil, false
			}
			text := string(b)
			value = &text
		}
		values = append(values, value)
	}
	return values, true
}
