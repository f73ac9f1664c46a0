package redis

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"replicator"
)

// namesOfKinds implements config.Names for the templates of kinds. A view's keys begin with the text before the first
// brace of its template. The rest of a key counts as the entity.
type namesOfKinds struct{}

func (namesOfKinds) Has(string) bool { return true }

func (namesOfKinds) Begins(v *replicator.View) string {
	begins, _, _ := strings.Cut(v.Key, "{")
	return begins
}

func (n namesOfKinds) Entities(v *replicator.View, name string) ([]string, bool) {
	entity, ok := strings.CutPrefix(name, n.Begins(v))
	return []string{entity}, ok
}

func (n namesOfKinds) Makes(v *replicator.View, name string) bool {
	_, is := n.Entities(v, name)
	return is
}

// plant writes entries where a view would show them, with plain commands.
func plant(
	t testing.TB, rdb redis.UniversalClient, v *replicator.View, c replicator.Cell, entries []replicator.Entry,
) {
	t.Helper()
	byHand(t, rdb, entries, func(ctx context.Context, p redis.Pipeliner, e replicator.Entry) {
		last := len(e.Fields) - 1
		switch {
		case v.Kind == "hash" || v.Kind == "json":
			values := map[string]any{}
			for i, f := range v.Fields {
				if e.Fields[i] != nil {
					values[f.Name] = e.Fields[i]
				}
			}
			text, err := json.Marshal(values)
			if err != nil {
				t.Fatal(err)
			}
			if v.Kind == "json" {
				p.Set(ctx, e.Key, text, 0)
			} else {
				p.HSet(ctx, e.Key, values)
			}
		case v.Kind == "counter":
			p.Set(ctx, e.Key, e.Fields[last], 0)
		case v.Kind == "ranking":
			p.ZAdd(ctx, e.Key, redis.Z{Score: float64(e.Fields[last].(int64)), Member: memberOf(c, e)})
		case settingsOf(v).Unique:
			p.Set(ctx, e.Key, memberOf(c, e), 0)
		default:
			p.SAdd(ctx, e.Key, memberOf(c, e))
		}
	})
}

// remove removes entries from where a view shows them, with plain commands.
func remove(
	t testing.TB, rdb redis.UniversalClient, v *replicator.View, c replicator.Cell, entries []replicator.Entry,
) {
	t.Helper()
	byHand(t, rdb, entries, func(ctx context.Context, p redis.Pipeliner, e replicator.Entry) {
		switch {
		case v.Kind == "ranking":
			p.ZRem(ctx, e.Key, memberOf(c, e))
		case v.Kind == "index" && !settingsOf(v).Unique:
			p.SRem(ctx, e.Key, memberOf(c, e))
		default:
			p.Del(ctx, e.Key)
		}
	})
}

func byHand(
	t testing.TB, rdb redis.UniversalClient, entries []replicator.Entry,
	do func(context.Context, redis.Pipeliner, replicator.Entry),
) {
	t.Helper()
	_, err := rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for _, e := range entries {
			do(t.Context(), p, e)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// memberOf returns the member of an entry in a set or a ranking.
func memberOf(c replicator.Cell, e replicator.Entry) string {
	if e.Member != "" {
		return e.Member
	}
	return c.Key.String()
}
