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
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/sinks/sinktest"
)

// clusterKeys are the keys of all masters.
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

// startNode starts a server that may be a cluster's node, and says the port of its bus. That is the server's + 10000
// unless it is said, which is among the kernel's own, which connections take.
func startNode(t testing.TB, kind servers.Kind) (node *servers.Server, bus int) {
	t.Helper()
	bus = busPort(t)
	return servertest.Own(t, kind, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000",
		"--cluster-require-full-coverage", "yes", "--cluster-port", strconv.Itoa(bus)), bus
}

// busPort is a free port that no connection is given by the kernel.
func busPort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := 10000 + rand.IntN(10000) // servers have theirs from 20000 on
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

// TestCluster runs the suite of all sinks in a cluster, where an entity's record and its keys live apart.
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
				// What is between a record and its keys, which live apart, does not differ among kinds of views.
				run := sinktest.RunHistories
				if name == "index" {
					run = sinktest.Run
				}
				cutting(t, views, rdb, c, 4, run)
				nothingLeft(t, rdb)
			})
		})
	}
}

// nothingLeft checks that after every cell was deleted no key is left but the sink's memory of them.
func nothingLeft(t *testing.T, rdb redis.UniversalClient) {
	t.Helper()
	for _, key := range keysLike(t, rdb, "*") {
		if !strings.HasPrefix(key, entityPrefix) && !strings.HasPrefix(key, marksPrefix) && key != sourcesKey &&
			!strings.HasPrefix(key, gonePrefix) {
			t.Errorf("the key %s is left", key)
		}
	}
}
