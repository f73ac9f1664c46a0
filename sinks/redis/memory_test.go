package redis

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"replicator"
)

// trips counts a client's round trips.
type trips struct{ n atomic.Int64 }

func (*trips) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (h *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.n.Add(1)
		return next(ctx, cmd)
	}
}

func (h *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.n.Add(1)
		return next(ctx, cmds)
	}
}

// An entity that was written lately takes one round trip, and so does a new one when most are new. A wrong assumption
// takes one more. The outcome is always as if the record had been read.
func TestWhatIsAssumedOfRecordsIsCheckedByTheScript(t *testing.T) {
	f := open(t, view("h", "hash", "h:{k}", "a"), view("s", "index", "s:{a}"))
	other := f.open(t, view("h", "hash", "h:{k}", "a"), view("s", "index", "s:{a}"))
	h := &trips{}
	f.sink.rdb.AddHook(h)
	step := func(what string, target replicator.Target, key string, n int64, value string, round,
		stale int, shows string) {
		t.Helper()
		op := replicator.Op{Cell: cellOf(t, "cell", "users", key), Version: n, Order: n, Values: []replicator.Value{
			{View: 0, Entries: []replicator.Entry{{Key: "h:" + key, Fields: []any{value}}}},
			{View: 1, Entries: []replicator.Entry{{Key: "s:" + value}}},
		}}
		h.n.Store(0)
		a := apply(t, target, op)
		if got := int(h.n.Load()); got != round {
			t.Errorf("%s: %d round trips, want %d", what, got, round)
		}
		if len(a.Stale) != stale || len(a.Rejected) > 0 {
			t.Errorf("%s: %+v", what, a)
		}
		if got := f.cli(t, "hget", "h:"+key, "a"); got != shows {
			t.Errorf("%s: the hash shows %q, want %q", what, got, shows)
		}
		if got := f.cli(t, "sismember", "s:"+shows, key); got != "1" {
			t.Errorf("%s: the index does not show %q", what, shows)
		}
	}
	apply(t, f.target, put(cellOf(t, "cell", "users", "warm"), 1, replicator.Entry{Key: "h:warm", Fields: []any{"x"}}))
	step("the layout of its record is new", f.target, "v", 1, "v", 1, 0, "v")
	step("the layout is met again, and registered", f.target, "w", 1, "w", 2, 0, "w")
	step("the registry has changed", other, "o", 1, "o", 4, 0, "o")
	step("new, as most are", f.target, "x", 2, "a", 1, 0, "a")
	step("written lately", f.target, "x", 3, "b", 1, 0, "b")
	step("stale by what is remembered: it is read", f.target, "x", 1, "z", 1, 1, "b")
	step("the same once more: it is read", f.target, "x", 3, "b", 1, 0, "b")
	step("another's first", other, "x", 4, "c", 2, 0, "c")
	step("changed by another", f.target, "x", 5, "d", 2, 0, "d")
	step("stale for the other's version", other, "x", 4, "e", 1, 1, "d")
	f.cli(t, "flushall")
	step("lost, and the registry, too: the same once more", f.target, "x", 5, "d", 5, 0, "d")
	step("not new, though most are, and the registry has changed", other, "x", 6, "f", 4, 0, "f")
}
