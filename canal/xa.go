package canal

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"replicator"
	"replicator/canal/binlog"
	"replicator/canal/gtid"
	"replicator/internal/pause"
)

// The binlog has the rows of an XA transaction at its XA PREPARE, but they count only once it is committed, perhaps
// hours later. So its cells are remembered, and re-read from the source at the XA COMMIT, which names no tables. If a
// transaction was prepared before reading began, its cells are unknown. All tables are then reported as changed without
// a log (ErrUnlogged).
//
// To avoid this after a restart, the positions that a Reader reports stay before transactions that were prepared within
// the last seconds (positionHold).

// prepared are the XA transactions that were prepared since reading began and have not ended, by their name in XA
// COMMIT.
type prepared struct {
	log *slog.Logger

	mu    sync.Mutex // guards the fields below: other goroutines ask for positions
	names map[string]*held
	size  int64 // the size of all transactions' held changes
}

// held has the changes of an XA transaction in watched tables, to be delivered when the transaction is committed.
type held struct {
	cells      map[replicator.Cell]replicator.ChangeKind
	references map[replicator.Reference]string // of changed joined rows (without Order and Time) → the rows' table
	tables     map[string]error                // tables whose changed cells are unknown, and why they are unknown
	size       int64

	from  int64     // the log position (as a number) at which the transaction begins
	at    string    // the position at which the transaction begins as FILE:POS, for messages
	since time.Time // when the transaction's XA PREPARE was read
	told  bool      // a warning was logged, because the transaction has not ended for a long time
}

const (
	maxHeld      = 4 << 20          // bytes for the cells of all prepared transactions
	heldOverhead = 120              // approximate memory of a cell besides its own bytes
	positionHold = 10 * time.Second // how long Reader.Position stays before the beginning of a prepared XA transaction
)

// prepare records the current transaction, which ends with the given XA_PREPARE event. A transaction committed in one
// phase has ended and is not recorded.
func (s *stream) prepare(body []byte) error {
	c := binlog.Cursor{B: body}
	onePhase := c.Uint8() != 0
	format := int32(c.Uint(4))
	global, branch := int(c.Uint(4)), int(c.Uint(4))
	name := fmt.Sprintf("X'%x',X'%x',%d", c.Take(global), c.Take(branch), format)
	if err := c.Err("XA transaction"); err != nil || onePhase || s.silent() {
		return err
	}
	s.xa.mu.Lock()
	defer s.xa.mu.Unlock()
	if s.xa.names == nil {
		s.xa.names = map[string]*held{}
	}
	h := s.tx.held
	if h != nil {
		h.from, h.since = s.order(s.tx.from), time.Now()
		h.at = fmt.Sprintf("%s:%d", s.file.name, s.tx.from)
	}
	s.xa.names[strings.ToUpper(name)], s.tx.held = h, nil
	return nil
}

// endXA handles XA COMMIT and XA ROLLBACK. A committed transaction's changes become changes of the current transaction.
func (s *stream) endXA(text []byte) error {
	words := strings.Fields(strings.ToUpper(string(text)))
	if len(words) < 3 {
		return nil
	}
	name := strings.Join(words[2:], "")
	s.xa.mu.Lock()
	h, known := s.xa.names[name]
	delete(s.xa.names, name)
	s.xa.mu.Unlock()
	switch {
	case words[1] != "COMMIT" || s.silent():
		s.xa.drop(h)
	case known:
		s.tx.held, s.tx.xid = h, name
	default:
		for _, name := range slices.Sorted(maps.Keys(s.tables.byName)) {
			if err := s.unlogged(name, fmt.Errorf("table %s may have been changed by an XA transaction that was prepared before "+
				"reading began and is committed now: %w", name, replicator.ErrUnlogged)); err != nil {
				return err
			}
		}
	}
	return nil
}

// holdCell remembers a changed cell of the current transaction until it is committed. If all prepared transactions
// together have too many cells, it remembers only the tables of the current one.
func (s *stream) holdCell(c *replicator.Change) {
	h := s.holding()
	if h.tables[c.Cell.Table] != nil {
		return
	}
	if _, known := h.cells[c.Cell]; !known && !s.makeRoom(h, len(c.Cell.Key)+len(c.Cell.Column), c.Cell.Table) {
		return
	}
	if h.cells == nil {
		h.cells = map[replicator.Cell]replicator.ChangeKind{}
	}
	h.cells[c.Cell] = c.Kind
}

// holdReference remembers that a joined row changed (ref), until the current transaction is committed. table is the
// joined row's table.
func (s *stream) holdReference(table string, ref replicator.Reference) {
	h := s.holding()
	if h.tables[table] != nil {
		return
	}
	if _, known := h.references[ref]; !known && !s.makeRoom(h, len(ref.Values), table) {
		return
	}
	if h.references == nil {
		h.references = map[replicator.Reference]string{}
	}
	h.references[ref] = table
}

