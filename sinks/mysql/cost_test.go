package mysql_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/sinks/mysql"
)

// cells makes batches for an index of emails.
type cells struct {
	target  replicator.Target
	version int64
	total   int // the number of cells
	at      int
}

func newCells(t testing.TB, sink *mysql.Sink) *cells {
	index := *seedViews[3]
	return &cells{target: openTarget(t, sink, &index)}
}

func (c *cells) batch(first, n int, email func(n int) string) []replicator.Op {
	c.version++
	ops := make([]replicator.Op, n)
	for i := range ops {
		ops[i] = seedOp(first+i, c.version, email(first+i))
		value := ops[i].Values[3]
		value.View = 0
		ops[i].Values = []replicator.Value{value}
	}
	return ops
}

// more returns the next batch of new cells.
func (c *cells) more(size int) func() []replicator.Op {
	return func() []replicator.Op {
		c.total += size
		return c.batch(c.total-size, size, c.moved)
	}
}

// again returns the next batch of existing cells.
func (c *cells) again(size int, email func(n int) string) func() []replicator.Op {
	return func() []replicator.Op {
		if c.at += size; c.at+size > c.total {
			c.at = 0
		}
		return c.batch(c.at, size, email)
	}
}

func (c *cells) moved(n int) string {
	return fmt.Sprintf("%08x.%d.%d@example.com", uint32(n)*2654435761, n, c.version)
}

