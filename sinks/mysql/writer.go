package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxList is how many values stand in one IN list or rows in one INSERT. MariaDB makes a temporary table of 1,000 or
// more.
const maxList = 999

// writer writes in one transaction.
type writer struct {
	ctx    context.Context
	tx     *sql.Tx
	server *server
	epoch  int64 // of the sink, when the target was opened
	args   []any // reused
}

// viewError is the failure of a statement on one view's table, or on the table of states.
type viewError struct {
	view int // its place in Target.Views, or allViews
	err  error
}

// allViews stands for the table of states: what is kept of a cell for all views together may be too much for a
// statement.
const allViews = -1

func (e *viewError) Error() string { return e.err.Error() }
func (e *viewError) Unwrap() error { return e.err }

// remove deletes all rows of the keys that may have some. Of a key to which nothing contributes any more only the rows
// with that very key go: an application that changes a key in its case alone makes another key of it, which the
// column's collation takes for the same, and whose row may stand in the old one's place by now.
func (w *writer) remove(k *keeper, changes []change) error {
	var held, gone []change
	for _, c := range changes {
		switch {
		case !c.held:
		case c.contributes():
			held = append(held, c)
		default:
			gone = append(gone, c)
		}
	}
	if err := w.removeWhere(k, held, k.keys); err != nil {
		return err
	}
	if !slices.ContainsFunc(k.keys, (*column).collates) {
		return w.removeWhere(k, gone, k.keys)
	}
	return w.removeWhere(k, gone, k.keys, k.exactKeys()) // an index serves only what is compared by its own collation
}

// removeWhere deletes the rows whose columns hold one of the changes' keys: in each of the lists, the keys' columns or
// what is made of them.
func (w *writer) removeWhere(k *keeper, changes []change, lists ...[]*column) error {
	for some := range slices.Chunk(changes, maxList) {
		w.args = w.args[:0]
		var conditions []string
		for _, columns := range lists {
			conditions = append(conditions, oneOf(columns, len(some)))
			for _, c := range some {
				w.args = append(w.args, c.key...)
			}
		}
		if err := w.exec("DELETE FROM "+k.table+" WHERE "+strings.Join(conditions, " AND "), k); err != nil {
			return err
		}
	}
	return nil
}

// exactKeys are the key columns, those of text as bytes: so no two values are equal but those that are the same.
func (k *keeper) exactKeys() []*column {
	exact := slices.Clone(k.keys)
	for i, c := range exact {
		if c.collates() {
			exact[i] = &column{quoted: "CAST(CONVERT(" + c.quoted + " USING utf8mb4) AS BINARY)"}
		}
	}
	return exact
}

// oneOf is a condition that columns hold one of n tuples of values. Of text in another character set than the
// connection's MariaDB finds nothing by (a, b) IN ((x, y), (z, w)).
func oneOf(columns []*column, n int) string {
	list := func(one, separator string) string {
		return strings.TrimSuffix(strings.Repeat(one+separator, n), separator)
	}
	if len(columns) == 1 {
		return columns[0].quoted + " IN (" + list(columns[0].mark(), ",") + ")"
	}
	var names, values, equal []string
	foreign := false
	for _, c := range columns {
		names, values, equal = append(names, c.quoted), append(values, c.mark()), append(equal, c.quoted+" = "+c.mark())
		foreign = foreign || c.charset != "" && c.charset != "utf8mb4"
	}
	if foreign {
		return "(" + list("("+strings.Join(equal, " AND ")+")", " OR ") + ")"
	}
	return "(" + strings.Join(names, ", ") + ") IN (" + list("("+strings.Join(values, ",")+")", ",") + ")"
}

// insert inserts rows, as many in a statement as the server takes.
func (w *writer) insert(k *keeper, rows []row, keys [][]any, suffix string) error {
	one := "(" + placeholders(len(k.fields)+len(k.keys)+versionColumns(k)) + "),"
	for len(rows) > 0 {
		w.args = w.args[:0]
		n, size := 0, 0
		for n < len(rows) && n < maxList {
			before := len(w.args)
			w.args = k.arguments(w.args, rows[n], keys[n])
			if size += sizeOf(w.args[before:]); n > 0 && size > w.server.packet/2 {
				w.args = w.args[:before]
				break
			}
			n++
		}
		st := "INSERT INTO " + k.table + " (" + k.inserted + ") VALUES " + strings.TrimSuffix(strings.Repeat(one, n), ",") +
			suffix
		if err := w.exec(st, k); err != nil {
			return err
		}
		rows, keys = rows[n:], keys[n:]
	}
	return nil
}

func versionColumns(k *keeper) int {
	if k.version == nil {
		return 0
	}
	return 1
}

