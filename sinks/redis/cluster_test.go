package redis

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
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
