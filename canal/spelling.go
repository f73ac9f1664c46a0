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
	"replicator/canal/gtid"
	"replicator/internal/sqlname"
)

// mixesSpellings reports whether a cell of the table may have several rows, whose keys the server treats as equal
// although they are spelled differently ("a" and "A").
func (s *schema) mixesSpellings(t *replicator.Table) bool {
	return !s.single(t) && slices.ContainsFunc(t.Key, func(name string) bool {
		c := s.column(name)
		return c != nil && c.respelt()
	})
}

// respelt reports whether the column may hold different texts that it treats as equal. ENUM and SET can't, because they
// hold only their members. Nor can CHAR with a _bin collation, which ignores only trailing spaces: CHAR has none.
func (c *declaredColumn) respelt() bool {
	return newSelected(c).kind == binlog.KindText && !c.tellsAll() &&
		!(c.dataType == "char" && strings.HasSuffix(c.collation, "_bin"))
}

func (x *selection) mixed() bool { return x.shape != nil && x.shape.mixed }

// bytes is the SQL expression for the column's text as bytes, without its collation.
func (c *declaredColumn) bytes() string {
	return "CAST(CONVERT(" + c.reference() + " USING utf8mb4) AS BINARY)"
}

// MixesSpellings reports whether a cell of the table may have several rows, whose keys the server treats as equal
// although they are spelled differently ("a" and "A").
func (r *Reader) MixesSpellings(table string) bool {
	return slices.ContainsFunc(r.tables.byName[table], func(w *watched) bool { return w.schema.Load().mixed })
}

// Spellings implements replicator.Reader. Nearly always, one query shows that none of the keys is spelled in several
// ways.
func (r *Reader) Spellings(ctx context.Context, table string,
	keys []replicator.Key) (mixed [][]replicator.Cell, err error) {
	all, err := r.selections(table)
	if err != nil {
		return nil, err
	}
	var doubtful []replicator.Key
	for _, x := range all {
		some, err := r.doubtful(ctx, x, x.mayHold(keys))
		if err != nil {
			return nil, classify(err)
		}
		doubtful = append(doubtful, some...)
	}
	if keys = doubtful; len(keys) == 0 {
		return nil, nil
	}
	if found, err := r.Siblings(ctx, table, keys); err != nil || len(found) == 0 { // no key has a row any more
		return nil, err
	}
	for _, key := range keys {
		cells, err := r.Siblings(ctx, table, []replicator.Key{key})
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(cells, func(c replicator.Cell) bool { return c.Key != key }) {
			continue
		}
		for _, c := range slices.Clone(cells) {
			if c.Key = key; !slices.Contains(cells, c) {
				cells = append(cells, c)
			}
		}
		mixed = append(mixed, cells)
	}
	return mixed, nil
}

