package redis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/sinks/sinktest"
)

// clusterKeys returns the keys of all masters.
func clusterKeys(ctx context.Context, rdb *redis.ClusterClient, pattern string) ([]string, error) {
	var mu sync.Mutex
	var keys []string
	err := rdb.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		found, err := node.Keys(ctx, pattern).Result()
		mu.Lock()
		defer mu.Unlock()
		keys = append(keys, found...)
		return err
	})
	return keys, err
}

// startCluster starts a cluster of three masters.
func startCluster(t testing.TB, kind servers.Kind) (nodes []*servers.Server, rdb *redis.ClusterClient, c Config) {
	t.Helper()
	c.Cluster = true
	var addrs []string
	for range 3 {
		s, _ := startNode(t, kind)
		nodes, addrs = append(nodes, s), append(addrs, s.Addr())
		c.URLs = append(c.URLs, s.DSN(""))
	}
	args := append([]string{"--cluster", "create"}, addrs...)
	cli, err := servers.Program(kind, "redis-cli")
	if err != nil {
		t.Fatal(err)
	}
	create := exec.CommandContext(t.Context(), cli, append(args, "--cluster-yes")...)
	if out, err := create.CombinedOutput(); err != nil {
		t.Fatalf("redis-cli --cluster create: %v\n%s", err, out)
	}
	rdb = redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, Protocol: 2})
	t.Cleanup(func() {
		if err := rdb.Close(); err != nil {
			t.Error(err)
		}
	})
	wait(t, "the cluster is ready", func() error {
		return rdb.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
			info, err := node.ClusterInfo(ctx).Result()
			if err == nil && !strings.Contains(info, "cluster_state:ok") {
				err = fmt.Errorf("not yet: %.60s", info)
			}
			return err
		})
	})
	return nodes, rdb, c
}

// startNode starts a server that may be a cluster's node, and returns the port of its cluster bus. The default is the
// server's port + 10000, which the kernel may give to a connection.
func startNode(t testing.TB, kind servers.Kind) (node *servers.Server, bus int) {
	t.Helper()
	bus = busPort(t)
	return servertest.Own(t, kind, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000",
		"--cluster-require-full-coverage", "yes", "--cluster-port", strconv.Itoa(bus)), bus
}

// busPort returns a free port that the kernel gives to no connection.
func busPort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := 10000 + rand.IntN(10000) // the servers' ports begin at 20000
		if l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port)); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no free port from 10000 to 19999")
	return 0
}

// wait waits until condition holds.
func wait(t testing.TB, what string, condition func() error) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Minute)
	for {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s: %v", what, err)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
}

// TestCluster runs the suite of all sinks in a cluster, where an entity's record and its keys are in different slots.
func TestCluster(t *testing.T) {
	t.Parallel()
	_, rdb, c := startCluster(t, servers.Redis7)
	empty := func(t *testing.T) {
		t.Helper()
		if err := rdb.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
			return node.FlushAll(ctx).Err()
		}); err != nil {
			t.Fatal(err)
		}
	}
	for name, views := range kinds() {
		t.Run(name, func(t *testing.T) {
			empty(t)
			s := subject(t, views, rdb, c)
			s.Histories = 4
			sinktest.Run(t, s)
			nothingLeft(t, rdb)
			t.Run("crashes", func(t *testing.T) {
				empty(t)
				// The kinds of views don't differ in the steps between a record and its keys, so one kind runs the
				// whole suite.
				run := sinktest.RunHistories
				if name == "index" {
					run = sinktest.Run
				}
				cutting(t, views, rdb, c, 4, run)
				nothingLeft(t, rdb)
			})
		})
	}
	t.Run("sums are computed anew", func(t *testing.T) {
		empty(t)
		sink := newSink(t, c)
		defer sink.Close()
		target, right := sumsAreComputedAnew(t, rdb, sink)
		inClusterSumsAreMendedAsTheyChange(t, rdb, target, right)
	})
	t.Run("sums are compared while they change", func(t *testing.T) {
		empty(t)
		sink := newSink(t, c)
		defer sink.Close()
		sumsAreComparedWhileTheyChange(t, rdb, sink, 300)
	})
	t.Run("evictions of all nodes are told", func(t *testing.T) {
		empty(t)
		evictionsInClusterAreTold(t, rdb, c)
	})
}

