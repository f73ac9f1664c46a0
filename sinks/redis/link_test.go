package redis

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// TestOneSilentLinkCostsOneWait: every connection that stands idle in the pool is as dead as the one that showed it,
// and is left, not waited for.
func TestOneSilentLinkCostsOneWait(t *testing.T) {
	s := servertest.Own(t, servers.Redis7)
	link := servertest.NewLink(t, s.Addr())
	rdb, err := connect(Config{URLs: []string{"redis://" + link.Address() + "/0"}, Timeout: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer rdb.Close()
	const idle = 5
	var conns []*redis.Conn
	for range idle {
		conns = append(conns, rdb.(*redis.Client).Conn())
		if err := conns[len(conns)-1].Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range conns { // into the pool
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
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
