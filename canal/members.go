package canal

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"replicator"
	"replicator/internal/sqlname"
)

// openMembers compares the tables that a pattern matches now with those that the start position lists. The rows of
// tables that are not listed are skipped, because earlier rows of them were missed.
func (r *Reader) openMembers(ctx context.Context, t token, p *pattern) error {
	p.now, p.end = p.membersNow(), r.skipEnd
	was := p.now
	if at, known := t.layoutOf(p.Name); known {
		found, err := r.source.layouts.find(ctx, at.digest)
		if err != nil {
			return err
		}
		if was = found; was == nil {
			was = &layout{}
		}
	}
	p.pending = map[string]bool{}
	for _, id := range p.now.Members {
		if !slices.Contains(was.Members, id) {
			p.pending[id] = true
		}
	}
	p.gone = slices.ContainsFunc(was.Members, func(id string) bool { return !slices.Contains(p.now.Members, id) })
	p.unsettled = p.gone || len(p.pending) > 0
	start := r.place.order()
	r.layouts.open(p.Name, start, []layoutFrom{{start, was}})
	for id, reason := range p.left {
		r.warnLeft(&replicator.Table{Name: p.Name, Database: p.Database, Table: id}, reason)
	}
	return r.source.layouts.keep(ctx, was, p.now)
}

func (p *pattern) membersNow() *layout {
	l := &layout{}
	for _, w := range p.members {
		l.Members = append(l.Members, w.id)
	}
	return l
}

// pending reports whether the rows of a pattern's table are skipped, because earlier rows of that table were missed.
func (t tables) pending(w *watched) bool {
	if !w.Pattern {
		return false
	}
	p := t.pattern(w.Name)
	return p != nil && p.pending[w.id]
}

// made records that the log creates a table at the current position. The log then has all of the table's rows, so they
// are no longer skipped.
func (t tables) made(id string) {
	if p := t.pattern(nameOf(id)); p != nil {
		delete(p.pending, id)
	}
}

// settleMembers records the tables that each pattern matches, once reading has passed the position where the log ended
// when the reader was opened. It reports a pattern with ErrUnlogged if a table of the saved position is gone, or if
// rows of a new table were skipped.
func (s *stream) settleMembers(order int64) error {
	for _, p := range s.tables.patterns {
		if !p.unsettled || order < p.end {
			continue
		}
		p.unsettled = false
		s.layouts.settled(p.Name, order, p.now)
		if !p.gone && len(p.pending) == 0 {
			continue
		}
		clear(p.pending)
		err := s.unlogged(p.Name, fmt.Errorf("table %s: tables that match the pattern appeared or disappeared after "+
			"the saved position, and the binlog lacks changes of their rows: %w", p.Name, replicator.ErrUnlogged))
		if err != nil {
			return err
		}
	}
	return nil
}

// newestOfSeveral reads some cells of a pattern from each of its tables that may have them. If several tables have a
// row of a cell, it takes the one with the highest version.
func (r *Reader) newestOfSeveral(ctx context.Context, conn *sql.Conn, l *look, p *pattern, wanted []int) error {
	// This check comes after the fence was taken. So a table created after the check has only rows that are later than
	// the fence.
	if err := r.sameMembers(ctx, conn, p.Name); err != nil {
		return err
	}
	all, err := r.selections(p.Name)
	if err != nil {
		return err
	}
	for _, x := range all {
		var own []int
		for _, i := range wanted {
			if len(x.mayHold([]replicator.Key{l.cells[i].Key})) > 0 {
				own = append(own, i)
			}
		}
		if len(own) == 0 {
			continue
		}
		found := &look{fence: l.fence, cells: l.cells, rows: make([]*replicator.Row, len(l.cells))}
		if err := x.newestAtOnce(ctx, conn, found, own); err != nil {
			return err
		}
		for _, i := range own {
			row := found.rows[i]
			if row == nil || l.rows[i] != nil && l.rows[i].Version >= row.Version {
				continue
			}
			l.drop(i)
			l.put(i, row)
		}
	}
	return nil
}

// newestAtOnce reads the newest rows of some cells of one of a pattern's tables, which has few of these cells. If the
// table has one row per cell, one SELECT without UNION reads all of them.
func (x *selection) newestAtOnce(ctx context.Context, db querier, l *look, wanted []int) error {
	if !x.single || len(wanted) == 1 {
		return x.newest(ctx, db, l, wanted)
	}
	at := map[replicator.Cell]int{}
	var conditions []string
	var args []any
	for _, i := range wanted {
		where, values, err := x.cellCondition(l.cells[i])
		if err != nil {
			return err
		}
		at[l.cells[i]] = i
		conditions, args = append(conditions, where), append(args, values...)
	}
	query := "SELECT 0, " + x.list + " FROM " + x.from() + " WHERE (" + strings.Join(conditions, ") OR (") + ")" + l.fence.lock
	err := x.read(ctx, db, query, args, func(_ int, values [][]byte) error {
		row, err := x.row(ctx, values, l.fence.low, time.Now())
		if err != nil {
			return err
		}
		if i, is := at[row.Cell]; is {
			l.drop(i)
			l.put(i, row)
		}
		return nil
	})
	if isHeld(err) { // another session has locked a row; the method `newest` waits only for that row
		return x.newest(ctx, db, l, wanted)
	}
	return classify(err)
}

