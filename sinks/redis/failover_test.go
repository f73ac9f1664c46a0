package redis

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"replicator"
	"replicator/internal/servers"
)

// TestAClusterWhoseReplicaTakesOver checks that the client asks who has which slots as soon as it can't reach a node,
// not only at its next regular refresh.
func TestAClusterWhoseReplicaTakesOver(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(*servers.Server) error{
		"its master died": (*servers.Server).Kill, "its master went silent": (*servers.Server).Suspend,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes, rdb, c := startCluster(t, servers.Redis7)
			addReplica(t, nodes[0], rdb)
			c.Timeout = 3 * time.Second
			s := newSink(t, c)
			defer s.Close()
			target, err := s.Open(t.Context(), "", []*replicator.View{view("by_name", "index", "name:{a}")})
			if err != nil {
				t.Fatal(err)
			}
			put := func(version int64) error {
				var ops []replicator.Op
				for i := range int64(30) {
					e := replicator.Entry{Key: fmt.Sprintf("name:%d-%d", version, i), Member: fmt.Sprint(i)}
					c := cellOf(t, "cell", "users", i)
					ops = append(ops, replicator.Op{Cell: c, Version: version, Order: version,
						Values: []replicator.Value{{Entries: []replicator.Entry{e}}}})
				}
				_, err := target.Apply(t.Context(), ops)
				return err
			}
			if err := put(1); err != nil {
				t.Fatal(err)
			}
			if err := stop(nodes[0]); err != nil {
				t.Fatal(err)
			}
			wait(t, "the replica takes what its master took", func() error { return put(2) })
		})
	}
}

// addReplica adds a replica of a cluster's master. It waits until the replica is connected to the master and all
// masters know it.
func addReplica(t *testing.T, master *servers.Server, cluster *redis.ClusterClient) {
	t.Helper()
	node, bus := startNode(t, servers.Redis7)
	rdb, of := client(t, node), client(t, master)
	id, err := of.Do(t.Context(), "cluster", "myid").Text()
	if err != nil {
		t.Fatal(err)
	}
	if err := of.Do(t.Context(), "cluster", "meet", "127.0.0.1", node.Port, bus).Err(); err != nil {
		t.Fatal(err)
	}
	wait(t, "the node may be a replica", func() error {
		return rdb.ClusterReplicate(t.Context(), id).Err()
	})
	own, err := rdb.Do(t.Context(), "cluster", "myid").Text()
	if err != nil {
		t.Fatal(err)
	}
	wait(t, "it is one", func() error {
		info, err := rdb.Info(t.Context(), "replication").Result()
		if err == nil && !strings.Contains(info, "master_link_status:up") {
			err = fmt.Errorf("not yet: %.60s", info)
		}
		return err
	})
	wait(t, "all masters know it", func() error {
		return cluster.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
			nodes, err := node.ClusterNodes(ctx).Result()
			for line := range strings.Lines(nodes) {
				if err == nil && strings.HasPrefix(line, own) && strings.Contains(line, " slave "+id) {
					return nil
				}
			}
			return fmt.Errorf("not yet: %v %s", err, nodes)
		})
	})
}