// makeRoom reserves memory for one held change. If the limit is reached, it drops the transaction's held changes, keeps
// only the names of their tables, and returns false.
func (s *stream) makeRoom(h *held, bytes int, table string) bool {
	size := int64(bytes) + heldOverhead
	if !s.xa.take(size) {
		s.xa.drop(h)
		h.forget("changed more cells than can be remembered until the commit", table)
		return false
	}
	h.size += size
	return true
}

// forget drops the cells and references that the transaction changed, and keeps only the names of their tables. It also
// adds the given tables.
func (h *held) forget(why string, tables ...string) {
	for cell := range h.cells {
		tables = append(tables, cell.Table)
	}
	for _, table := range h.references {
		tables = append(tables, table)
	}
	for _, table := range tables {
		h.setTable(table, fmt.Errorf("table %s was changed by an XA transaction that %s: %w", table, why, replicator.ErrUnlogged))
	}
	h.cells, h.references, h.size = nil, nil, 0
}

func (h *held) setTable(table string, err error) {
	if h.tables == nil {
		h.tables = map[string]error{}
	}
	h.tables[table] = err
}

func (s *stream) holding() *held {
	if s.tx.held == nil {
		s.tx.held = &held{}
	}
	return s.tx.held
}

func (s *stream) release(ctx context.Context) error {
	h := s.tx.held
	if h == nil {
		return nil
	}
	s.tx.held, s.tx.xa = nil, false
	s.xa.drop(h)
	if s.tx.xid != "" && len(h.cells)+len(h.references) > 0 && s.visible != nil {
		visible, err := s.visible(ctx, s.tx.xid)
		if err != nil {
			return err
		}
		if !visible {
			h.forget("was committed, but is still listed as prepared after " + settleTime.String())
		}
	}
	s.history.handOut(s.here(s.tx.run))
	for _, table := range slices.Sorted(maps.Keys(h.tables)) {
		if err := s.unlogged(table, h.tables[table]); err != nil {
			return err
		}
	}
	for cell, kind := range h.cells {
		if err := s.deliver(ctx, replicator.Change{
			Kind: kind, Cell: cell, Version: replicator.AnyVersion, Order: s.order(s.pos - 1), Time: s.tx.at,
		}); err != nil {
			return err
		}
	}
	for ref := range h.references {
		if err := s.tellReference(ctx, ref, s.order(s.pos-1)); err != nil {
			return err
		}
	}
	return nil
}

func (p *prepared) take(size int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.size+size > maxHeld {
		return false
	}
	p.size += size
	return true
}

func (p *prepared) drop(h *held) {
	if h == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.size -= h.size
}

// safeStart returns the log position `limit`, or the beginning of the earliest open XA transaction that begins before
// `limit` and was prepared within the last 10 seconds (positionHold). A reader that begins there misses no change of
// these transactions. For each open transaction that was prepared earlier, safeStart logs one warning.
func (p *prepared) safeStart(limit int64) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.names {
		switch {
		case h == nil || h.from > limit:
		case time.Since(h.since) < positionHold:
			limit = h.from
		case !h.told:
			h.told = true
			p.log.Warn("an XA transaction that changes watched tables was prepared and has not ended. XA RECOVER "+
				"lists it. Commit it or roll it back before replicator is restarted: if it is committed later, all "+
				"views must be compared with the source", slog.String("position", h.at))
		}
	}
	return limit
}

// xaVisible waits until queries see an XA transaction whose XA COMMIT is in the binlog. MariaDB may show the log
// position before it shows the rows; until then, XA RECOVER lists the transaction. The result is false if a transaction
// of that name, perhaps a new one, is still listed after settleTime.
func (r *Reader) xaVisible(ctx context.Context, xid string) (bool, error) {
	if r.server.flavor != gtid.MariaDB {
		return true, nil
	}
	conn, err := r.connect(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	for late := time.Now().Add(settleTime); time.Now().Before(late); {
		rows, err := named(ctx, conn, "XA RECOVER")
		if err != nil {
			return false, err
		}
		if !slices.ContainsFunc(rows, func(row map[string]string) bool { return xidOf(row) == xid }) {
			return true, nil
		}
		if err := pause.For(ctx, time.Millisecond); err != nil {
			return false, err
		}
	}
	return false, nil
}

// xidOf returns a transaction's name as XA COMMIT has it, from a row of XA RECOVER.
func xidOf(row map[string]string) string {
	data := row["data"]
	n, err := strconv.Atoi(row["gtrid_length"])
	if err != nil || n > len(data) {
		return ""
	}
	return strings.ToUpper(fmt.Sprintf("X'%x',X'%x',%s", data[:n], data[n:], row["formatid"]))
}