func (w *writer) exec(statement string, k *keeper) error {
	if _, err := w.tx.ExecContext(w.ctx, statement, w.args...); err != nil {
		return &viewError{view: k.place, err: err}
	}
	return nil
}

// sizeOf is about how long values are in a statement, if nothing in them needs an escape.
func sizeOf(values []any) int {
	n := 0
	for _, v := range values {
		switch v := v.(type) {
		case string:
			n += len(v)
		case []byte:
			n += len(v) + 8
		default:
			n += 8
		}
		n += 3
	}
	return n
}

// lock locks the partitions of the batch's keys, in order. A state that doesn't exist yet can't be locked in READ
// COMMITTED: two writers of a new cell would both take it for unseen. Partitions always exist.
//
// The rows are looked up one by one, by a join with a list of them: for "id IN (…)" MySQL reads this small table from
// end to end, even with FORCE INDEX, and waits for every row that another lane holds.
func (w *writer) lock(partitions []int) error {
	list := make([]string, len(partitions))
	for i, p := range partitions {
		list[i] = "SELECT " + strconv.Itoa(p) + " AS id"
	}
	var epochs []int64
	err := eachRow(w.ctx, w.tx, func(rows *sql.Rows) error {
		var epoch int64
		err := rows.Scan(&epoch)
		epochs = append(epochs, epoch)
		return err
	}, "SELECT l.epoch FROM ("+strings.Join(list, " UNION ALL ")+") p STRAIGHT_JOIN "+locksTable+
		" l FORCE INDEX (PRIMARY) ON l.id = p.id FOR UPDATE")
	if err != nil {
		return err
	}
	if !sameEpoch(epochs, w.epoch) {
		return errSwapped
	}
	if len(epochs) != len(partitions) {
		return fmt.Errorf("table %s has lost rows; the next start adds them", locksTable)
	}
	return nil
}

// readStates reads the states of entities: of all their cells, or only of the named ones.
func readStates(
	ctx context.Context, q querier, entities []string, cells []string,
) (map[string]map[string]cellState, error) {
	states := make(map[string]map[string]cellState, len(entities))
	for some := range slices.Chunk(entities, maxList) {
		args := make([]any, 0, len(some)+len(cells))
		for _, e := range some {
			args = append(args, []byte(e))
		}
		condition := "entity IN (" + placeholders(len(some)) + ")"
		if len(cells) > 0 {
			condition += " AND cell IN (" + placeholders(len(cells)) + ")"
			for _, c := range cells {
				args = append(args, []byte(c))
			}
		}
		err := eachState(ctx, q, func(entity, cell []byte, state cellState) error {
			of := states[string(entity)]
			if of == nil {
				of = map[string]cellState{}
				states[string(entity)] = of
			}
			of[string(cell)] = state
			return nil
		}, condition, args...)
		if err != nil {
			return nil, err
		}
	}
	return states, nil
}

// eachState gives f the states of the cells that a condition names. The entity and the cell are valid only until it
// returns.
func eachState(
	ctx context.Context, q querier, f func(entity, cell []byte, state cellState) error, condition string, args ...any,
) error {
	var entity, cell, stored sql.RawBytes
	return eachRow(ctx, q, func(rows *sql.Rows) error {
		if err := rows.Scan(&entity, &cell, &stored); err != nil {
			return err
		}
		state, err := parseState(string(stored))
		if err != nil {
			return fmt.Errorf("table %s: %w", stateTable, err)
		}
		return f(entity, cell, state)
	}, "SELECT entity, cell, state FROM "+stateTable+" WHERE "+condition, args...)
}

// writeStates stores the states of cells that changed.
func (w *writer) writeStates(changed []*item) error {
	for len(changed) > 0 {
		w.args = w.args[:0]
		n, size := 0, 0
		for n < len(changed) && n < maxList {
			it := changed[n]
			blob := it.after.append(make([]byte, 0, 128))
			if size += len(blob) + len(it.entity) + len(it.cell); n > 0 && size > w.server.packet/2 {
				break
			}
			w.args = append(w.args, []byte(it.entity), []byte(it.cell), blob)
			n++
		}
		st := "INSERT INTO " + stateTable + " (entity, cell, state) VALUES " +
			strings.TrimSuffix(strings.Repeat("(?,?,?),", n), ",") + w.server.rowAlias() + " ON DUPLICATE KEY UPDATE state = " +
			w.server.newRow("state")
		if _, err := w.tx.ExecContext(w.ctx, st, w.args...); err != nil {
			return &viewError{view: allViews, err: err}
		}
		changed = changed[n:]
	}
	return nil
}
