package canal

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"replicator"
	"replicator/canal/binlog"
	"replicator/internal/nearest"
	"replicator/internal/remedy"
	"replicator/internal/sqlname"
)

// selected is a column of a SELECT, whose values the server sends as text. The method `value` converts such a text to
// the Go value that binlog.Column.Value returns for the same value in the binlog.
type selected struct {
	declaredColumn
	kind binlog.Kind
	raw  bool // the column is selected in its stored form, for a scan's offset
}

// kindsOf maps declared types to kinds. Other types are text, or binary if they have no character set.
var kindsOf = map[string]binlog.Kind{
	"tinyint": binlog.KindInt, "smallint": binlog.KindInt, "mediumint": binlog.KindInt, "int": binlog.KindInt, "bigint": binlog.KindInt,
	"float": binlog.KindFloat, "double": binlog.KindDouble, "decimal": binlog.KindDecimal, "bit": binlog.KindBit,
	"year": binlog.KindYear,
	"date": binlog.KindDate, "time": binlog.KindTime, "datetime": binlog.KindDatetime, "timestamp": binlog.KindTimestamp,
	"enum": binlog.KindEnum, "set": binlog.KindSet, "json": binlog.KindJSON,
	"uuid": binlog.KindUUID, "inet4": binlog.KindInet4, "inet6": binlog.KindInet6,
}

func newSelected(c *declaredColumn) selected {
	k, ok := kindsOf[c.dataType]
	switch {
	case ok:
	case c.Charset != "":
		k = binlog.KindText
	default:
		k = binlog.KindBytes
	}
	return selected{declaredColumn: *c, kind: k}
}

// lossy reports whether the server may send the same text for several values. It sends '?' for a code without a
// character, one character for several equivalent codes, and a DOUBLE(M,D) without the digits beyond D.
func (c *selected) lossy() bool {
	return c.Rounded || c.kind == binlog.KindText && binlog.NeedsTable(c.Charset)
}

// place returns the column in the form that a scan's offset needs: as stored, if several values may have the same text;
// otherwise as text.
func (c selected) place() selected {
	c.raw = c.lossy()
	return c
}

// expression returns the column's expression in a SELECT. A FLOAT is converted to a DOUBLE, because SELECT shows only
// six digits of a FLOAT.
func (c *selected) expression() string {
	if c.literal != "" {
		return c.literal
	}
	if c.raw && c.Rounded || c.kind == binlog.KindFloat { // CAST AS DOUBLE needs MySQL 8.0.17
		return sqlname.Quote(c.Name) + " + 0e0"
	}
	if c.raw {
		return "CAST(" + sqlname.Quote(c.Name) + " AS BINARY)"
	}
	return sqlname.Quote(c.Name)
}

// value converts the server's text. b must not be NULL, and is copied.
func (c *selected) value(b []byte) (any, error) {
	switch c.kind {
	case binlog.KindInt, binlog.KindYear:
		return parseInteger(string(b))
	case binlog.KindBit:
		return binlog.Unsigned(binlog.BigEndian(b)), nil
	case binlog.KindFloat:
		f, err := strconv.ParseFloat(string(b), 64)
		return binlog.Widen(float32(f)), err
	case binlog.KindDouble:
		return strconv.ParseFloat(string(b), 64)
	case binlog.KindDecimal:
		return replicator.Number(trimZerofill(string(b))), nil
	case binlog.KindBytes:
		return owned(b), nil
	case binlog.KindJSON:
		return replicator.RawJSON(owned(b)), nil
	}
	return string(b), nil
}

// TextValue converts a value that the server shows as text to a value of a Row. dataType is the column's type in lower
// case, as information_schema names it. isText says whether the column has a character set. A FLOAT is only as exact as
// its text.
func TextValue(dataType string, isText bool, value []byte) (any, error) {
	c := declaredColumn{dataType: dataType}
	if isText {
		c.Charset = "utf8mb4" // the character set of the connection
	}
	s := newSelected(&c)
	return s.value(value)
}

func parseInteger(s string) (any, error) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n, nil
	}
	n, err := strconv.ParseUint(s, 10, 64)
	return binlog.Unsigned(n), err
}

