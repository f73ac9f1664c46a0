package redis

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"replicator"
	"replicator/sinks/judge"
)

// Outdated returns cells that a view still has, although the op applied to them last is before the log position
// `before`.
func (t *Target) Outdated(
	ctx context.Context, before int64, after string, limit int,
) ([]replicator.Cell, string, error) {
	return t.walk(ctx, after, limit, func(c *cellRecord) bool {
		return slices.ContainsFunc(t.keepers, func(k *keeper) bool {
			return k.view.Feeds(c.cell) && k.known(c.view(k.id)).Outdated(before)
		})
	})
}

// Held implements replicator.Target. It misses entries that are in no record: a key doesn't say which cell it belongs
// to.
func (t *Target) Held(ctx context.Context, view int, after string, limit int) ([]replicator.Cell, string, error) {
	id := t.keepers[view].id
	return t.walk(ctx, after, limit, func(c *cellRecord) bool {
		v := c.view(id)
		return v != nil && v.contributes()
	})
}

// Dead lists the cells that are dead letters in a view, a page at a time.
func (t *Target) Dead(ctx context.Context, view int, after string, limit int) ([]replicator.Cell, string, error) {
	k := t.keepers[view]
	return t.walk(ctx, after, limit, func(c *cellRecord) bool { return k.known(c.view(k.id)).Dead })
}

// listingRecords says in messages that the keys of records are being listed.
const listingRecords = "listing the keys " + entityPrefix + "…"

// walk reads one page of the records, from the cursor `after` on. It returns the page's cells for which `wanted`
// returns true, and the cursor of the next page; "" after the last one.
func (t *Target) walk(
	ctx context.Context, after string, limit int, wanted func(*cellRecord) bool,
) (cells []replicator.Cell, next string, err error) {
	keys, next, err := t.sink.scan(ctx, recordKey(""), "", after, limit)
	if err != nil {
		return nil, "", classify(err, listingRecords)
	}
	records, err := t.sink.records(ctx, keys)
	for _, r := range records {
		for i := range r.cells {
			if wanted(&r.cells[i]) {
				cells = append(cells, r.cells[i].cell)
			}
		}
	}
	return cells, next, err
}

// recordPage is how many records one step reads, and roughly how many ops it applies.
const recordPage = 1000

func (t *Target) eachPage(ctx context.Context, do func(keys []string) error) error {
	for after := ""; ; {
		keys, next, err := t.sink.scan(ctx, recordKey(""), "string", after, recordPage)
		if err != nil {
			return classify(err, listingRecords)
		}
		for some := range slices.Chunk(keys, recordPage) {
			if err := do(some); err != nil {
				return err
			}
		}
		if after = next; after == "" {
			return nil
		}
	}
}

func (t *Target) eachRecord(ctx context.Context, do func(key string, r *record) error) error {
	return t.eachPage(ctx, func(keys []string) error {
		records, err := t.sink.records(ctx, keys)
		for i := 0; i < len(records) && err == nil; i++ {
			err = do(keys[i], records[i])
		}
		return err
	})
}

// records reads and parses entities' records. A record that does not exist is empty.
func (s *Sink) records(ctx context.Context, keys []string) ([]*record, error) {
	stored, err := s.get(ctx, keys)
	if err != nil {
		return nil, classify(err, "reading records")
	}
	records := make([]*record, len(keys))
	for i := range keys {
		if records[i], err = s.parse(ctx, new(arena), stored[i], entityOf(keys[i])); err != nil {
			return nil, replicator.Fatal(fmt.Errorf("%s: %w", keys[i], err))
		}
	}
	return records, nil
}

// scanned is the progress of a scan of the servers' keys.
type scanned struct {
	Node   int // the node's index in Sink.nodes
	Cursor uint64
}

var escapePattern = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`)

// scan goes through all keys with a prefix, node by node, and returns a page of them. typ is the type of the keys; ""
// for any type.
func (s *Sink) scan(
	ctx context.Context, begin, typ, after string, limit int,
) (keys []string, next string, err error) {
	var at scanned
	if err := judge.At(after, &at); err != nil {
		return nil, "", err
	}
	nodes, err := s.nodes(ctx)
	if err != nil || at.Node >= len(nodes) {
		return nil, "", err
	}
	pattern := escapePattern.Replace(begin) + "*"
	keys, at.Cursor, err = nodes[at.Node].ScanType(ctx, at.Cursor, pattern, int64(max(limit, 10)), typ).Result()
	if err != nil {
		return nil, "", err
	}
	if at.Cursor == 0 {
		if at.Node++; at.Node == len(nodes) {
			return keys, "", nil
		}
	}
	return keys, judge.Cursor(at), nil
}

// nodes returns the servers that hold data, in a fixed order.
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