func (c *cells) apply(t testing.TB, ops []replicator.Op) {
	t.Helper()
	if _, err := c.target.Apply(t.Context(), ops); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkCells measures what a cell of one index costs this process and the server. The cells are new to a table
// during a fill, new to a table that is kept up to date, moved, or of a newer version with the same contents. One case
// is a transaction of a single cell.
func BenchmarkCells(b *testing.B) {
	for kind, redo := range map[servers.Kind]string{servers.MySQL: "--innodb-redo-log-capacity=1G",
		servers.MariaDB1011: "--innodb-log-file-size=1G"} {
		b.Run(string(kind), func(b *testing.B) {
			s := servertest.Own(b, kind, redo, "--innodb-buffer-pool-size=1G")
			_, dsn := database(b, s, seedDDL[3])
			sink := newSink(b, dsn)
			c := newCells(b, sink)
			run := func(name string, size int, next func() []replicator.Op) {
				b.Run(name, func(b *testing.B) {
					var own time.Duration
					before := cpu(b, s.PID())
					for b.Loop() {
						ops := next()
						from := ownCPU(b)
						c.apply(b, ops)
						own += ownCPU(b) - from
					}
					per := float64(b.N * size * 1000)
					b.ReportMetric(float64(own.Nanoseconds())/per, "own-µs/cell")
					b.ReportMetric(float64((cpu(b, s.PID())-before).Nanoseconds())/per, "server-µs/cell")
				})
			}
			const size = 800
			run("fill", size, c.more(size))
			mark(b, c.target)
			run("new", size, c.more(size))
			run("moved", size, c.again(size, c.moved))
			run("gone", size, c.again(size, func(int) string { return "same@example.com" }))
			run("one", 1, c.again(1, c.moved))
		})
	}
}

// ownCPU returns the processor time that this process has used.
func ownCPU(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestABatchCostsWhatItDid compares what batches of one index cost with testdata/costs.json, in counts that don't
// depend on the machine. After an intended change, REPLICATOR_UPDATE=1 writes the new costs to the file.
func TestABatchCostsWhatItDid(t *testing.T) {
	const file = "testdata/costs.json"
	stored, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]cost{}
	if err := json.Unmarshal(stored, &want); err != nil {
		t.Fatal(err)
	}
	servertest.EachKindInTurn(t, func(t *testing.T, kind servers.Kind) { // or a server's start would be counted
		s := servertest.Shared(t, kind)
		if os.Getenv("REPLICATOR_UPDATE") != "" {
			for name, got := range batchCosts(t, s) {
				want[string(kind)+" "+name] = got
			}
			return
		}
		var wrong []string
		for range 3 { // other sessions of the server look rows up, too, but hardly each time
			wrong = nil
			for name, got := range batchCosts(t, s) {
				if name = string(kind) + " " + name; !got.is(want[name]) {
					wrong = append(wrong, fmt.Sprintf("%s:\n%+v, and it was\n%+v", name, got, want[name]))
				}
			}
			if len(wrong) == 0 {
				return
			}
		}
		t.Error(strings.Join(wrong, "\n"))
	})
	if os.Getenv("REPLICATOR_UPDATE") != "" {
		text, err := json.MarshalIndent(want, "", "  ")
		if err == nil {
			err = os.WriteFile(file, append(text, '\n'), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// cost is what a batch costs.
type cost struct {
	RoundTrips int64   // from an idle connection to the commit
	Bytes      int64   // sent to the server
	Looked     int64   // rows and positions that the server looks up in indexes
	Written    int64   // rows that the server inserts, changes or deletes
	Allocated  float64 // objects per cell, in this process; in all, for a batch of one cell
}

// is compares costs. Bytes and objects differ a little from run to run, by the lengths of numbers and by other
// goroutines' work. The server may also read a table as small as these from end to end, and then looks up less.
func (c cost) is(want cost) bool {
	near := func(a, b, by float64) bool { return math.Abs(a-b) <= by*b+1 }
	return c.RoundTrips == want.RoundTrips && c.Looked <= want.Looked && c.Written == want.Written &&
		near(float64(c.Bytes), float64(want.Bytes), 0.05) && near(c.Allocated, want.Allocated, 0.05)
}

func batchCosts(t *testing.T, s *servers.Server) map[string]cost {
	db, dsn := database(t, s, seedDDL[3])
	w := newWire(t, s.Addr())
	config, err := driver.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.Net, config.Addr = "tcp", w.Addr().String()
	sink := newSink(t, config.FormatDSN())
	c := newCells(t, sink)
	costs := map[string]cost{}
	measure := func(name string, size int, next func() []replicator.Op) {
		c.apply(t, next()) // the first batch makes connections and grows buffers
		var got cost
		for i := range 10 { // at least once, no other goroutine does anything meanwhile
			ops := next()
			looked, written := rowsHandled(t, db)
			trips, bytes := w.trips.Load(), w.bytes.Load()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			c.apply(t, ops)
			runtime.ReadMemStats(&after)
			allocated := math.Round(10*float64(after.Mallocs-before.Mallocs)/float64(size)) / 10
			if i > 0 {
				allocated = min(allocated, got.Allocated)
			}
			got = cost{RoundTrips: w.trips.Load() - trips, Bytes: w.bytes.Load() - bytes, Allocated: allocated}
			got.Looked, got.Written = rowsHandled(t, db)
			got.Looked, got.Written = got.Looked-looked, got.Written-written
		}
		costs[name] = got
	}
	const size = 200
	mark(t, c.target)
	measure("new", size, c.more(size))
	measure("moved", size, c.again(size, c.moved))
	same := c.again(size, func(int) string { return "same@example.com" })
	for range c.total / size {
		c.apply(t, same())
	}
	measure("unchanged", size, same)
	measure("one", 1, c.again(1, c.moved))
	return costs
}

// rowsHandled returns how often the server looked up rows, and how many rows it wrote.
func rowsHandled(t *testing.T, db *sql.DB) (looked, written int64) {
	t.Helper()
	rows, err := db.Query("SHOW GLOBAL STATUS WHERE Variable_name IN " +
		"('Handler_read_key', 'Handler_write', 'Handler_update', 'Handler_delete')")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var n int64
		if err := rows.Scan(&name, &n); err != nil {
			t.Fatal(err)
		}
		if name == "Handler_read_key" {
			looked += n
		} else {
			written += n
		}
	}
	return looked, written
}

// wire is a proxy to a server that counts the requests and bytes that pass.
type wire struct {
	net.Listener
	trips, bytes atomic.Int64
}

func newWire(t *testing.T, to string) *wire {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{Listener: listener}
	var wg sync.WaitGroup
	t.Cleanup(func() { listener.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				client.Close()
				continue
			}
			// Plain readers and writers: between two sockets, Go copies through kernel pipes that it keeps in a pool.
			// The race detector makes a pool drop some at random, and the new ones would be counted.
			to, from := struct{ io.Writer }{client}, struct{ io.Reader }{server}
			wg.Go(func() { defer client.Close(); io.Copy(to, from) })
			wg.Go(func() { defer server.Close(); w.commands(server, client) })
		}
	})
	return w
}

// commands copies a client's data, packet by packet. The first packet of a command has the number 0.
func (w *wire) commands(to io.Writer, from io.Reader) {
	packet := make([]byte, 4+1<<24)
	for {
		if _, err := io.ReadFull(from, packet[:4]); err != nil {
			return
		}
		size := int64(packet[0]) | int64(packet[1])<<8 | int64(packet[2])<<16
		if packet[3] == 0 {
			w.trips.Add(1)
		}
		w.bytes.Add(size)
		if _, err := io.ReadFull(from, packet[4:4+size]); err != nil {
			return
		}
		if _, err := to.Write(packet[:4+size]); err != nil {
			return
		}
	}
}
