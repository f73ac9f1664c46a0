package mysql

import (
	"context"
	"slices"
)

// maxList limits the values in one IN list, and the rows in one INSERT. MariaDB makes a temporary table of 1,000 values
// or more.
const maxList = 999

// writer writes in one transaction. It collects statements until there are enough for a round trip to the server, or
// until their result must be read.
type writer struct {
	ctx    context.Context
	conn   connection
	server *server
	epoch  int64 // see Target.epoch

	// apart makes the writer send each statement alone, to find out which one the server refuses.
	apart bool

	text    []byte // the statement that is being written
	waiting []byte // statements that are not sent yet
}

type connection interface {
	querier
	execer
}

// sendAt is the size of the text that one round trip sends, in bytes. The driver keeps buffers up to 256 KiB.
const sendAt = 240 << 10

func (w *writer) full() bool { return len(w.text) > min(sendAt, w.server.packet/2) }

// run executes the statement in w.text: at once if w.apart is set, else together with later statements. view is the
// view whose table the statement writes, or allViews.
func (w *writer) run(view int) error {
	if w.apart {
		if _, err := w.conn.ExecContext(w.ctx, w.taken(&w.text)); err != nil {
			return &viewError{view: view, err: err}
		}
		return nil
	}
	if len(w.waiting)+len(w.text) > min(sendAt, w.server.packet/2) {
		if err := w.send(); err != nil {
			return err
		}
	}
	if len(w.waiting) > 0 {
		w.waiting = append(w.waiting, ';')
	}
	w.waiting = append(w.waiting, w.text...)
	w.text = w.text[:0]
	return nil
}

func (w *writer) send() error {
	if len(w.waiting) == 0 {
		return nil
	}
	_, err := w.conn.ExecContext(w.ctx, w.taken(&w.waiting))
	return err
}

func (w *writer) taken(b *[]byte) string {
	text := string(*b)
	*b = (*b)[:0]
	return text
}

func (w *writer) write(texts ...string) {
	for _, t := range texts {
		w.text = append(w.text, t...)
	}
}

// viewError is the failure of a statement on one view's table, or on the table of states.
type viewError struct {
	view int // index in Target.views, or allViews
	err  error
}

// allViews in viewError.view means the table of states. A state belongs to all views of a cell together, and may be too
// large for a statement.
const allViews = -1

func (e *viewError) Error() string { return e.err.Error() }
func (e *viewError) Unwrap() error { return e.err }

// remove deletes the rows of changed keys, and of key variants that the collation treats as equal. If no cell
// contributes to a key any more, it leaves the variants' rows: if an application changed only the key's case, a row of
// the new variant may already have replaced the old one, and must stay.
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
	// The exact comparison can't use an index, but the comparison with k.keys as they are can.
	return w.removeWhere(k, gone, k.keys, exactly(k.keys))
}

