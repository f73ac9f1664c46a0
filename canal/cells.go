package canal

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"replicator"
)

// versionsRead is how many rows a query reads for each requested cell, because a cell may have several rows.
const versionsRead = 4

// Cells implements replicator.Reader. It reads only the key columns, so an index on them is enough. It must list keys
// that the server treats as equal, such as "a" and "A", separately, so it does not use DISTINCT.
func (r *Reader) Cells(ctx context.Context, table string, columns []string, after string,
	limit int) (cells []replicator.Cell, next string, err error) {
	// This loop reads the tables of a pattern one after another.
	for next = after; len(cells) == 0 || next != "" && len(cells) < limit; {
		some, behind, err := r.cellsOf(ctx, table, columns, next, limit-len(cells))
		if err != nil {
			return nil, "", err
		}
		cells, next = append(cells, some...), behind
		if next == "" || r.tables.pattern(table) == nil {
			break
		}
	}
	return cells, next, nil
}

func (r *Reader) cellsOf(ctx context.Context, table string, columns []string, after string,
	limit int) ([]replicator.Cell, string, error) {
	at, err := r.at(table, after)
	if err != nil || at == nil {
		return nil, "", err
	}
	x := at.x.keysOnly()
	after = at.after
	most := limit * versionsRead
	query, args, err := x.scanQuery(columns, after, most)
	if err != nil {
		return nil, "", err
	}
	conn, err := r.connect(ctx)
	if err != nil {
		return nil, "", err
	}
	defer conn.Close()
	var cells []replicator.Cell
	read, next := 0, ""
	err = x.read(ctx, conn, query, args, func(_ int, values [][]byte) error {
		read++
		row, err := x.row(ctx, values, 0, time.Time{})
		if err != nil {
			return err
		}
		next = x.encodeOffset(values)
		if (len(columns) == 0 || slices.Contains(columns, row.Cell.Column)) &&
			(len(cells) == 0 || cells[len(cells)-1] != row.Cell) {
			cells = append(cells, row.Cell)
		}
		return nil
	})
	if err != nil {
		return nil, "", classify(err)
	}
	if read < most {
		next = ""
	}
	next, _ = at.nextOffset(next, read < most)
	return cells, next, nil
}

// Siblings implements replicator.Reader. It lists keys that the server treats as equal, such as "a" and "A",
// separately.
func (r *Reader) Siblings(ctx context.Context, table string,
	keys []replicator.Key) (cells []replicator.Cell, err error) {
	all, err := r.selections(table)
	if err != nil {
		return nil, err
	}
	conn, err := r.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := r.sameMembers(ctx, conn, table); err != nil {
		return nil, err
	}
	seen := map[replicator.Cell]bool{}
	for _, x := range all {
		some, err := x.siblings(ctx, conn, x.mayHold(keys))
		if err != nil {
			return nil, err
		}
		for _, c := range some {
			if !seen[c] {
				seen[c] = true
				cells = append(cells, c)
			}
		}
	}
	return cells, nil
}

func (x *selection) siblings(ctx context.Context, conn querier, keys []replicator.Key) (cells []replicator.Cell,
	err error,
) {
	x = x.keysOnly()
	ofAny := *x
	ofAny.column = -1
	for some := range slices.Chunk(keys, newestBatch) {
		var selects, conditions []string
		var args []any
		for n, key := range some {
			where, values, err := ofAny.cellCondition(replicator.Cell{Table: x.t.Name, Key: key})
			if err != nil {
				return nil, err
			}
			selects = append(selects, fmt.Sprintf("(SELECT %d, %s FROM %s WHERE %s)", n, x.list, x.from(), where))
			conditions = append(conditions, where)
			args = append(args, values...)
		}
		query := strings.Join(selects, " UNION ALL ")
		if x.t.Pattern { // each table of a pattern has few of the keys, so one query for all keys is faster
			query = "SELECT 0, " + x.list + " FROM " + x.from() + " WHERE (" + strings.Join(conditions, ") OR (") + ")"
		}
		err := x.read(ctx, conn, query, args, func(_ int, values [][]byte) error {
			row, err := x.row(ctx, values, 0, time.Time{})
			if err == nil {
				cells = append(cells, row.Cell)
			}
			return err
		})
		if err != nil {
			return nil, classify(err)
		}
	}
	return cells, nil
}

// keysOnly returns a selection of only the columns that identify a cell, for queries that return cells in the order of
// their keys.
func (x *selection) keysOnly() *selection {
	y := &selection{t: x.t, shape: x.shape, single: true, roles: noRoles()}
	var list []string
	add := func(i int) int {
		y.columns = append(y.columns, x.columns[i])
		list = append(list, x.columns[i].expression())
		at := len(y.columns) - 1
		if x.columns[i].literal != "" {
			return at
		}
		if p := x.columns[i].place(); p.raw {
			y.columns = append(y.columns, p)
			list = append(list, p.expression())
		}
		y.offset = append(y.offset, len(y.columns)-1)
		return at
	}
	for _, i := range x.key {
		y.key = append(y.key, add(i))
	}
	if x.column >= 0 && !slices.Contains(x.key, x.column) {
		y.column = add(x.column)
	} else if x.column >= 0 {
		y.column = y.key[slices.Index(x.key, x.column)]
	}
	y.list = strings.Join(list, ", ")
	return y
}

// Estimate returns the approximate number of rows of a table.
func (r *Reader) Estimate(ctx context.Context, table string) (int64, error) {
	w := r.tables.first(table)
	if w == nil {
		return 0, replicator.Fatal(fmt.Errorf("table %s isn't configured", table))
	}
	conn, err := r.connect(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if p := r.tables.pattern(table); p != nil {
		n, err := p.rows(ctx, conn)
		return n, classify(err)
	}
	n, err := w.rows(ctx, conn)
	return n, classify(err)
}