// trimZerofill removes the zeros that ZEROFILL adds before a DECIMAL. The binlog does not have them.
func trimZerofill(s string) string {
	for len(s) > 1 && s[0] == '0' && s[1] != '.' {
		s = s[1:]
	}
	return s
}

type selection struct {
	t        *watched
	shape    *schema
	single   bool
	distinct bool // no two rows of a cell have the same version
	list     string
	columns  []selected
	roles
	offset []int
	hint   string // an index hint; "" leaves the choice to the server
}

func newSelection(t *watched) (*selection, error) {
	s := t.schema.Load()
	x := &selection{t: t, shape: s, single: s.single(&t.Table)}
	x.distinct = t.Version != "" && s.tellsApart(append(append([]string{t.Version}, t.Key...), t.Column))
	at := map[string]int{}
	find := func(role, name string) (int, error) {
		folded := strings.ToLower(name)
		if i, ok := at[folded]; ok {
			return i, nil
		}
		c := s.column(name)
		if c == nil {
			return -1, fmt.Errorf("%s.%s has no column %s (%s)%s; the table was altered, or the configuration is wrong. "+
				"Add the column again, and the views continue. Or remove it from the configuration, send SIGHUP, and "+
				"run `replicator rebuild "+remedy.Views+"`",
				t.Database, t.Table.Table, name, role, nearest.Close(name, s.names()))
		}
		at[folded] = len(x.columns)
		x.columns = append(x.columns, newSelected(c))
		return at[folded], nil
	}
	names := s.names()
	var err error
	x.roles, err = t.findRoles(names, find, func(i int) binlog.Kind { return x.columns[i].kind })
	for _, name := range offsetColumns(t, s) {
		if err != nil {
			break
		}
		var i int
		i, err = find("offset", name)
		x.offset = append(x.offset, i)
	}
	if err != nil {
		return nil, replicator.Fatal(fmt.Errorf("table %s: %w", t.Name, err))
	}
	for n, i := range x.offset {
		if p := x.columns[i].place(); p.raw {
			x.columns, x.offset[n] = append(x.columns, p), len(x.columns)
		}
	}
	list := make([]string, len(x.columns))
	for i := range x.columns {
		list[i] = x.columns[i].expression()
	}
	x.list = strings.Join(list, ", ")
	return x, nil
}