// removeWhere deletes the rows whose columns equal the key of one of the changes. With several `lists` of columns, such
// as the columns as they are and the columns converted to binary, each list must equal the key.
func (w *writer) removeWhere(k *keeper, changes []change, lists ...[]*column) error {
	for some := range slices.Chunk(changes, maxList) {
		w.beginWrite(k, "DELETE", "FROM ", k.table, " WHERE ")
		for i, columns := range lists {
			if i > 0 {
				w.write(" AND ")
			}
			w.oneOf(columns, len(some), func(n int) []any { return some[n].key })
		}
		if err := w.run(k.viewIndex); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) oneOf(columns []*column, n int, tuple func(n int) []any) {
	w.text = appendOneOf(w.text, columns, n, tuple)
}

// exactly returns the columns, with text columns converted to binary, so that only identical values are equal.
func exactly(columns []*column) []*column {
	exact := slices.Clone(columns)
	for i, c := range exact {
		if c.collates() {
			exact[i] = &column{quoted: "CAST(CONVERT(" + c.quoted + " USING utf8mb4) AS BINARY)"}
		}
	}
	return exact
}

// oneOf returns the SQL condition that the columns equal one of n tuples of values.
func oneOf(columns []*column, n int, tuple func(n int) []any) string {
	return string(appendOneOf(nil, columns, n, tuple))
}

// appendOneOf appends the condition that the columns equal one of n tuples. A tuple may be longer than the list of
// columns: its other values are ignored. It avoids (a, b) IN ((x, y), (z, w)) in two cases: if a text column has
// another character set than the connection, MariaDB finds no rows; for a DECIMAL, MySQL 5.7 refuses values that are
// not BIGINTs.
func appendOneOf(b []byte, columns []*column, n int, values func(n int) []any) []byte {
	if len(columns) == 1 {
		b = append(append(b, columns[0].quoted...), " IN ("...)
		for i := range n {
			b = columns[0].appendCompared(appendAfter(b, i, ","), values(i)[0])
		}
		return append(b, ')')
	}
	single := slices.ContainsFunc(columns, func(c *column) bool {
		return c.charset != "" && c.charset != "utf8mb4" || c.typ == "decimal"
	})
	tuple := func(b []byte, i int, between string) []byte {
		b = append(b, '(')
		for at, c := range columns {
			b = appendAfter(b, at, between)
			if single {
				b = append(append(b, c.quoted...), " = "...)
			}
			b = c.appendCompared(b, values(i)[at])
		}
		return append(b, ')')
	}
	b = append(b, '(')
	if single {
		for i := range n {
			b = tuple(appendAfter(b, i, " OR "), i, " AND ")
		}
		return append(b, ')')
	}
	for at, c := range columns {
		b = append(appendAfter(b, at, ", "), c.quoted...)
	}
	b = append(b, ") IN ("...)
	for i := range n {
		b = tuple(appendAfter(b, i, ","), i, ",")
	}
	return append(b, ')')
}

// appendAfter appends a separator, unless the next element is the first.
func appendAfter(b []byte, n int, between string) []byte {
	if n == 0 {
		return b
	}
	return append(b, between...)
}

func (w *writer) insert(k *keeper, rows []row, keys [][]any, suffix string) error {
	for n := 0; n < len(rows); {
		w.beginWrite(k, "INSERT", "INTO ", k.table, " (", k.inserted, ") VALUES ")
		for from := n; n < len(rows) && n-from < maxList && !w.full(); n++ {
			w.text = appendAfter(w.text, n-from, ",")
			w.text = k.appendRow(w.text, rows[n], keys[n])
		}
		w.write(suffix)
		if err := w.run(k.viewIndex); err != nil {
			return err
		}
	}
	return nil
}

// appendRow appends a row's list of VALUES: the fields, the key, and the version if the table has a column for it.
func (k *keeper) appendRow(b []byte, r row, key []any) []byte {
	open := byte('(')
	for _, values := range [][]any{r[:len(k.fields)], key, r[len(k.fields):]} {
		for _, v := range values {
			b = appendLiteral(append(b, open), v)
			open = ','
		}
	}
	return append(b, ')')
}

// writeStates stores the states of cells. suffix is the clause for states that exist already; "" if all states are new.
func (w *writer) writeStates(changed []*item, suffix string) error {
	for n := 0; n < len(changed); {
		w.write("INSERT INTO ", stateTable, " (entity, cell, state) VALUES ")
		for from := n; n < len(changed) && n-from < maxList && !w.full(); n++ {
			it := changed[n]
			w.text = append(appendAfter(w.text, n-from, ","), '(')
			w.text = append(appendBinary(w.text, it.entity), ',')
			w.text = append(appendBinary(w.text, it.cell), ',')
			w.text = append(appendBinary(w.text, it.stored), ')')
		}
		w.write(suffix)
		if err := w.run(allViews); err != nil {
			return err
		}
	}
	return nil
}
