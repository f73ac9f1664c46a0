package redis

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// benchBatch is how many cells a lane applies at once when it has much to do.
const benchBatch = 800

// benchLanes is how many batches are under way at once.
const benchLanes = 2

// benchEntities is how many entities the benchmarks write to.
const benchEntities = 100_000

var benchFields = []string{"username", "email", "phone", "city", "activate"}

func benchKey(n uint64) replicator.Key {
	b := make([]byte, 16)
	binary.BigEndian.PutUint64(b, n*0x9e3779b97f4a7c15)
	binary.BigEndian.PutUint64(b[8:], n)
	key, err := replicator.MakeKey(b)
	if err != nil {
		panic(err) // bytes are a key
	}
	return key
}

// BenchmarkHSET measures the lower limit of the cost: hashes of five fields, pipelined, without any check. An op is a
// hash.
func BenchmarkHSET(b *testing.B) {
	rdb := client(b, servertest.Own(b, servers.Redis7))
	var next atomic.Uint64
	defer reportCPU(b, rdb)()
	b.ResetTimer()
	b.SetParallelism(1)
	b.RunParallel(func(pb *testing.PB) {
		for more := true; more; {
			if _, err := rdb.Pipelined(b.Context(), func(p redis.Pipeliner) error {
				n := 0
				for ; n < 100 && more; n++ {
					i := next.Add(1)
					args := make([]any, 0, 10)
					for _, f := range benchFields {
						args = append(args, f, fmt.Sprintf("%s-%d", f, i))
					}
					p.HSet(b.Context(), "user:"+benchKey(i%benchEntities).String(), args...)
					more = pb.Next()
				}
				return nil
			}); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkApply measures writes through the sink: of hashes, of sets that entities move between, and of counters. An
// op is a cell.
func BenchmarkApply(b *testing.B) {
	users := []replicator.Feed{{Table: "cell", Column: "users"}}
	hash := &replicator.View{Name: "users", Kind: "hash", From: users, Fields: paths(benchFields...), Key: "user:{}",
		Fingerprint: "1"}
	index := &replicator.View{Name: "by_email", Kind: "index", From: users, Fields: paths("email"),
		Key: "by_email:{email}", Fingerprint: "1"}
	counter := &replicator.View{Name: "by_city", Kind: "counter", From: users, Fields: paths("sum"),
		Key: "by_city:{city}", Fingerprint: "1"}
	for _, c := range []struct {
		name  string
		views []*replicator.View
	}{
		{"hash", []*replicator.View{hash}},
		{"hash stale", []*replicator.View{hash}},
		{"index moved", []*replicator.View{index}},
		{"hash and index", []*replicator.View{hash, index}},
		{"counter", []*replicator.View{counter}},
	} {
		b.Run(c.name, func(b *testing.B) {
			server := servertest.Own(b, servers.Redis7)
			s := newSink(b, Config{URLs: []string{server.DSN("0")}})
			defer func() {
				if err := s.Close(); err != nil {
					b.Error(err)
				}
			}()
			target, err := s.Open(b.Context(), "", c.views)
			if err != nil {
				b.Fatal(err)
			}
			var batches [][]replicator.Op // made beforehand, because they are not a cost of the sink
			for i := uint64(0); i < uint64(b.N); {
				ops := make([]replicator.Op, 0, benchBatch)
				for ; len(ops) < benchBatch && i < uint64(b.N); i++ {
					version := int64(i)
					if c.name == "hash stale" {
						version = -int64(i) + 1<<40
					}
					ops = append(ops, benchOp(c.views, i, version))
				}
				batches = append(batches, ops)
			}
			runtime.GC()
			var next atomic.Int64
			defer reportCPU(b, client(b, server))()
			b.ResetTimer()
			var lanes sync.WaitGroup
			for range benchLanes {
				lanes.Go(func() {
					for n := next.Add(1); int(n) <= len(batches); n = next.Add(1) {
						if _, err := target.Apply(b.Context(), batches[n-1]); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			lanes.Wait()
		})
	}
}

// BenchmarkDecide measures what a batch of one lane costs apart from the server: decisions and arguments of scripts. An
// op is a cell.
func BenchmarkDecide(b *testing.B) {
	for name, work := range decisions(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for n := 0; n < b.N; n += benchBatch {
				work()
			}
		})
	}
}

// decided counts the script calls of one batch, their keys, and the bytes of their arguments.
type decided struct{ calls, keys, bytes int }

// decisions returns functions that decide batches of benchBatch cells and make the script's arguments. The cells are
// new, moved, merged, or stale.
func decisions(t testing.TB) map[string]func() decided {
	users := []replicator.Feed{{Table: "cell", Column: "users"}}
	hash := &replicator.View{Name: "users", Kind: "hash", From: users, Fields: paths(benchFields...), Key: "user:{}"}
	index := &replicator.View{Name: "by_email", Kind: "index", From: users, Fields: paths("email"),
		Key: "by_email:{email}"}
	merged := *hash
	merged.From = []replicator.Feed{{Table: "cell", Column: "users"}, {Table: "cell", Column: "profiles"}}
	all := map[string]func() decided{}
	for _, c := range []struct {
		name  string
		views []*replicator.View
		// the rounds of the stored row and of the op; 0 if nothing is stored
		knew, comes uint64
	}{
		{"new", []*replicator.View{hash, index}, 0, 1},
		{"moved", []*replicator.View{hash, index}, 1, 2},
		{"merged", []*replicator.View{&merged}, 1, 2},
		{"stale", []*replicator.View{hash, index}, 2, 1},
	} {
		target := &Target{sink: &Sink{}, views: c.views}
		for i, v := range c.views {
			k, err := newKeeper(v, i)
			if err != nil {
				t.Fatal(err)
			}
			target.keepers = append(target.keepers, k)
		}
		ops := func(round uint64) []replicator.Op {
			var ops []replicator.Op
			for i := range uint64(benchBatch) {
				ops = append(ops, benchOp(c.views, i+benchEntities*round, int64(round)))
			}
			return ops
		}
		stored := map[string]string{}
		if c.knew > 0 {
			decideAll(t, target, ops(c.knew), nil, func(e *entity) { stored[strings.Clone(e.key)] = strings.Clone(e.next) })
		}
		batch := ops(c.comes)
		all[c.name] = func() decided { return decideAll(t, target, batch, stored, nil) }
	}
	return all
}

// decideAll decides a batch, given the stored records, and makes the script's arguments. each, if set, is called with
// every entity that is to be written.
func decideAll(t testing.TB, target *Target, ops []replicator.Op, stored map[string]string,
	each func(*entity)) (out decided) {
	t.Helper()
	b := target.newBatch(ops)
	defer target.release(b)
	write := b.list[:0:0]
	for _, e := range b.list {
		e.stored = stored[e.key]
		if err := e.decide(b); err != nil {
			t.Fatal(err)
		}
		if e.plan.changed {
			write = append(write, e)
		}
	}
	store(&b.arena, write)
	w := &b.writing
	for rest := write; len(rest) > 0; rest = rest[len(w.entities):] {
		w.fill(&b.arena, rest)
		w.finish(&b.arena, "")
		out.calls, out.keys, out.bytes = out.calls+1, out.keys+len(w.keys), out.bytes+len(w.args.text)
	}
	for _, e := range write {
		if each != nil {
			each(e)
		}
	}
	return out
}

// reportCPU reports the CPU time of an op: that of the server, and that of the client with the benchmark itself. A busy
// machine changes these figures less than the elapsed time.
func reportCPU(b *testing.B, rdb *redis.Client) func() {
	b.Helper()
	used := func() (server, client time.Duration) {
		text, err := rdb.Info(b.Context(), "cpu").Result()
		if err != nil {
			b.Fatal(err)
		}
		for _, line := range strings.Fields(text) {
			name, value, _ := strings.Cut(line, ":")
			if name == "used_cpu_user" || name == "used_cpu_sys" {
				seconds, err := strconv.ParseFloat(value, 64)
				if err != nil {
					b.Fatal(err)
				}
				server += time.Duration(seconds * float64(time.Second))
			}
		}
		var own syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
			b.Fatal(err)
		}
		return server, time.Duration(own.Utime.Nano() + own.Stime.Nano())
	}
	server, client := used()
	return func() {
		serverNow, clientNow := used()
		b.ReportMetric(float64((serverNow-server).Nanoseconds())/1000/float64(b.N), "server-µs/op")
		b.ReportMetric(float64((clientNow-client).Nanoseconds())/1000/float64(b.N), "client-µs/op")
	}
}

func benchOp(views []*replicator.View, i uint64, version int64) replicator.Op {
	op := replicator.Op{Cell: replicator.Cell{Table: "cell", Column: "users", Key: benchKey(i % benchEntities)},
		Version: version, Order: int64(i)}
	for n, v := range views {
		e := replicator.Entry{}
		switch v.Kind {
		case "hash":
			e.Key = "user:" + op.Cell.Key.String()
			for _, f := range benchFields {
				e.Fields = append(e.Fields, fmt.Sprintf("%s-%d", f, i))
			}
		case "index":
			e.Key = fmt.Sprintf("by_email:email-%d", i)
		case "counter":
			e.Key, e.Fields = fmt.Sprintf("by_city:%d", i%1000), []any{int64(1)}
		}
		op.Values = append(op.Values, replicator.Value{View: n, Entries: []replicator.Entry{e}})
	}
	return op
}
