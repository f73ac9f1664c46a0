package redis

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
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

// BenchmarkHSET is the limit: hashes of five fields, pipelined, without any check. An op is a hash.
func BenchmarkHSET(b *testing.B) {
	rdb := client(b, servertest.Own(b, servers.Redis7, "--appendonly", "no"))
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

// BenchmarkApply is the same through the sink, new and moved alike; and sets that entities move between. An op is a
// cell.
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
			server := servertest.Own(b, servers.Redis7, "--appendonly", "no")
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
			var next atomic.Uint64
			defer reportCPU(b, client(b, server))()
			b.ResetTimer()
			b.SetParallelism(1)
			b.RunParallel(func(pb *testing.PB) {
				for more := true; more; {
					ops := make([]replicator.Op, 0, benchBatch)
					for ; len(ops) < benchBatch && more; more = pb.Next() {
						i := next.Add(1)
						version := int64(i)
						if c.name == "hash stale" {
							version = -int64(i) + 1<<40
						}
						ops = append(ops, benchOp(c.views, i, version))
					}
					if _, err := target.Apply(b.Context(), ops); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// BenchmarkDecide is what a batch of one lane costs before and after the server is asked: cells that are new, that
// move, that stay, and that are stale. An op is a cell.
func BenchmarkDecide(b *testing.B) {
	users := []replicator.Feed{{Table: "cell", Column: "users"}}
	hash := &replicator.View{Name: "users", Kind: "hash", From: users, Fields: paths(benchFields...), Key: "user:{}"}
	index := &replicator.View{Name: "by_email", Kind: "index", From: users, Fields: paths("email"),
		Key: "by_email:{email}"}
	merged := *hash
	merged.From = []replicator.Feed{{Table: "cell", Column: "users"}, {Table: "cell", Column: "profiles"}}
	for _, c := range []struct {
		name  string
		views []*replicator.View
		// of the row that is known, and of the op: 0 if nothing is known
		knew, comes uint64
	}{
		{"new", []*replicator.View{hash, index}, 0, 1},
		{"moved", []*replicator.View{hash, index}, 1, 2},
		{"merged", []*replicator.View{&merged}, 1, 2},
		{"stale", []*replicator.View{hash, index}, 2, 1},
	} {
		b.Run(c.name, func(b *testing.B) {
			target := &Target{sink: &Sink{}, views: c.views}
			for i, v := range c.views {
				k, err := newKeeper(v, i)
				if err != nil {
					b.Fatal(err)
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
				for _, e := range decideAll(b, target, ops(c.knew), nil) {
					stored[e.key] = e.next
				}
			}
			batch := ops(c.comes)
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; n += benchBatch {
				decideAll(b, target, batch, stored)
			}
		})
	}
}

// decideAll decides a batch on what is stored, and makes the script's arguments.
func decideAll(b *testing.B, t *Target, ops []replicator.Op, stored map[string]string) []*entity {
	b.Helper()
	all := t.newBatch(ops)
	var write []*entity
	for _, e := range t.entities(ops) {
		e.stored = stored[e.key]
		if err := e.decide(all); err != nil {
			b.Fatal(err)
		}
		if e.plan.changed {
			write = append(write, e)
		}
	}
	store(write)
	w := writing{numbers: map[string]int{}}
	for rest := write; len(rest) > 0; rest = rest[len(w.entities):] {
		w.take(rest)
		w.call()
	}
	return write
}

// reportCPU reports what an op costs the server, and the client with the benchmark itself: figures that a busy machine
// changes less than the time.
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