func (r *Reader) selection(table string) (*selection, error) {
	all, err := r.selections(table)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// selections returns one selection for each table of the source that a configured table matches, sorted by table name.
func (r *Reader) selections(table string) (all []*selection, err error) {
	for _, w := range r.tables.byName[table] {
		x, err := newSelection(w)
		if err != nil {
			return nil, w.fatal(err)
		}
		all = append(all, x)
	}
	if len(all) == 0 {
		return nil, replicator.Fatal(fmt.Errorf("table %s isn't configured", table))
	}
	return all, nil
}

// offsetColumns returns the columns that a scan follows: the configured ones, and the primary key if the configured
// ones don't identify rows. An index on the configured columns contains the primary key anyway.
func offsetColumns(t *watched, s *schema) []string {
	columns := t.Offset
	if len(columns) == 0 {
		columns = s.primary
	}
	if s.tellsApart(columns) {
		return columns
	}
	out := append([]string(nil), columns...)
	extra := s.primary
	if len(extra) == 0 {
		if i := slices.IndexFunc(s.unique, s.tellsApart); i >= 0 {
			extra = s.unique[i]
		}
	}
	for _, name := range extra {
		if !containsFold(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// ordered reports whether no two rows have the same offset. Rows with the same offset could otherwise be on both sides
// of a chunk's end.
func (x *selection) ordered() bool { return x.shape.tellsApart(offsetColumns(x.t, x.shape)) }

func subset(a, b []string) bool {
	for _, name := range a {
		if !containsFold(b, name) {
			return false
		}
	}
	return true
}

func (x *selection) from() string {
	return sqlname.Quote(x.t.Database) + "." + sqlname.Quote(x.t.Table.Table) + x.hint
}

// row makes a Row from the values of a query's result. The query saw the table as it was at the given log position
// (order), or later.
func (x *selection) row(ctx context.Context, values [][]byte, order int64, now time.Time) (*replicator.Row, error) {
	r := &replicator.Row{Cell: replicator.Cell{Table: x.t.Name}, Order: order, Version: order, Time: now, Names: x.names}
	var few [4]any
	key := few[:0]
	for _, i := range x.key {
		c := &x.columns[i]
		if values[i] == nil {
			return nil, x.unusable(fmt.Errorf("key column %s is NULL", c.Name))
		}
		v, err := c.value(values[i])
		if err != nil {
			return nil, x.unusable(fmt.Errorf("key column %s: %w", c.Name, err))
		}
		key = append(key, v)
	}
	var err error
	if r.Cell.Key, err = replicator.MakeKey(key...); err != nil {
		return nil, x.unusable(err)
	}
	if x.column >= 0 && values[x.column] != nil {
		v, err := x.columns[x.column].value(values[x.column])
		if err != nil {
			return nil, x.unusable(err)
		}
		as := replicator.FormatValue(v)
		if r.Cell.Column, err = x.t.names.cellName(ctx, as); err != nil {
			return nil, err
		}
		if as != r.Cell.Column {
			r.ColumnAs = as
		}
	}
	if !x.single {
		r.Version, r.Err = x.columns[x.version].version(values[x.version])
	}
	if x.body >= 0 && values[x.body] != nil {
		r.Body = owned(values[x.body])
	}
	if len(x.extras) > 0 {
		r.Columns = make([]any, len(x.extras))
	}
	for n, i := range x.extras {
		if values[i] == nil {
			continue
		}
		if r.Columns[n], err = x.columns[i].value(values[i]); err != nil && r.Err == nil {
			r.Err = fmt.Errorf("column %s: %w", x.columns[i].Name, err)
		}
	}
	return r, nil
}

func (x *selection) unusable(err error) error {
	return x.t.fatal(fmt.Errorf("table %s: a row has no usable key: %w. Correct it at the source", x.t.Name, err))
}

// version converts the server's text of a version column to a number, as plan.versionOf does for the binlog.
func (c *selected) version(b []byte) (int64, error) {
	if b == nil {
		return 0, errVersion(c.Name, "is NULL")
	}
	switch c.kind {
	case binlog.KindDatetime, binlog.KindTimestamp:
		t, ok := binlog.ParseDatetime(string(b))
		n, fits := t.Micros()
		if !ok || !fits {
			return 0, errVersion(c.Name, "is a zero date or before 1970")
		}
		return n, nil
	}
	v, err := c.value(b)
	if err != nil {
		return 0, errVersion(c.Name, "is not a number")
	}
	switch n := v.(type) {
	case int64:
		return checkVersion(c.Name, uint64(n), true)
	case uint64:
		return checkVersion(c.Name, n, false)
	}
	return 0, errVersion(c.Name, "is not a number")
}

// argument converts a value of a key or an offset to a query argument with which the server compares exactly and can
// use the column's index. Without the conversion, the server would compare a DECIMAL or a quoted number as a DOUBLE.
func (c *selected) argument(v any) (placeholder string, arg any) {
	s, isText := v.(string)
	switch {
	case isText && (c.kind == binlog.KindInt || c.kind == binlog.KindYear || c.kind == binlog.KindBit):
		if n, err := parseInteger(s); err == nil {
			return "?", n
		}
	case isText && c.kind == binlog.KindDecimal:
		return asDecimal(s), s
	case isText && c.kind == binlog.KindBytes:
		if b, err := hex.DecodeString(s); err == nil {
			return "?", b
		}
	}
	switch v.(type) {
	case int64, uint64:
		if keyKindOf(c.kind) == keyText { // the key is from before an ALTER; a number could not use the index
			return "?", replicator.FormatValue(v)
		}
	}
	if n, ok := v.(replicator.Number); ok {
		return asDecimal(string(n)), string(n)
	}
	return "?", v
}

// asDecimal returns a placeholder for a decimal number, which is passed as text. The server would compare a bare text
// as a DOUBLE.
func asDecimal(text string) string {
	_, fraction, _ := strings.Cut(text, ".")
	return fmt.Sprintf("CAST(? AS DECIMAL(65,%d))", min(len(fraction), 30))
}
