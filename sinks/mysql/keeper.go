package mysql

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"replicator"
	"replicator/config"
	"replicator/internal/nearest"
	"replicator/sinks/judge"
)

// keeper maintains one view in its table.
type keeper struct {
	view      *replicator.View
	viewIndex int
	id        uint32
	salt      salt
	marked    replicator.Standing // how far the view had come when it was opened

	table      string // the table's quoted name
	definition string // the table's CREATE TABLE when the view was opened; "": unknown
	keys       []*column
	keyOf      []int // for each key column, the index of the column's value in the cell's key
	fields     []*column
	version    *column // nil: the table has no version column
	inserted   string  // the quoted columns of an INSERT: fields, keys, version
	kind       kind

	shared   bool // several cells of one key feed the view, so each contribution is kept in the state
	single   bool // the table has one row per key
	valued   bool // of a key with very many cells, only changed entries are written, not all of the key's: see crowd.go
	distinct bool // the table has a unique key on exactly the fields and the key columns
	ledger   bool // a counter: the table doesn't show a cell's contribution, so the state keeps it

	origin []*SourceColumn // for each key column: the source's column that provides it; nil: unknown
	loose  []*column       // group columns whose collation treats different values of a body as equal
	alter  string          // the statement that makes loose[0] distinguish all values

	shardOn *shardColumn // the column that decides an entry's shard; nil: one database holds the whole view

	fresh atomic.Bool // the table was empty at first, so each of its rows has a state: see fresh.go

	// unordered: rows are written without foreign key checks, because parents may come after their children. ordered: it
	// is known that the checks must stay on (references.go).
	unordered, ordered atomic.Bool
}

// kind has what differs between the three kinds of views: index, row and counter. It makes the rows of a view, and
// writes them.
type kind interface {
	// check lists the reasons why the table can't hold the view.
	check(k *keeper, sh *shape) []string

	// row converts an entry. It returns nil if the entry makes no row, such as an index entry whose property is
	// missing.
	row(k *keeper, e replicator.Entry, version int64) (row, error)

	// rows returns the rows that the table should have for a key. cells has what each cell of the key contributes, in
	// the order of View.From.
	rows(k *keeper, cells [][]row) []row

	// write makes the table show, for each changed key, what its cells now contribute.
	write(w *writer, k *keeper, changes []change) error
}

type change struct {
	key  []any
	rows [][]row // the current contributions of the key's cells, in the order of View.From
	held bool    // false: the table certainly has no rows of the key

	taken []row // a counter's earlier contributions, to be subtracted from the sums
}

func (c *change) contributes() bool {
	return slices.ContainsFunc(c.rows, func(rows []row) bool { return len(rows) > 0 })
}

// plan makes a keeper from a view and its table's shape, or lists the problems of the table.
func (s *Sink) plan(v *replicator.View, sh *shape) (*keeper, []string) {
	k := &keeper{view: v, table: sh.quoted(), shared: judge.Shares(v, s.hasColumn)}
	switch v.Kind {
	case "index":
		k.kind = indexKind{}
	case "row":
		k.kind = rowKind{}
	case "counter":
		k.kind, k.ledger, k.shared = counterKind{}, true, false
	default:
		return nil, []string{fmt.Sprintf("a MySQL sink can't keep views of kind %q", v.Kind)}
	}
	var problems []string
	if sh.isView {
		return nil, []string{"it is an SQL view, not a table"}
	}
	if !strings.EqualFold(sh.engine, "InnoDB") {
		problems = append(problems, fmt.Sprintf("its engine is %s, which has no transactions: ALTER TABLE … ENGINE=InnoDB",
			sh.engine))
	}
	take := func(name string) *column {
		c := sh.column(name)
		switch {
		case c == nil:
			problems = append(problems, fmt.Sprintf("it has no column %s%s", name, nearest.Close(name, sh.columnNames())))
		case c.generated:
			problems = append(problems, fmt.Sprintf("its column %s is generated", name))
		case !c.known():
			problems = append(problems, fmt.Sprintf("its column %s has a type that the program can't write, %s", name,
				c.declared))
		}
		return c
	}
	if !k.ledger { // a counter's groups have no key
		order, err := s.keyOrder(v)
		if err != nil {
			problems = append(problems, err.Error())
		}
		k.keyOf = order
	}
	for _, f := range settingsOf(v).KeyFrom {
		k.keys = append(k.keys, take(f.Name))
	}
	for _, f := range v.Fields {
		k.fields = append(k.fields, take(f.Name))
	}
	if name := settingsOf(v).VersionColumn; name != "" {
		k.version = take(name)
	}
	if len(problems) > 0 {
		return nil, problems
	}
	if s.shard != "" && settingsOf(v).ShardOn != "" {
		problems = k.findShardColumn()
	}
	k.inserted = k.columnList()
	k.valued = k.byValue()
	k.findDistinct(sh)
	problems = slices.Concat(problems, unmanaged(k, sh), unsteady(k, sh))
	return k, append(problems, k.kind.check(k, sh)...)
}

