package redis

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"replicator"
	"replicator/internal/servers"
)

func TestThePostsOfAKeyLeadBackToIt(t *testing.T) {
	for _, key := range []string{"a", "tag:x", "{a}", "x{a}y", "a}b", "{", "{}", "a{b}c{d}", "{}}", ":", "a:{b}:c"} {
		if got := postedAt(postPrefix + sameSlot(key)); got != key {
			t.Errorf("%q leads to %q", key, got)
		}
	}
}

// TestANodeThatSteppedBackIsMadeGoodByAFill sets one node back to an earlier state, or to none at all. The other nodes
// keep later records and contributions.
func TestANodeThatSteppedBackIsMadeGoodByAFill(t *testing.T) {
	t.Parallel()
	nodes, rdb, c := startCluster(t, servers.Redis7)
	views := []*replicator.View{view("tags", "index", "tag:{a}"), view("people", "index", "people:{a}"),
		view("email", "index", "email:{a}"), view("sum", "counter", "sum:{a}", "n"),
		view("best", "ranking", "best:{a}", "n"), view("rows", "hash", "row:{a}", "n")}
	views[1].Member, views[4].Member = "{m}", "{m}"
	views[2].Settings = Settings{Unique: true}
	const cells = 60
	// Each version of a cell has other keys in all views but the last, where the key is the entity's.
	op := func(i, version int64, gone, fill bool) replicator.Op {
		o := replicator.Op{Cell: cellOf(t, "cell", "users", i), Version: version, Order: version,
			Values: make([]replicator.Value, len(views))}
		if fill {
			o.AsOf = 100
		}
		if gone {
			o.Version = replicator.NoVersion
			o.AsOf = 100
		}
		for v := range views {
			o.Values[v].View = v
			if gone {
				continue
			}
			e := replicator.Entry{Key: fmt.Sprintf("%s:%d-%d", strings.SplitN(views[v].Key, ":", 2)[0], version, i%7)}
			switch views[v].Name {
			case "people", "best":
				e.Member = fmt.Sprint("m", i%11)
			case "rows":
				e.Key = fmt.Sprint("row:", i)
			}
			if len(views[v].Fields) > 0 {
				e.Fields = []any{i + version}
			}
			o.Values[v].Entries = []replicator.Entry{e}
		}
		return o
	}
	applyAll := func(target replicator.Target, version int64, fill bool) {
		t.Helper()
		var ops []replicator.Op
		for i := range int64(cells) {
			switch {
			case version == 3 && i%5 == 0: // deleted in the last version
				ops = append(ops, op(i, version, true, fill))
			default:
				ops = append(ops, op(i, version, false, fill))
			}
		}
		apply(t, target, ops...)
	}
	open := func(sink *Sink) replicator.Target {
		t.Helper()
		target, err := sink.Open(t.Context(), "", views)
		if err != nil {
			t.Fatal(err)
		}
		return target
	}
	shown := func() map[string]string {
		t.Helper()
		all := map[string]string{}
		for _, v := range views {
			for key, value := range read(t, rdb, v) {
				all[v.Name+" "+key] = value
			}
		}
		return all
	}
	flush := func() {
		t.Helper()
		if err := rdb.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
			return node.FlushAll(ctx).Err()
		}); err != nil {
			t.Fatal(err)
		}
	}
	applyAll(open(works(t, c)), 3, true)
	want := shown()
	if len(want) < cells {
		t.Fatalf("%d things are shown", len(want))
	}
	tidied := func(target replicator.Target) {
		t.Helper()
		tidier, all := target.(replicator.Tidier), 0
		for v := range views {
			for after := ""; ; {
				strays, next, err := tidier.Strays(t.Context(), v, after, 100)
				if err != nil {
					t.Fatal(err)
				}
				n, err := tidier.Tidy(t.Context(), v, strays)
				if all += n; err != nil || n != len(strays) {
					t.Fatalf("of %d strays of view %s %d were removed: %v", len(strays), views[v].Name, n, err)
				}
				if after = next; after == "" {
					break
				}
			}
		}
		if all == 0 {
			t.Error("nothing is found that no record has")
		}
	}
	for _, by := range []string{"a fill", "a fill, of a node that lost all", "what verify repairs"} {
		lost := strings.HasSuffix(by, "lost all")
		flush()
		sink := works(t, c)
		sink.names = namesOfKinds{}
		target := open(sink)
		applyAll(target, 1, false)
		node := client(t, nodes[0])
		saved := map[string]string{}
		for _, key := range node.Keys(t.Context(), "*").Val() {
			saved[key] = node.Dump(t.Context(), key).Val()
		}
		applyAll(target, 2, false)
		if err := node.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		for key, value := range saved {
			if lost {
				break
			}
			if err := node.Restore(t.Context(), key, 0, value).Err(); err != nil {
				t.Fatal(err)
			}
		}
		target = open(sink)
		if by == "what verify repairs" {
			tidied(target)
		}
		applyAll(target, 3, true)
		if by != "what verify repairs" {
			if err := target.(replicator.Relinquisher).Relinquish(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		got := shown()
		for key := range got {
			if _, is := want[key]; !is {
				t.Errorf("by %s: %s shows %s, and nobody has it", by, key, got[key])
			}
		}
		for key, value := range want {
			if got[key] != value {
				t.Errorf("by %s: %s shows %q, want %q", by, key, got[key], value)
			}
		}
	}
}
