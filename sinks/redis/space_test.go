package redis

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"replicator"
)

// TestTheRecordsTakeTheSpaceThatSizingSays limits how much memory a record takes, in addition to the view's own keys.
// docs/sizing.md has the figures, for cells with a key of 16 bytes. Run the test with -v to see them.
func TestTheRecordsTakeTheSpaceThatSizingSays(t *testing.T) {
	const cells = 10_000
	cities := []string{"Lyon", "Oslo", "Porto", "Gdansk", "Graz"}
	mail := func(i int, _ string) replicator.Entry {
		return replicator.Entry{Key: fmt.Sprintf("mail:user-%d@example.org", i)}
	}
	city := func(i int, _ string) replicator.Entry { return replicator.Entry{Key: "city:" + cities[i%5]} }
	for name, c := range map[string]struct {
		view  *replicator.View
		entry func(i int, key string) replicator.Entry
		most  int64
	}{
		"hash": {view("v", "hash", "user:{k}", "email", "city", "name"), func(i int, key string) replicator.Entry {
			return replicator.Entry{Key: "user:" + key, Fields: []any{fmt.Sprintf("user-%d@example.org", i), cities[i%5],
				fmt.Sprintf("somebody %d", i)}}
		}, 215},
		"index":       {view("v", "index", "mail:{email}"), mail, 215},
		"five values": {view("v", "index", "city:{city}"), city, 200},
		"counter": {view("v", "counter", "city:{city}", "n"), func(i int, key string) replicator.Entry {
			e := city(i, key)
			e.Fields = []any{int64(1)}
			return e
		}, 200},
		"ranking": {ranked("v"), func(i int, key string) replicator.Entry {
			return replicator.Entry{Key: "top:" + cities[i%5], Member: key, Fields: []any{int64(i)}}
		}, 320},
	} {
		t.Run(name, func(t *testing.T) {
			f := open(t, c.view)
			var ops []replicator.Op
			for i := range cells {
				sum := sha256.Sum256([]byte(fmt.Sprint(i)))
				cell := cellOf(t, "cell", "", sum[:16])
				ops = append(ops, replicator.Op{Cell: cell, Version: 1, Order: 1<<54 + 3<<34 + int64(i)*300,
					Values: []replicator.Value{{Entries: []replicator.Entry{c.entry(i, cell.Key.String())}}}})
			}
			for ; len(ops) > 0; ops = ops[500:] {
				apply(t, f.target, ops[:500]...)
			}
			with := usedMemory(t, f)
			own, err := f.rdb.Keys(t.Context(), prefix+"*").Result()
			if err != nil {
				t.Fatal(err)
			}
			for ; len(own) > 0; own = own[min(500, len(own)):] {
				f.rdb.Del(t.Context(), own[:min(500, len(own))]...)
			}
			taken := (with - usedMemory(t, f)) / cells
			t.Logf("%d bytes a cell", taken)
			if taken > c.most {
				t.Errorf("the state takes %d bytes a cell, at most %d so far", taken, c.most)
			}
		})
	}
}

func ranked(name string) *replicator.View {
	v := view(name, "ranking", "top:{city}", "n")
	v.Member = "{k}"
	return v
}

func usedMemory(t *testing.T, f *fixture) (n int64) {
	t.Helper()
	info, err := f.rdb.Info(t.Context(), "memory").Result()
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(info, "used_memory:")
	if _, err := fmt.Sscan(after, &n); err != nil {
		t.Fatal(err)
	}
	return n
}