// evictionsInClusterAreTold makes nodes evict another program's keys, which expire, and no marks.
func evictionsInClusterAreTold(t *testing.T, rdb *redis.ClusterClient, c Config) {
	sink := newSink(t, c)
	defer sink.Close()
	target := openViews(t, sink, []*replicator.View{view("h", "hash", "h:{k}", "a")}).(*Target)
	nodes := func(do func(ctx context.Context, node *redis.Client) error) {
		t.Helper()
		if err := rdb.ForEachMaster(t.Context(), do); err != nil {
			t.Fatal(err)
		}
	}
	set := func(name, value string) {
		t.Helper()
		nodes(func(ctx context.Context, node *redis.Client) error { return node.ConfigSet(ctx, name, value).Err() })
	}
	mark := func(order int64) int64 {
		t.Helper()
		at := replicator.Standing{Position: replicator.Position{Order: order, Token: "p"}}
		if err := target.Mark(t.Context(), at); err != nil {
			t.Fatal(err)
		}
		return target.Evicted()
	}
	if n := mark(1); n != 0 {
		t.Errorf("%d evictions are told of before there were any", n)
	}
	set("maxmemory-policy", "volatile-random")
	set("maxmemory", "6mb")
	var evicted atomic.Int64
	for n := 0; evicted.Load() == 0; n += 10 {
		for i := range 10 {
			err := rdb.Set(t.Context(), fmt.Sprint("other:", n+i), strings.Repeat("x", 100_000), time.Hour).Err()
			if err != nil {
				t.Fatal(err)
			}
		}
		nodes(func(ctx context.Context, node *redis.Client) error {
			var one int64
			_, err := fmt.Sscan(parseInfo(node.Info(ctx, "stats").Val())["evicted_keys"], &one)
			evicted.Add(one)
			return err
		})
	}
	set("maxmemory", "0")
	if told := mark(2); told != evicted.Load() {
		t.Errorf("%d evictions are told of, want %d", told, evicted.Load())
	}
}

// inClusterSumsAreMendedAsTheyChange checks that foreign values beside keys stop no change. If the posts are lost,
// which nothing else repeats, the loss counts as an eviction, so that the views are compared.
func inClusterSumsAreMendedAsTheyChange(
	t *testing.T, rdb redis.UniversalClient, target *Target, right func(*testing.T),
) {
	ctx := t.Context()
	for own, lacks := range map[string]int{
		beside(kindCounter, "c:1"): 0, beside(kindRanking, "z:1"): 0, postKey("c:1"): 1,
	} {
		if err := rdb.Del(ctx, own).Err(); err != nil {
			t.Fatal(err)
		}
		if err := rdb.RPush(ctx, own, "theirs").Err(); err != nil {
			t.Fatal(err)
		}
		target.Evicted() // earlier evictions don't count here
		change := sumOp(t, "y", "1", 2, int64(40))
		change.AsOf = 1000
		if a := apply(t, target, change); len(a.Rejected) > 0 {
			t.Errorf("where somebody wrote to %s: %v", own, a.Rejected[0].Err)
		}
		if lost := target.Evicted() > 0; lost != (lacks > 0) {
			t.Errorf("where somebody wrote to %s, it counts as evicted: %v", own, lost)
		}
		differences, err := target.Compare(ctx, []replicator.Op{sumOp(t, "x", "1", 1, replicator.Number("1.25"))})
		if err != nil || len(differences) != lacks {
			t.Errorf("where somebody wrote to %s, of another entity that contributes there differ %v (%v)", own,
				differences, err)
		}
		right(t)
	}
	if err := rdb.Set(ctx, recordKey("y"), "theirs", 0).Err(); err != nil {
		t.Fatal(err)
	}
	right(t)
	if target.Evicted() == 0 {
		t.Error("a damaged record does not count as evicted")
	}
}

// nothingLeft checks that no keys are left after every cell was deleted, except what the sink remembers.
func nothingLeft(t *testing.T, rdb redis.UniversalClient) {
	t.Helper()
	for _, key := range keysLike(t, rdb, "*") {
		if !strings.HasPrefix(key, entityPrefix) && !strings.HasPrefix(key, marksPrefix) && key != sourcesKey &&
			!strings.HasPrefix(key, gonePrefix) {
			t.Errorf("the key %s is left", key)
		}
	}
}