// doubtful returns the keys of which the source may have rows with another spelling of the key.
func (r *Reader) doubtful(ctx context.Context, x *selection, keys []replicator.Key) ([]replicator.Key, error) {
	conn, err := r.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	// Two transactions may each add a spelling of one key, and Spellings is called after each. At least one of the calls
	// must see both rows. So the fence waits until transactions in the binlog are visible.
	f, err := r.present(ctx, conn)
	if err != nil {
		return nil, err
	}
	alone := map[replicator.Key]bool{}
	for some := range slices.Chunk(keys, f.atMost(1, fetchRows)) {
		if err := x.spelledAlone(ctx, conn, f, some, alone); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(slices.Clone(keys), func(k replicator.Key) bool { return alone[k] }), nil
}

// spelledAlone adds to `alone` each key that is spelled in only one way: all of its rows have exactly the given text.
// If another session has locked a row of one key, the other keys don't wait for that row.
func (x *selection) spelledAlone(ctx context.Context, db querier, f *fence, keys []replicator.Key,
	alone map[replicator.Key]bool) error {
	query, args, err := x.spellingsQuery(keys)
	if err != nil {
		return err
	}
	once := func(int) error {
		rows, err := db.QueryContext(ctx, query+f.lock, args...)
		if err != nil {
			return x.t.classify(err)
		}
		return x.eachSpelling(rows, func(key replicator.Key, only bool) {
			if only {
				alone[key] = true
			}
		})
	}
	if len(keys) == 1 {
		return untilFree(ctx, 1, once)
	}
	if err := once(0); !isHeld(err) {
		return err
	}
	half := len(keys) / 2
	return errors.Join(x.spelledAlone(ctx, db, f, keys[:half], alone), x.spelledAlone(ctx, db, f, keys[half:], alone))
}

// spellingsQuery selects for each key the first and the last of its spellings, in byte order. They are the same if the
// key has only one.
func (x *selection) spellingsQuery(keys []replicator.Key) (query string, args []any, err error) {
	var wanted []string
	for _, key := range keys {
		values, err := key.Values()
		if err != nil {
			return "", nil, x.t.fatal(fmt.Errorf("table %s: a cell's key: %w", x.t.Name, err))
		}
		if len(values) != len(x.key) { // a key from before the configuration changed has no rows
			continue
		}
		var parts []string
		for i, v := range values {
			c := &x.columns[x.key[i]]
			placeholder, arg := c.argument(v)
			if len(values) > 1 {
				placeholder = c.reference() + " = " + placeholder
			}
			parts, args = append(parts, placeholder), append(args, arg)
		}
		wanted = append(wanted, strings.Join(parts, " AND "))
	}
	if len(wanted) == 0 {
		return x.spellings("") + " WHERE FALSE" + x.byKey(), nil, nil
	}
	condition := sqlname.Quote(x.columns[x.key[0]].Name) + " IN (" + strings.Join(wanted, ", ") + ")"
	if len(x.key) > 1 {
		condition = "(" + strings.Join(wanted, ") OR (") + ")"
	}
	return x.spellings("") + " WHERE " + condition + x.byKey(), args, nil
}

// spellings returns the beginning of the query for the first and the last spelling of each key.
func (x *selection) spellings(hint string) string {
	var list []string
	for _, i := range x.key {
		if c := &x.columns[i]; c.kind == binlog.KindText {
			list = append(list, "MIN("+c.bytes()+")", "MAX("+c.bytes()+")")
		} else {
			list = append(list, c.expression(), c.expression())
		}
	}
	return "SELECT " + hint + strings.Join(list, ", ") + " FROM " + x.from()
}

func (x *selection) byKey() string {
	var names []string
	for _, i := range x.key {
		if x.columns[i].literal == "" {
			names = append(names, sqlname.Quote(x.columns[i].Name))
		}
	}
	return " GROUP BY " + strings.Join(names, ", ")
}

// eachSpelling calls f for each key in the result of spellingsQuery. It passes the first spelling of the key, and
// whether that is the only one.
func (x *selection) eachSpelling(rows *sql.Rows, f func(first replicator.Key, only bool)) error {
	raw := make([]sql.RawBytes, 2*len(x.key))
	into := make([]any, len(raw))
	for i := range raw {
		into[i] = &raw[i]
	}
	values := make([]any, len(x.key))
	return eachRow(rows, func() error {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		only := true
		for n, i := range x.key {
			first, last := raw[2*n], raw[2*n+1]
			if first == nil { // NULL: not a key
				return nil
			}
			only = only && string(first) == string(last)
			var err error
			if values[n], err = x.columns[i].value(first); err != nil {
				return x.unusable(err)
			}
		}
		key, err := replicator.MakeKey(values...)
		if err != nil {
			return x.unusable(err)
		}
		f(key, only)
		return nil
	})
}

// respeltTime is how long the check command searches for a key with several spellings.
const respeltTime = 5 * time.Second

func (x *selection) respelt(ctx context.Context, db querier, f gtid.Flavor) (key replicator.Key, err error) {
	begin, hint := "", fmt.Sprintf("/*+ MAX_EXECUTION_TIME(%d) */ ", respeltTime.Milliseconds())
	if f == gtid.MariaDB {
		begin, hint = fmt.Sprintf("SET STATEMENT max_statement_time = %g FOR ", respeltTime.Seconds()), ""
	}
	var differs []string
	for _, i := range x.key {
		if c := &x.columns[i]; c.respelt() {
			differs = append(differs, "MIN("+c.bytes()+") <> MAX("+c.bytes()+")")
		}
	}
	rows, err := db.QueryContext(ctx,
		begin+x.spellings(hint)+x.byKey()+" HAVING "+strings.Join(differs, " OR ")+" LIMIT 1")
	if err != nil {
		return "", err
	}
	return key, x.eachSpelling(rows, func(first replicator.Key, _ bool) { key = first })
}
