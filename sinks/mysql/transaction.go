package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"slices"
	"strconv"

	"replicator"
)

// A batch's transaction takes two round trips. The first begins the transaction, locks and reads. The second writes and
// commits. Each round trip costs this process and the server some 20 µs of processor time, whatever its size.

// onConnection calls do with a connection. do begins and commits a transaction on it. If do fails, onConnection rolls
// the transaction back.
func (s *Sink) onConnection(ctx context.Context, do func(*sql.Conn) error) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := do(conn); err != nil {
		if _, rerr := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK"); rerr != nil {
			// The connection may be in the middle of a statement or result, so it is not used again.
			_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		}
		return err
	}
	return nil
}

// impatient calls do with a connection that waits only the given seconds for other sessions' use of a table. The wait
// must be short, because later statements on the table queue behind the waiting one.
func (s *Sink) impatient(ctx context.Context, seconds int, do func(*sql.Conn) error) error {
	return s.onConnection(ctx, func(conn *sql.Conn) error {
		var patience int64
		if err := conn.QueryRowContext(ctx, "SELECT @@lock_wait_timeout").Scan(&patience); err != nil {
			return err
		}
		set := func(ctx context.Context, seconds int64) error {
			_, err := conn.ExecContext(ctx, fmt.Sprintf("SET SESSION lock_wait_timeout = %d", seconds))
			return err
		}
		if err := set(ctx, int64(seconds)); err != nil {
			return err
		}
		err := do(conn)
		if rerr := set(context.WithoutCancel(ctx), patience); rerr != nil {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		}
		return err
	})
}

// begin is a batch's first round trip: it begins the transaction, locks the partitions, and reads the states of
// entities and then the views' horizons.
func (w *writer) begin(
	t *Target, partitions []int, entities, cells []string, crowds *crowdReading,
) (*batchStates, error) {
	w.write("START TRANSACTION;")
	w.writeLocks(partitions)
	if len(entities) > 0 {
		w.write(";")
		w.writeReading(entities, cells)
	}
	if len(t.others) > 0 {
		w.write("; ")
		w.writeOwners(t)
	}
	crowds.write(w)
	w.writeHorizons(t)
	rows, err := w.conn.QueryContext(w.ctx, w.taken(&w.text))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	if err := w.locked(rows, len(partitions)); err != nil {
		return nil, err
	}
	found := &batchStates{own: make(heldStates, len(entities)), others: heldStates{}, horizons: map[uint32]int64{}}
	add := func(entity, cell []byte, state cellState, stored string) error {
		h := heldState{cell: string(cell), views: state, stored: stored}
		to, id := found.place(t.source, &h, string(entity))
		if crowds != nil {
			crowds.add(to, id, h)
		} else {
			to[id] = append(to[id], h)
		}
		return nil
	}
	// The first result has the states of `entities`, if there are any. The next one is that of writeOwners.
	owners := min(len(entities), 1)
	horizons := owners + min(len(t.others), 1) + crowds.reads()
	for set := 0; rows.NextResultSet(); set++ {
		switch {
		case set == owners && len(t.others) > 0:
			err = found.scanOwners(rows)
		case set == horizons:
			err = found.scanHorizons(rows)
		default:
			err = scanStates(rows, add)
		}
		if err != nil {
			return nil, err
		}
	}
	found.own.order()
	return found, rows.Err()
}

func (w *writer) lockAll() error {
	all := make([]int, replicator.Partitions)
	for i := range all {
		all[i] = i
	}
	w.writeLocks(all)
	rows, err := w.conn.QueryContext(w.ctx, w.taken(&w.text))
	if err != nil {
		return err
	}
	defer rows.Close()
	return w.locked(rows, len(all))
}

// writeLocks appends the query that locks the partitions of a batch's keys, in order. A partition is a share of all
// keys, and has a row in replicator_locks. The query locks partitions and not states, because a state that doesn't
// exist yet can't be locked.
//
// A join with a derived table of the partitions' ids makes MySQL find the rows one by one. For "id IN (...)" MySQL
// reads this small table from end to end, even with FORCE INDEX, and waits for every row that another transaction has
// locked.
func (w *writer) writeLocks(partitions []int) {
	if len(partitions) == 1 {
		w.write("SELECT epoch FROM ", locksTable, " WHERE id = ", strconv.Itoa(partitions[0]), " FOR UPDATE")
		return
	}
	w.write("SELECT l.epoch FROM (")
	for i, p := range partitions {
		w.text = appendAfter(w.text, i, " UNION ALL ")
		w.write("SELECT ", strconv.Itoa(p), " AS id")
	}
	w.write(") p STRAIGHT_JOIN ", locksTable, " l FORCE INDEX (PRIMARY) ON l.id = p.id FOR UPDATE")
}

