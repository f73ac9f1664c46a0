package canal

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// xaBench has the tables p and q, and a connection for XA transactions. Only p is watched.
type xaBench struct {
	*bench
	conn *sql.Conn
	src  *Source
	log  bytes.Buffer
}

func newXABench(t *testing.T, s *servers.Server) *xaBench {
	b := &xaBench{bench: newBench(t, s)}
	b.exec("CREATE TABLE p (id INT PRIMARY KEY, v INT)", "CREATE TABLE q (id INT PRIMARY KEY)", "INSERT INTO p VALUES (1, 1), (2, 2)")
	b.src = b.configured(Config{Heartbeat: time.Second, Logger: slog.New(slog.NewTextHandler(&b.log, nil)),
		Tables: []replicator.Table{{Name: "p", Key: []string{"id"}, Columns: []string{"v"}}}})
	var err error
	if b.conn, err = b.db.Conn(testContext(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.conn.Close() })
	return b
}

// id returns the XA name of transaction n, which is unique on the server.
func (b *xaBench) id(n int) string { return fmt.Sprintf("'%s%d','b',7", b.database, n) }

// prepare runs statements in an XA transaction up to XA PREPARE. end then commits the transaction or rolls it back.
func (b *xaBench) prepare(n int, statements ...string) {
	b.t.Helper()
	b.on("XA START " + b.id(n))
	b.on(statements...)
	b.on("XA END "+b.id(n), "XA PREPARE "+b.id(n))
}

func (b *xaBench) end(how string, n int) { b.t.Helper(); b.on("XA " + how + " " + b.id(n)) }

func (b *xaBench) on(statements ...string) {
	b.t.Helper()
	for _, q := range statements {
		if _, err := b.conn.ExecContext(testContext(b.t), q); err != nil {
			b.t.Fatalf("%s: %v", q, err)
		}
	}
}

// shownSorted formats changes and sorts them, because the cells of one XA transaction have no order.
func shownSorted(changes []replicator.Change) []string {
	list := shownParts(changes)
	slices.Sort(list)
	return list
}

// The changes of an XA transaction are not delivered before its commit. Its cells are then delivered to be re-read.
func TestAnXATransactionIsHandedOnWhenItIsCommitted(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newXABench(t, s)
		x := b.readOn(b.open(b.src, b.latest(b.src)))
		expect := func(want ...string) {
			t.Helper()
			if got := shownSorted(x.upTo(b.latest(b.src))); !slices.Equal(got, want) {
				t.Errorf("read %q, want %q", got, want)
			}
		}
		change := []string{"INSERT INTO p VALUES (3, 3)", "UPDATE p SET v = 9 WHERE id = 2", "UPDATE p SET id = 7 WHERE id = 1",
			"INSERT INTO q VALUES (1)"}
		b.prepare(1, change...)
		expect()
		b.end("ROLLBACK", 1)
		expect()
		b.prepare(1, change...)
		b.exec("INSERT INTO p VALUES (5, 5)")
		before := []string{"insert p 5 . v=5"}
		expect(before...)
		b.end("COMMIT", 1)
		all := []string{"delete p 1 ?", "insert p 3 ?", "insert p 5 . v=5", "insert p 7 ?", "update p 2 ?"}
		expect(all...)
		for _, c := range x.all() {
			if slices.Contains(x.commits, c.Order) {
				t.Errorf("%v has the order of a transaction's end", c)
			}
		}
	})
}

// XA COMMIT ... ONE PHASE ends a transaction that was not prepared.
func TestAnXATransactionOfOnePhaseIsHandedOnAtItsEnd(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newXABench(t, s)
		x := b.readOn(b.open(b.src, b.latest(b.src)))
		b.on("XA START "+b.id(1), "UPDATE p SET v = 9 WHERE id = 2", "XA END "+b.id(1), "XA COMMIT "+b.id(1)+" ONE PHASE")
		got := shownParts(x.upTo(b.latest(b.src)))
		if len(got) != 1 || got[0] != "update p 2 ?" && got[0] != "update p 2 . v=9" {
			t.Errorf("read %q", got)
		}
	})
}

// XA COMMIT names no tables. So an XA transaction that was prepared before reading began may have changed any table.
func TestAnXATransactionPreparedBeforeReadingBeganIsAMatterOfAllTables(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newXABench(t, s)
		b.prepare(1, "INSERT INTO q VALUES (1)")
		x := b.readOn(b.open(b.src, b.latest(b.src)))
		b.end("COMMIT", 1)
		x.upTo(b.latest(b.src))
		if got := x.lacked(); got != "p" {
			t.Errorf("lacked %q, want p", got)
		}
		b.prepare(2, "INSERT INTO q VALUES (2)")
		b.end("COMMIT", 2)
		b.on("XA START "+b.id(3), "INSERT INTO q VALUES (3)", "XA END "+b.id(3), "XA COMMIT "+b.id(3)+" ONE PHASE")
		b.prepare(4, "INSERT INTO q VALUES (4)")
		b.end("ROLLBACK", 4)
		x.upTo(b.latest(b.src))
		if got := x.lacked(); got != "p" {
			t.Errorf("of transactions that are known, and of no table that is watched, %q was lacked", got)
		}
	})
}

