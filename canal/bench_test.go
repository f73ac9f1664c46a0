package canal

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"

	"replicator"
	"replicator/canal/binlog"
	"replicator/canal/gtid"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

const benchRows = 400

// TestRecordBench writes the binlogs that the benchmarks read. For each table design, one transaction has many rows,
// and then many transactions have one row each.
func TestRecordBench(t *testing.T) {
	if !*record {
		t.Skip("only with -record")
	}
	b := newBench(t, servertest.Own(t, servers.MySQL))
	b.exec(cellDDL, "CREATE TABLE account (id BIGINT PRIMARY KEY AUTO_INCREMENT, uuid BINARY(16) NOT NULL, version INT NOT NULL, state JSON, created DATETIME(6))")
	for _, design := range []struct{ name, insert, value string }{
		{"blob", "cell(row_key, column_name, ref_key, body)",
			"(RANDOM_BYTES(16), 'users', %d, '{\"username\": \"user%[1]d\", \"email\": \"user%[1]d@example.com\", \"phone\": 123456%[1]d, \"password\": \"secret\", \"activate\": true}')"},
		{"json", "account(uuid, version, state, created)",
			"(RANDOM_BYTES(16), %d, '{\"username\": \"user%[1]d\", \"email\": \"user%[1]d@example.com\", \"phone\": 123456%[1]d, \"password\": \"secret\", \"activate\": true}', NOW(6))"},
	} {
		b.exec("RESET BINARY LOGS AND GTIDS")
		var rows []string
		for i := range benchRows {
			rows = append(rows, fmt.Sprintf(design.value, i))
		}
		b.exec("INSERT INTO " + design.insert + " VALUES " + strings.Join(rows, ","))
		for _, row := range rows {
			b.exec("INSERT INTO " + design.insert + " VALUES " + row)
		}
		src := b.source()
		conn, srv, err := src.connect(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		var f binlogFile
		f.Write(replication.BinLogFileHeader)
		_ = src.dump(testContext(t), srv, gomysql.Position{Name: "binlog.000001", Pos: 4}, src.cfg.Heartbeat, &f)
		if err := os.WriteFile(filepath.Join("testdata", "bench-"+design.name+".binlog"), f.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// counting is a handler that counts changes and commits.
type counting struct{ changes, commits int }

func (c *counting) Change(context.Context, *replicator.Change) error   { c.changes++; return nil }
func (c *counting) Unlogged(_ string, _ int64, err error) error        { return err }
func (c *counting) Refer(context.Context, *replicator.Reference) error { return nil }
func (c *counting) Commit(int64, time.Time)                            { c.commits++ }

// benchDesigns are the tables of the recordings. In the last design, the recorded table is not watched.
var benchDesigns = []struct {
	name, file string
	table      replicator.Table
	shape      *schema
}{
	{"blob", "blob", cellTable(), &schema{unique: [][]string{{"added_at"}, {"row_key", "column_name", "ref_key"}},
		columns: make([]declaredColumn, 6)}},
	{"json", "json", replicator.Table{Name: "account", Key: []string{"uuid"}, Version: "version", Body: "state"},
		&schema{unique: [][]string{{"id"}}, columns: make([]declaredColumn, 5)}},
	{"unwatched", "blob", replicator.Table{Name: "other", Key: []string{"uuid"}}, &schema{}},
}

// eachBench calls f for each design, with the rows in one transaction and in many. f's argument read reads a
// recording's benchRows rows into h.
func eachBench(tb testing.TB, f func(name string, h *counting, read func(tb testing.TB))) {
	for _, d := range benchDesigns {
		for _, shape := range []string{"multi", "single"} {
			events, err := os.ReadFile(filepath.Join("testdata", "bench-"+d.file+".binlog"))
			if err != nil {
				tb.Fatal(err)
			}
			events = part(events[4:], shape)
			w := &watched{Table: d.table, id: d.table.Name}
			w.Table.Table = d.table.Name
			w.schema.Store(d.shape)
			h := &counting{}
			ts := tables{byPlace: map[string]map[string]*watched{databaseOf(events): {d.table.Name: w}},
				byName: map[string][]*watched{d.table.Name: {w}}, byID: map[string]*watched{d.table.Name: w}, fold: strings.ToLower}
			s := newTestStream(gtid.MySQL, binlog.NewCharsets(gtid.MySQL,
				map[uint64]string{255: "utf8mb4", 63: "binary"}), ts, h)
			f(d.name+"/"+shape, h, func(tb testing.TB) {
				s.pos, s.history.ends = 4, s.history.ends[:0]
				if err := feedAll(s, events); err != nil {
					tb.Fatal(err)
				}
			})
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	eachBench(b, func(name string, h *counting, read func(testing.TB)) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			rows := 0
			h.changes = 0
			for b.Loop() {
				read(b)
				rows += benchRows
			}
			if watched := !strings.HasPrefix(name, "unwatched"); watched && h.changes != rows {
				b.Fatalf("%d changes of %d rows", h.changes, rows)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rows), "ns/row")
		})
	})
}

// The allocations per row don't depend on the machine, and cause the garbage collector's work. If your change lowers
// them, update the figures here. If it raises them, say why in the commit.
func TestARowAllocatesNoMoreThanItDid(t *testing.T) {
	baseline := map[string]struct{ allocations, bytes float64 }{ // per row: the key, the body and the Row
		"blob/multi":  {3, 357},
		"blob/single": {3, 356},
		"json/multi":  {3, 356},
		"json/single": {3, 356},
	}
	eachBench(t, func(name string, _ *counting, read func(testing.TB)) {
		read(t) // the first read allocates what later reads reuse
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		const times = 20
		for range times {
			read(t)
		}
		runtime.ReadMemStats(&after)
		allocations := float64(after.Mallocs-before.Mallocs) / (times * benchRows)
		bytes := float64(after.TotalAlloc-before.TotalAlloc) / (times * benchRows)
		const slack = 1.05 // the runtime allocates, too
		if was := baseline[name]; allocations > was.allocations*slack+0.02 || bytes > was.bytes*slack+2 {
			t.Errorf("%s: %.2f allocations and %.0f bytes a row; they were %.2f and %.0f", name, allocations, bytes,
				was.allocations, was.bytes)
		}
	})
}

// part returns the head of a recording, followed by its large transaction (shape "multi") or by its small ones.
func part(events []byte, shape string) []byte {
	head, multi, single := []byte(nil), []byte(nil), []byte(nil)
	groups := 0
	for len(events) > 0 {
		h, _ := binlog.ParseHeader(events)
		e := append([]byte(nil), events[:h.Size]...)
		binary.LittleEndian.PutUint32(e[13:], 0) // the recorded positions are wrong in a part
		if h.Kind != replication.FORMAT_DESCRIPTION_EVENT {
			e = e[:len(e)-binlog.ChecksumSize]
			binary.LittleEndian.PutUint32(e[9:], uint32(len(e)))
		} else {
			e[len(e)-5] = 0
		}
		if h.Kind == replication.GTID_EVENT {
			groups++
		}
		switch groups {
		case 0:
			head = append(head, e...)
		case 1:
			multi = append(multi, e...)
		default:
			single = append(single, e...)
		}
		events = events[h.Size:]
	}
	if shape == "multi" {
		return append(head, multi...)
	}
	return append(head, single...)
}

func databaseOf(events []byte) string {
	for len(events) > 0 {
		h, _ := binlog.ParseHeader(events)
		if h.Kind == replication.TABLE_MAP_EVENT {
			m, _, _ := binlog.SplitTableMap(events[binlog.HeaderSize:h.Size])
			return string(m.Database)
		}
		events = events[h.Size:]
	}
	return ""
}

func BenchmarkJSONText(b *testing.B) {
	_, events := recordedStream(b, "mysql", newRecorder())
	h := newRecorder()
	s, _ := recordedStream(b, "mysql", h)
	jsonBodies(s)
	_ = feedAll(s, events)
	var longest []byte
	for _, c := range h.all() {
		if c.Row != nil && c.Row.Text != nil && len(c.Row.Body) > len(longest) {
			longest = c.Row.Body
		}
	}
	b.SetBytes(int64(len(longest)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := binlog.JSONText(longest); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzJSON(f *testing.F) {
	h := newRecorder()
	s, events := recordedStream(f, "mysql", h)
	jsonBodies(s)
	_ = feedAll(s, events)
	for _, c := range h.all() {
		if c.Row != nil && c.Row.Text != nil {
			f.Add(c.Row.Body)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		text, err := binlog.JSONText(data)
		if err == nil && !json.Valid(text) {
			t.Errorf("%x renders to %q, which is no JSON", data, text)
		}
	})
}

// jsonBodies makes the JSON column the body of each table that has one, except table cell.
func jsonBodies(s *stream) {
	for _, w := range s.tables.byID {
		for _, d := range w.schema.Load().columns {
			if d.dataType == "json" && w.Name != "cell" {
				w.Columns, w.Body = nil, d.Name
			}
		}
	}
}
