package redis

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"replicator"
)

// Unclaimed implements replicator.Tidier. It finds nothing: which cell a key belongs to can't be told from the key, and
// what the sink itself once put there its records know, whatever became of the view since: see Outdated.
func (t *Target) Unclaimed(context.Context, int, string, int) ([]replicator.Cell, string, error) {
	return nil, "", nil
}

// Outdated implements replicator.Target.
func (t *Target) Outdated(ctx context.Context, before int64, after string, limit int) ([]replicator.Cell, string, error) {
	return t.page(ctx, after, limit, func(r *record, c replicator.Cell) bool {
		return slices.ContainsFunc(t.keepers, func(k *keeper) bool { return k.shows(r, c, before) })
	})
}

// page goes through all records, node by node, and returns those of a page's cells that wanted reports.
func (t *Target) page(ctx context.Context, after string, limit int, wanted func(*record, replicator.Cell) bool) ([]replicator.Cell, string, error) {
	nodes, err := t.sink.nodes(ctx)
	if err != nil {
		return nil, "", err
	}
	at, cursor, err := parsePage(after)
	if err != nil || at >= len(nodes) {
		return nil, "", err
	}
	pattern := escapePattern.Replace(recordKey(t.source, "")) + "*"
	keys, next, err := nodes[at].Scan(ctx, cursor, pattern, int64(max(limit, 10))).Result()
	if err != nil {
		return nil, "", classify(err, "looking through the records")
	}
	stored, err := t.sink.get(ctx, keys)
	if err != nil {
		return nil, "", classify(err, "reading records")
	}
	var cells []replicator.Cell
	for i, s := range stored {
		r, err := parseRecord(s)
		if err != nil {
			return nil, "", replicator.Fatal(fmt.Errorf("%s: %w", keys[i], err))
		}
		for _, c := range r.cells {
			if wanted(r, c.cell) {
				cells = append(cells, c.cell)
			}
		}
	}
	switch {
	case next != 0:
		return cells, strconv.Itoa(at) + " " + strconv.FormatUint(next, 10), nil
	case at+1 < len(nodes):
		return cells, strconv.Itoa(at+1) + " 0", nil
	}
	return cells, "", nil
}

// shows reports whether the view shows the cell, or knows a version of it, although nothing at or past the order was
// applied to it.
func (k *keeper) shows(r *record, c replicator.Cell, before int64) bool {
	v := r.find(c, k.id)
	switch {
	case v == nil:
		return false
	case v.generation != k.generation:
		return v.claims != ""
	}
	return (v.claims != "" || v.state.Version != replicator.NoVersion) && max(v.state.Order, v.state.AsOf) < before
}

var escapePattern = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`)

func parsePage(after string) (node int, cursor uint64, err error) {
	if after == "" {
		return 0, 0, nil
	}
	first, second, _ := strings.Cut(after, " ")
	if node, err = strconv.Atoi(first); err == nil {
		cursor, err = strconv.ParseUint(second, 10, 64)
	}
	if err != nil || node < 0 {
		return 0, 0, fmt.Errorf("%q is not where a page of records begins", after)
	}
	return node, cursor, nil
}

// nodes are the servers that hold data, always in one order.
func (s *Sink) nodes(ctx context.Context) ([]redis.Cmdable, error) {
	cluster, ok := s.rdb.(*redis.ClusterClient)
	if !ok {
		return []redis.Cmdable{s.rdb}, nil
	}
	type node struct {
		addr   string
		client *redis.Client
	}
	var mu sync.Mutex
	var found []node
	err := cluster.ForEachMaster(ctx, func(_ context.Context, c *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		found = append(found, node{c.Options().Addr, c})
		return nil
	})
	if err != nil {
		return nil, classify(err, "asking for the cluster's nodes")
	}
	slices.SortFunc(found, func(a, b node) int { return strings.Compare(a.addr, b.addr) })
	clients := make([]redis.Cmdable, len(found))
	for i, n := range found {
		clients[i] = n.client
	}
	return clients, nil
}