// managed are the columns that the sink writes, in the order of an INSERT.
func (k *keeper) managed() []*column {
	all := append(slices.Clone(k.fields), k.keys...)
	if k.version != nil {
		all = append(all, k.version)
	}
	return all
}

func (k *keeper) columnList() string { return quotedList(k.managed()) }

func quotedList(columns []*column) string {
	var names []string
	for _, c := range columns {
		names = append(names, c.quoted)
	}
	return strings.Join(names, ", ")
}

func (k *keeper) keyNames() []string {
	var names []string
	for _, c := range k.keys {
		names = append(names, c.name)
	}
	return names
}

// unmanaged lists columns that have no default and that the view doesn't fill. They would make every insert fail.
func unmanaged(k *keeper, sh *shape) []string {
	var problems []string
	for _, c := range sh.columns {
		if !c.optional && !slices.Contains(k.managed(), c) {
			problems = append(problems, fmt.Sprintf("its column %s is NOT NULL without a default, and the view doesn't fill it",
				c.name))
		}
	}
	return problems
}

// hasColumn reports whether a source table has a column role, which tells apart several cells of one key.
func (s *Sink) hasColumn(table string) bool { return s.tables[table].Column != "" }

// keyOrder finds, for each of the target's key columns, its index in a cell's key. This index must be the same for
// every table that feeds the view, or else the keys of the tables' cells would not match.
func (s *Sink) keyOrder(v *replicator.View) (order []int, err error) {
	for n, f := range v.From {
		t := s.tables[f.Table]
		var here []int
		parts := map[int]bool{}
		for _, kf := range settingsOf(v).KeyFrom {
			i := slices.Index(t.Key, config.ColumnOf(t, kf.Path))
			here, parts[i] = append(here, i), true
		}
		if parts[-1] || len(parts) != len(t.Key) {
			return nil, fmt.Errorf("its key must be made of the whole key of table %s (%s), and nothing else", f.Table,
				strings.Join(t.Key, ", "))
		}
		if n > 0 && !slices.Equal(here, order) {
			return nil, fmt.Errorf("`key` in [tables.%s] lists the columns in another order than `key` in "+
				"[tables.%s]. Use the same order in both", f.Table, v.From[0].Table)
		}
		order = here
	}
	return order, nil
}

func (k *keeper) key(values []any) ([]any, error) {
	key := make([]any, len(k.keys))
	for i, c := range k.keys {
		if k.keyOf[i] >= len(values) {
			return nil, fmt.Errorf("the key has only %d parts, because the table's key changed after the cell was read",
				len(values))
		}
		v, err := c.convert(k.ofSource(i, values[k.keyOf[i]]))
		if err != nil {
			return nil, fmt.Errorf("key column %s: %w", c.name, err)
		}
		if v == nil {
			return nil, fmt.Errorf("key column %s: the value is NULL", c.name)
		}
		key[i] = v
	}
	return key, nil
}

// ofSource converts a text of digits to a number if the source's column is a DECIMAL, because cells' keys hold a
// DECIMAL as text. If the source's column is unknown, a text counts as a number if it is written exactly as the view's
// DECIMAL column would show it.
func (k *keeper) ofSource(i int, v any) any {
	text, ok := v.(string)
	if !ok {
		return v
	}
	if k.origin != nil && k.origin[i] != nil {
		ok = k.origin[i].kind() == "decimal"
	} else {
		d, isNumber := parseDigits(text)
		ok = isNumber && k.keys[i].typ == "decimal" &&
			withDigitsAs(d.String(), "."+strings.Repeat("0", k.keys[i].scale)) == text
	}
	if ok && (k.keys[i].typ == "decimal" || integerBits[k.keys[i].typ] != 0) {
		return replicator.Number(text)
	}
	return v
}

// convertFields converts an entry's fields and appends the version, if the table has a column for it.
func (k *keeper) convertFields(e replicator.Entry, version int64) (row, error) {
	if len(e.Fields) != len(k.fields) {
		return nil, fmt.Errorf("the entry has %d fields, but the view has %d", len(e.Fields), len(k.fields))
	}
	r := make(row, len(k.fields), len(k.fields)+1)
	for i, c := range k.fields {
		v, err := c.convert(e.Fields[i])
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", c.name, err)
		}
		r[i] = v
	}
	if k.version != nil {
		v, err := k.version.convert(version)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", k.version.name, err)
		}
		r = append(r, v)
	}
	return r, nil
}
