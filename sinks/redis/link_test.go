package redis

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/sinks/judge"
)

// TestOneSilentLinkCostsOneWait checks that one timeout is enough: the idle connections in the pool are as dead as the
// one that timed out, and are not used again.
func TestOneSilentLinkCostsOneWait(t *testing.T) {
	s := servertest.Own(t, servers.Redis7)
	link := servertest.NewLink(t, s.Addr())
	rdb, _, err := connect(Config{URLs: []string{"redis://" + link.Address() + "/0"}, Timeout: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer rdb.Close()
	const idle = 5
	hold(t, rdb, idle)
	if n := rdb.PoolStats().IdleConns; n != idle {
		t.Fatalf("%d connections stand idle", n)
	}
	link.Cut()
	if err := rdb.Ping(t.Context()).Err(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("over a link that is silent: %v", err)
	}
	for range idle {
		if err := rdb.Ping(t.Context()).Err(); err != nil {
			t.Fatalf("a connection of the silent link is used again: %v", err)
		}
	}
}

// hold makes a pool have at least n connections, which are idle afterwards.
func hold(t *testing.T, rdb redis.UniversalClient, n int) {
	t.Helper()
	var conns []*redis.Conn
	for range n {
		conns = append(conns, rdb.(*redis.Client).Conn())
		if err := conns[len(conns)-1].Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range conns { // back into the pool
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOpenConnectionsToAnEarlierServerAreNotUsedAgain covers an address that leads to another server now, like that of
// a proxy or a service after a failover. The former server still answers on open connections, and accepts writes.
func TestOpenConnectionsToAnEarlierServerAreNotUsedAgain(t *testing.T) {
	v := view("c", "counter", "c:{n}", "n")
	cell := func(i int64) replicator.Op {
		one := replicator.Entry{Key: fmt.Sprint("c:", i), Fields: []any{int64(1)}}
		return put(cellOf(t, "cell", "users", i), 1, one)
	}
	at := func(order int64) replicator.Standing {
		return replicator.Standing{Position: replicator.Position{Order: order, Token: "x"}}
	}
	before, after := open(t, v), open(t, v)
	apply(t, before.target, cell(1))
	if err := before.target.Mark(t.Context(), at(10)); err != nil {
		t.Fatal(err)
	}
	marks := before.rdb.HGetAll(t.Context(), marksPrefix).Val() // the server that takes over has the newest marks
	if err := after.rdb.HSet(t.Context(), marksPrefix, marks).Err(); err != nil || len(marks) != 1 {
		t.Fatal(marks, err)
	}
	link := servertest.NewLink(t, before.server.Addr())
	f := &fixture{sink: newSink(t, Config{URLs: []string{"redis://" + link.Address() + "/0"}})}
	defer f.sink.Close()
	target := f.open(t, v)
	conns := 3
	hold(t, f.sink.rdb, conns)
	lead := func(to *fixture) {
		t.Helper()
		link.Lead(to.server.Addr())
		conns++
		hold(t, f.sink.rdb, conns) // so that a new connection is made
	}

	lead(after)
	apply(t, target, cell(2))
	if err := target.Mark(t.Context(), at(20)); !errors.Is(err, judge.ErrOtherServer) {
		t.Errorf("Mark returns %v", err)
	}
	target = f.open(t, v) // as the next session does
	apply(t, target, cell(2))
	if err := target.Mark(t.Context(), at(20)); err != nil {
		t.Error(err)
	}
	if got := after.rdb.Get(t.Context(), "c:2").Val(); got != "1" {
		t.Errorf("the server that readers see has %q", got)
	}

	apply(t, target, cell(3))
	lead(before)
	lead(after)
	if err := target.Mark(t.Context(), at(30)); !errors.Is(err, judge.ErrOtherServer) {
		t.Errorf("the address led to another server and back since the last mark: Mark returns %v", err)
	}
}
