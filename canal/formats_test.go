package canal

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

const k = "6b000000000000000000000000000000"

func TestCompressedTransactionsAreRead(t *testing.T) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		var args []string
		if kind.IsMariaDB() {
			args = []string{"--log-bin-compress=ON", "--log-bin-compress-min-len=10"}
		}
		b := newBench(t, servertest.Own(t, kind, args...))
		b.exec(cellDDL)
		src := b.source(cellTable())
		from := b.latest(src)
		on := "SET @x = 1"
		compresses(t, b)
		if !kind.IsMariaDB() {
			on = "SET SESSION binlog_transaction_compression = ON"
		}
		var rows []string
		for i := range 500 {
			rows = append(rows, fmt.Sprintf("('k', 'c', %d, REPEAT('x', 300))", i+1))
		}
		const insert = "INSERT INTO cell(row_key, column_name, ref_key, body) VALUES "
		b.session(on, insert+strings.Join(rows, ","))
		b.exec(insert + "('k', 'd', 1, '')")
		b.session(on, "BEGIN", insert+"('k', 'e', 1, '')",
			"UPDATE cell SET body = 'y' WHERE column_name = 'c' AND ref_key <= 100",
			"DELETE FROM cell WHERE column_name = 'c' AND ref_key = 200", "COMMIT")
		b.session(on, "CREATE TABLE other (a INT)", "INSERT INTO other VALUES (1)")
		got := b.changes(src, from)
		if len(got) != 500+1+1+100+1 {
			t.Fatalf("%d changes", len(got))
		}
		for i := 1; i < len(got); i++ {
			if got[i].Order < got[i-1].Order {
				t.Fatalf("order of change %d is %d, after %d", i, got[i].Order, got[i-1].Order)
			}
		}
		again := b.changes(src, from)
		for i := range again {
			if again[i].Order != got[i].Order || again[i].Version != got[i].Version {
				t.Fatalf("order of change %d is %d, in a replay %d", i, got[i].Order, again[i].Order)
			}
		}
		// A TRUNCATE in a session with compression is still noticed.
		p := b.latest(src)
		b.session(on, "TRUNCATE TABLE cell")
		if err := b.read(b.open(src, p)).failure(); !errors.Is(err, replicator.ErrUnlogged) {
			t.Errorf("reading ended with %v", err)
		}
	})
}

func TestWithoutColumnNamesValuesAreRead(t *testing.T) {
	servertest.EachKind(t, func(t *testing.T, kind servers.Kind) {
		metadata := "MINIMAL"
		if kind.IsMariaDB() {
			metadata = "NO_LOG"
		}
		b := newBench(t, servertest.Own(t, kind, "--binlog-row-metadata="+metadata))
		b.exec("CREATE TABLE x (id BIGINT UNSIGNED PRIMARY KEY, e ENUM('a','b'), s SET('p','q'), v VARCHAR(10) CHARACTER SET latin1, b BINARY(4), n INT UNSIGNED, o INT)")
		table := replicator.Table{Name: "x", Key: []string{"id"}, Columns: []string{"*"}}
		src := b.source(table)
		from := b.latest(src)
		x := b.read(b.open(src, from))
		b.exec("INSERT INTO x VALUES (18446744073709551615, 'b', 'p,q', 'é', 'a', 4294967295, -1)",
			"ALTER TABLE x ADD INDEX (n)", "INSERT INTO x VALUES (1, 'a', '', '', '', 1, 1)")
		want := []string{"insert x 18446744073709551615 v%d id=18446744073709551615 e=b s=p,q v=é b=[97 0 0 0] n=4294967295 o=-1",
			"insert x 1 v%d id=1 e=a s= v= b=[0 0 0 0] n=1 o=1"}
		got := x.upTo(b.latest(src))
		for i := range got {
			want[i] = fmt.Sprintf(want[i], got[i].Version)
		}
		wantChanges(t, got, want...)
	})
}

func TestWithoutGTIDsFilesAndPositionsDo(t *testing.T) {
	b := newBench(t, servertest.Own(t, servers.MySQL, servers.GTIDs(servers.MySQL, false)...))
	b.exec(cellDDL)
	src := b.source(cellTable())
	from := b.latest(src)
	x := b.read(b.open(src, from))
	b.exec("INSERT INTO cell(row_key, column_name, ref_key) VALUES ('k', 'c', 1)", "FLUSH LOGS",
		"INSERT INTO cell(row_key, column_name, ref_key) VALUES ('k', 'c', 2)")
	wantChanges(t, x.upTo(b.latest(src)), "insert cell.c "+k+" v1", "insert cell.c "+k+" v2")
	p := x.reader.Position(x.last())
	x.end()
	b.exec("INSERT INTO cell(row_key, column_name, ref_key) VALUES ('k', 'c', 3)")
	wantChanges(t, b.changes(src, p), "insert cell.c "+k+" v3")
	if _, err := x.reader.Includes(testContext(t), p, "fb638e7f-e58f-11f1-86dd-02fc00000001:1"); err == nil {
		t.Error("a GTID fence on a server without GTIDs is no error")
	}
	b.exec("PURGE BINARY LOGS TO 'binlog.000002'")
	if _, err := src.Open(testContext(t), []replicator.Position{from}); err == nil {
		t.Error("a purged position opens")
	}
}

// slowly is a handler that drops every change. Every 200 changes it collects garbage and measures the heap.
type slowly struct {
	*recorder
	n    int
	heap uint64
}

func (s *slowly) Change(context.Context, *replicator.Change) error {
	if s.n++; s.n%200 == 0 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		s.heap = max(s.heap, m.HeapAlloc)
	}
	return nil
}

func TestMemoryDoesNotGrowWithTheTransaction(t *testing.T) {
	if testing.Short() {
		t.Skip("writes hundreds of megabytes")
	}
	servertest.EachKindInTurn(t, func(t *testing.T, kind servers.Kind) {
		b := newBench(t, servertest.Own(t, kind))
		b.exec(cellDDL)
		src := b.source(cellTable())
		from := b.latest(src)
		on := "SET @x = 1"
		compresses(t, b)
		if !kind.IsMariaDB() {
			on = "SET SESSION binlog_transaction_compression = ON"
		}
		const rows = 1024
		fill := []string{on, "BEGIN",
			"INSERT INTO cell(row_key, column_name, ref_key, body) VALUES ('k', 'c', 1, REPEAT('x', 60000))"}
		for n := 1; n < rows; n *= 2 {
			fill = append(fill, fmt.Sprintf("INSERT INTO cell(row_key, column_name, ref_key, body) SELECT row_key, column_name, ref_key + %d, body FROM cell", n))
		}
		began := time.Now()
		b.session(append(fill, "COMMIT")...)
		written := time.Since(began)
		h := &slowly{recorder: newRecorder()}
		ctx, cancel := context.WithTimeout(testContext(t), 10*time.Minute)
		defer cancel()
		end := b.latest(src)
		r := b.open(src, from)
		go func() {
			for range h.news {
				if _, _, pos := splitOrder(h.last()); pos >= end.Order&maxAddress {
					cancel()
					return
				}
			}
		}()
		_ = r.Read(ctx, h)
		if h.n != rows || h.heap > 16<<20 {
			t.Errorf("%d rows of 60 kB, want %d; the heap grew to %d MB", h.n, rows, h.heap>>20)
		}
		t.Logf("the heap grew to %d MB over a transaction of %d MB; written in %s, all in %s", h.heap>>20, rows*60000>>20,
			written, time.Since(began))
	})
}
