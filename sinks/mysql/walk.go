package mysql

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"replicator"
	"replicator/sinks/judge"
)

// pageKeys returns the next page of distinct keys of a view's table, with the types of the source's columns. It reads
// the rows that meet condition; "" means all rows.
func (t *Target) pageKeys(
	ctx context.Context, k *keeper, condition, after string, limit int,
) (keys []replicator.Key, next string, err error) {
	list, where := quotedList(k.keys), ""
	if condition != "" {
		where = " WHERE " + condition
	}
	if after != "" {
		var stored []byte
		if err := judge.At(after, &stored); err != nil {
			return nil, "", err
		}
		last, err := parseRows(string(stored))
		if err != nil || len(last) != 1 || len(last[0]) != len(k.keys) {
			return nil, "", fmt.Errorf("%q is not a cursor of this listing", after)
		}
		if where = " WHERE (" + beyond(k.keys, last[0]) + ")"; condition != "" {
			where += " AND " + condition
		}
	}
	var found [][]sql.NullString
	err = eachTexts(ctx, t.sink.db, len(k.keys),
		func(texts []sql.NullString) { found = append(found, slices.Clone(texts)) },
		"SELECT DISTINCT "+list+" FROM "+k.table+where+" ORDER BY "+list+" LIMIT "+strconv.Itoa(limit))
	if err != nil {
		return nil, "", err
	}
	// Find the types of the key's values only after reading the rows. If the program wrote a row before, the row's
	// state exists by now, and the key in that state shows the types.
	kinds, err := t.keyKinds(ctx, k)
	if err != nil {
		return nil, "", err
	}
	for _, values := range found {
		key, err := k.sourceKey(values, kinds)
		if err != nil {
			return nil, "", err
		}
		keys = append(keys, key)
	}
	if len(found) == limit {
		last := make(row, len(k.keys))
		for i, v := range found[limit-1] {
			last[i] = k.keys[i].place(v.String)
		}
		next = judge.Cursor(appendRows(nil, []row{last}))
	}
	return keys, next, nil
}

// place converts a column's value to a literal that sorts like the column. An ENUM or SET sorts by its members'
// numbers.
func (c *column) place(text string) any {
	switch c.typ {
	case "enum":
		return int64(slices.Index(c.members, text) + 1)
	case "set":
		var bits uint64
		for i, m := range c.members {
			if slices.Contains(strings.Split(text, ","), m) {
				bits |= 1 << i
			}
		}
		return bits
	}
	return c.asBound(text)
}

// beyond returns the condition for keys after last. A comparison of rows, (a, b) > (x, y), would use no index.
func beyond(keys []*column, last row) string {
	var ors, equal []string
	for i, c := range keys {
		value := string(c.appendCompared(nil, last[i]))
		ors = append(ors, "("+strings.Join(append(slices.Clip(equal), c.quoted+" > "+value), " AND ")+")")
		equal = append(equal, c.quoted+" = "+value)
	}
	return strings.Join(ors, " OR ")
}

type cellPlace struct{ Entity, Cell []byte }

// beyondCell is the condition for cells after a cellPlace. Its arguments are the entity twice, and the cell.
const beyondCell = "(entity > ? OR (entity = ? AND cell > ?))"

const inOrder = " ORDER BY entity, cell LIMIT "

// cellAt parses a page's cursor. An empty cursor means the position before all cells of the entity.
func cellAt(cursor string, entity []byte) (cellPlace, error) {
	p := cellPlace{Entity: entity, Cell: []byte{}}
	return p, judge.At(cursor, &p)
}

func (p cellPlace) cell(source string) (replicator.Cell, error) {
	return parseCell(source, string(p.Entity), string(p.Cell))
}

// cells reads a page of the states of the source's cells, and returns the cells for which `wanted` returns true.
func (t *Target) cells(
	ctx context.Context, from string, limit int, wanted func(cellState) bool,
) (cells []replicator.Cell, next string, err error) {
	first, end := sourceRange(t.source)
	last, err := cellAt(from, first)
	if err != nil {
		return nil, "", err
	}
	n := 0
	err = eachState(ctx, t.sink.db, func(entity, cell []byte, state cellState) error {
		n++
		last = cellPlace{bytes.Clone(entity), bytes.Clone(cell)}
		if !wanted(state) {
			return nil
		}
		c, err := last.cell(t.source)
		cells = append(cells, c)
		return err
	}, beyondCell+" AND entity < ?"+inOrder+strconv.Itoa(limit), last.Entity, last.Entity, last.Cell, end)
	if n == limit {
		next = judge.Cursor(last)
	}
	return cells, next, err
}

func sourceRange(source string) (first, end []byte) {
	first = []byte(entityID(source, ""))
	return first, after(first)
}

// after returns the first text after all texts that begin with b.
func after(b []byte) []byte {
	end := append([]byte(nil), b...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return append([]byte(nil), 0xff, 0xff, 0xff, 0xff)
}