// A position stays before an XA transaction that was prepared recently, so that a reader that begins there knows its
// cells. If the transaction does not end, positions pass it after a short time.
func TestPositionsStayBeforeAPreparedXATransaction(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newXABench(t, s)
		from := b.latest(b.src)
		r := b.open(b.src, from)
		x := b.readOn(r)
		b.exec("INSERT INTO p VALUES (5, 5)")
		before := b.latest(b.src)
		b.prepare(1, "UPDATE p SET v = 9 WHERE id = 2")
		b.exec("INSERT INTO p VALUES (6, 6)")
		end := b.latest(b.src)
		x.upTo(end)
		at := r.Position(x.last())
		if at.Order != before.Order {
			t.Errorf("the position is %s, want %s, before the transaction", r.Locate(at.Order), r.Locate(before.Order))
		}
		x.end()

		y := b.readOn(b.open(b.src, at))
		y.upTo(end)
		b.end("COMMIT", 1)
		want := []string{"insert p 6 . v=6", "update p 2 ?"}
		if got := shownSorted(y.upTo(b.latest(b.src))); !slices.Equal(got, want) || y.lacked() != "" {
			t.Errorf("from there %q was read and %q lacked, want %q and nothing", got, y.lacked(), want)
		}
		if at := y.reader.Position(y.last()); at.Order < end.Order {
			t.Errorf("the position is %s after the transaction ended", y.reader.Locate(at.Order))
		}

		b.prepare(2, "UPDATE p SET v = 10 WHERE id = 2")
		x = y
		x.upTo(b.latest(b.src))
		x.reader.stream.xa.mu.Lock()
		for _, h := range x.reader.stream.xa.names {
			h.since = h.since.Add(-positionHold)
		}
		x.reader.stream.xa.mu.Unlock()
		for range 2 {
			if at := x.reader.Position(x.last()); at.Order != x.last() {
				t.Errorf("the position is %s, before a transaction that does not end", x.reader.Locate(at.Order))
			}
		}
		x.end()
		b.end("COMMIT", 2)
		if got := b.log.String(); strings.Count(got, "XA RECOVER") != 1 || !strings.Contains(got, "position=binlog.0") {
			t.Errorf("logged %s", got)
		}
	})
}

// The cells of prepared transactions take at most maxHeld bytes.
func TestAnXATransactionOfTooManyCellsIsAMatterOfItsTables(t *testing.T) {
	s := servertest.Shared(t, servers.MySQL)
	b := newXABench(t, s)
	x := b.readOn(b.open(b.src, b.latest(b.src)))
	b.prepare(1, "SET SESSION cte_max_recursion_depth = 50000", "INSERT INTO p WITH RECURSIVE n AS (SELECT 100 AS i UNION ALL "+
		"SELECT i + 1 FROM n WHERE i < 40000) SELECT i, i FROM n")
	x.upTo(b.latest(b.src))
	if size := x.reader.stream.xa.size; size > maxHeld {
		t.Errorf("%d bytes are held", size)
	}
	b.end("COMMIT", 1)
	b.prepare(2, "UPDATE p SET v = 0 WHERE id = 1")
	b.end("COMMIT", 2)
	if got := shownParts(x.upTo(b.latest(b.src))); !slices.Equal(got, []string{"update p 1 ?"}) || x.lacked() != "p" {
		t.Errorf("read %d changes and lacked %q, want one of the second transaction and table p", len(got), x.lacked())
	}
	if x.end(); x.reader.stream.xa.size != 0 {
		t.Errorf("%d bytes are still held", x.reader.stream.xa.size)
	}
}

// Once an XA COMMIT is in the binlog, a read sees the committed rows.
func TestAReadSeesAnXATransactionThatIsCommitted(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newXABench(t, s)
		r := b.open(b.src, b.latest(b.src))
		rec := newRecorder()
		ctx, cancel := context.WithCancel(testContext(t))
		defer cancel()
		seen := make(chan error, 1)
		const last = 300
		cell := replicator.Cell{Table: "p", Key: mustKey(t, int64(1))}
		go func() { seen <- r.Read(ctx, &readsAtOnce{rec, r, cell, last}) }()
		for n := range last {
			b.prepare(n, fmt.Sprintf("UPDATE p SET v = %d WHERE id = 1", 100+n))
			b.end("COMMIT", n)
		}
		select {
		case err := <-seen:
			if err != errAllSeen {
				t.Error(err)
			}
		case <-ctx.Done():
			t.Errorf("only %d were read", len(rec.all()))
		}
	})
}

var errAllSeen = fmt.Errorf("all were seen")

// readsAtOnce is a handler that reads a cell as soon as it receives a change of the cell.
type readsAtOnce struct {
	*recorder
	reader *Reader
	cell   replicator.Cell
	last   int
}

func (h *readsAtOnce) Change(ctx context.Context, c *replicator.Change) error {
	rows, asOf, err := h.reader.Newest(ctx, []replicator.Cell{h.cell}, 0)
	if err != nil {
		return err
	}
	n := int64(len(h.all()))
	_ = h.recorder.Change(ctx, c)
	if v := rows[0].Columns[0].(int64); v < 100+n {
		return fmt.Errorf("a read as of %s saw %d, where %d was committed at %s", h.reader.Locate(asOf), v, 100+n,
			h.reader.Locate(c.Order))
	}
	if int(n) == h.last-1 {
		return errAllSeen
	}
	return nil
}

func mustKey(t *testing.T, values ...any) replicator.Key {
	t.Helper()
	k, err := replicator.MakeKey(values...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}