// locked reads the result of writeLocks for n partitions. It fails if the epoch has changed since the target was
// opened.
func (w *writer) locked(rows *sql.Rows, n int) error {
	epochs := make([]int64, 0, n)
	for rows.Next() {
		var epoch int64
		if err := rows.Scan(&epoch); err != nil {
			return err
		}
		epochs = append(epochs, epoch)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if !sameEpoch(epochs, w.epoch) {
		return errSwapped
	}
	if len(epochs) != n {
		return fmt.Errorf("rows of table %s are missing. The program adds them when it opens the views again, "+
			"which it does automatically", locksTable)
	}
	return nil
}

func (w *writer) commit() error {
	w.write("COMMIT")
	if err := w.run(allViews); err != nil {
		return err
	}
	return w.send()
}

// heldStates are states that were read, by entity, in the order of the entity's cells.
type heldStates map[string][]heldState

type heldState struct {
	cell   string
	views  cellState
	stored string // the cell's state as it is stored; "" if none was read

	source, entity string // for another source's state: that source, and the entity's id there; else both ""
}

func (s heldStates) of(entity, cell string) heldState {
	all := s[entity]
	i, ok := slices.BinarySearchFunc(all, cell, func(h heldState, cell string) int { return cmp.Compare(h.cell, cell) })
	if ok {
		return all[i]
	}
	return heldState{cell: cell}
}

func (s heldStates) order() {
	for _, all := range s {
		slices.SortFunc(all, func(a, b heldState) int { return cmp.Compare(a.cell, b.cell) })
	}
}

func (h heldState) find(view uint32) *viewState { return h.views.find(view) }

func (s heldStates) add(entity, cell []byte, state cellState, stored string) error {
	s[string(entity)] = append(s[string(entity)], heldState{cell: string(cell), views: state, stored: stored})
	return nil
}

func readStates(ctx context.Context, q querier, entities []string) (heldStates, error) {
	found := make(heldStates, len(entities))
	for some := range slices.Chunk(entities, maxList) {
		w := writer{}
		w.writeReading(some, nil)
		rows, err := q.QueryContext(ctx, string(w.text))
		if err == nil {
			err = scanStates(rows, found.add)
			rows.Close()
		}
		if err != nil {
			return nil, err
		}
	}
	found.order()
	return found, nil
}

// writeReading appends the query for the states of all cells of the entities. An entity is a key of one source, and may
// have several cells. If `cells` is not empty, the query reads only cells with these ids.
func (w *writer) writeReading(entities, cells []string) {
	w.write("SELECT entity, cell, state FROM ", stateTable, " WHERE entity IN (")
	w.binaries(entities)
	if len(cells) > 0 {
		w.write(") AND cell IN (")
		w.binaries(cells)
	}
	w.write(")")
}

func (w *writer) binaries(all []string) {
	for i, one := range all {
		w.text = appendBinary(appendAfter(w.text, i, ","), one)
	}
}

// scanStates calls f with the states that a query finds. The entity and the cell are valid only until f returns.
func scanStates(rows *sql.Rows, f func(entity, cell []byte, state cellState, stored string) error) error {
	var entity, cell, raw sql.RawBytes
	for rows.Next() {
		if err := rows.Scan(&entity, &cell, &raw); err != nil {
			return err
		}
		stored := string(raw)
		state, err := parseState(stored)
		if err != nil {
			return replicator.Fatal(fmt.Errorf("table %s: %s (WHERE entity = x'%x' AND cell = x'%x'): %w", stateTable,
				described(entity, cell), entity, cell, err))
		}
		if err := f(entity, cell, state, stored); err != nil {
			return err
		}
	}
	return rows.Err()
}

// eachState calls f with the states of the cells that meet an SQL condition. entity and cell are valid only until f
// returns.
func eachState(
	ctx context.Context, q querier, f func(entity, cell []byte, state cellState) error, condition string, args ...any,
) error {
	rows, err := q.QueryContext(ctx, "SELECT entity, cell, state FROM "+stateTable+" WHERE "+condition, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	return scanStates(rows, func(entity, cell []byte, state cellState, _ string) error { return f(entity, cell, state) })
}