// mayHold returns the keys that this table may have. If a key contains $database or $table, only this table's own names
// are possible.
func (x *selection) mayHold(keys []replicator.Key) []replicator.Key {
	if !slices.ContainsFunc(x.key, func(i int) bool { return x.columns[i].literal != "" }) {
		return keys
	}
	return slices.DeleteFunc(slices.Clone(keys), func(key replicator.Key) bool {
		values, err := key.Values()
		if err != nil || len(values) != len(x.key) {
			return true
		}
		for n, i := range x.key {
			if c := x.shape.constant(x.columns[i].Name); c >= 0 && values[n] != x.shape.constants[c].value {
				return true
			}
		}
		return false
	})
}

// reference returns the column's name for an SQL condition; for $database and $table, their literal value.
func (c *declaredColumn) reference() string {
	if c.literal != "" {
		return c.literal
	}
	return sqlname.Quote(c.Name)
}

// memberPlace is where a scan continues. A scan of a pattern reads the pattern's tables in the order of their IDs.
type memberPlace struct {
	x       *selection // the table in which the scan continues
	after   string     // the offset at which the scan of `x` continues; "": the first row
	pattern bool       // `x` is one of a pattern's tables
	next    string     // the ID of the table to read after `x`; "": none
}

// inMember is the prefix of the offset at which a pattern's scan continues. The ID of a table and an offset in that
// table follow it.
const inMember = "in "

// at finds the table in which a scan continues; nil if that table and all tables after it are gone.
func (r *Reader) at(table, after string) (*memberPlace, error) {
	all, err := r.selections(table)
	if err != nil {
		return nil, err
	}
	if r.tables.pattern(table) == nil {
		return &memberPlace{x: all[0], after: after}, nil
	}
	id, rest := "", ""
	if text, is := strings.CutPrefix(after, inMember); is {
		name, place, _ := strings.Cut(text, " ")
		if id, err = url.QueryUnescape(name); err == nil {
			rest = place
		}
	}
	for n, x := range all {
		if x.t.id < id {
			continue
		}
		at := &memberPlace{x: x, pattern: true}
		if x.t.id == id {
			at.after = rest
		}
		if n+1 < len(all) {
			at.next = all[n+1].t.id
		}
		return at, nil
	}
	return nil, nil
}

// nextOffset returns where the scan continues after a chunk of `x`, and whether the scan is complete. `next` and `done`
// say where the scan of `x` continues, and whether it is complete.
func (at *memberPlace) nextOffset(next string, done bool) (string, bool) {
	switch {
	case !at.pattern:
		return next, done
	case !done:
		return inMember + url.QueryEscape(at.x.t.id) + " " + next, false
	case at.next == "":
		return "", true
	}
	return inMember + url.QueryEscape(at.next) + " ", false
}

// tables checks a configured table; if it is a pattern, all tables that match.
func (c *checker) tables(ctx context.Context, db *sql.Conn, srv server, t replicator.Table,
	connect func(context.Context) (*sql.Conn, error),
) {
	one := func(c *checker, t replicator.Table) {
		c.table(ctx, db, srv, t)
		c.spellings(ctx, db, srv, t, connect)
		c.cascades(ctx, db, t)
	}
	if t.Pattern {
		c.pattern(ctx, db, newPattern(t, srv), one)
		return
	}
	one(c, t)
}

// pattern checks each table that matches. Each problem of a table is a finding. One more finding counts the tables that
// can be read.
func (c *checker) pattern(ctx context.Context, db querier, p *pattern, check func(*checker, replicator.Table)) {
	what := "table " + p.Name
	listed, err := p.list(ctx, db)
	switch {
	case err != nil:
		c.fail(what, describe(err), "")
		return
	case len(listed) == 0:
		c.fail(what, "no table of the source matches "+p.Database+"."+p.Table.Table,
			"create such a table, correct `table`, or grant SELECT on the tables to the dsn's user")
		return
	}
	well := 0
	for _, t := range listed {
		of := &checker{images: c.images}
		check(of, t)
		read := true
		for _, f := range of.findings {
			if f.Level == replicator.OK {
				continue
			}
			if f.What == what {
				f.What = "table " + idOf(&t)
			}
			read = read && f.Level != replicator.Fail
			c.findings = append(c.findings, f)
		}
		if read {
			well++
		}
	}
	c.ok(what, fmt.Sprintf("%s.%s: %d of the %d tables that match can be read", p.Database, p.Table.Table, well, len(listed)))
	if p.Shared {
		rows := "if two tables have the same key, only one of the two rows is shown"
		if p.Version != "" {
			rows = "if two tables have the same key, the row with the highest " + p.Version + " is shown"
		}
		c.warn(what, "the key doesn't name the table that a row is in: "+rows,
			"put \"$table\" (and \"$database\", if the database has a * or ?) into the key if tables may share keys")
	}
}

// infos describes the columns, including $database and $table of a pattern's table.
func (s *schema) infos() (all []ColumnInfo) {
	for i := range s.constants {
		all = append(all, s.constants[i].info())
	}
	for i := range s.columns {
		if s.constant(s.columns[i].Name) < 0 {
			all = append(all, s.columns[i].info())
		}
	}
	return all
}
