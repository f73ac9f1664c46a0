package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"replicator/internal/servers/servertest"
)

const salesViews = `
[tables.sale]
key = "id"
` + redisSink + `
[views.sold]
from = "sale"
sink = "cache"
kind = "counter"
key = "sold:{shop}"
sum = "amount"

[views.best]
from = "sale"
sink = "cache"
kind = "ranking"
key = "best"
member = "{shop}"
sum = "amount"

[views.sales]
from = "sale"
sink = "cache"
kind = "hash"
key = "sale:{id}"
fields = ["shop", "amount"]
`

// TestARedisThatEvictsIsRepaired: what it lost alone, sums and what they are made of included, is found by verify, made
// again by a rebuild, and put right without anybody's help where the server tells that it evicts.
func TestARedisThatEvictsIsRepaired(t *testing.T) {
	t.Parallel()
	l := newBareLab(t, servertest.MySQL(t))
	redis, rdb := ownRedis(t)
	l.env["REDIS"] = "redis://" + redis.Addr()
	l.exec("CREATE TABLE sale (id INT PRIMARY KEY, shop INT, amount DECIMAL(9,2))")
	for id := range 40 {
		l.exec(fmt.Sprintf("INSERT INTO sale VALUES (%d, %d, %d.25)", id, id%3, id))
	}
	// The marks may be evicted, too: the views are filled again then.
	l.configure(strings.Replace(source, "[source]", "[source]\non_lost = \"rebuild\"", 1),
		strings.Split(program, "[tables.cell]")[0], salesViews)
	p := l.running()
	l.caughtUp()
	want := shownSales(t, rdb)
	if len(want) != 40+3+1 {
		t.Fatalf("the views have %q", want)
	}
	ctx := t.Context()
	lose := func() {
		t.Helper()
		keys := append(rdb.Keys(ctx, "replicator:sum:*").Val()[:2], "replicator:entity::7", "replicator:entity::8", "sale:9")
		if n, err := rdb.Del(ctx, keys...).Result(); err != nil || n != int64(len(keys)) {
			t.Fatalf("of %q %d were there (%v)", keys, n, err)
		}
		l.exec("UPDATE sale SET amount = amount + 1 WHERE id IN (1, 2, 7)",
			"UPDATE sale SET amount = amount - 1 WHERE id IN (1, 2, 7)")
		l.caughtUp()
	}
	right := func(when string) {
		t.Helper()
		if got := shownSales(t, rdb); !slices.Equal(got, want) {
			t.Errorf("%s the views have\n%q, want\n%q", when, got, want)
		}
		l.must("verify")
	}
	lose()
	if r := l.run("verify", "sold"); r.code == 0 {
		t.Errorf("verify finds nothing:\n%s", r.out)
	}
	l.must("verify", "--repair")
	right("after a repair")
	lose()
	l.must("rebuild", "sold", "best", "sales")
	right("after a rebuild")

	for _, setting := range [][2]string{{"maxmemory-policy", "allkeys-random"}, {"maxmemory", "3mb"}} {
		if err := rdb.ConfigSet(ctx, setting[0], setting[1]).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for n := 0; strings.Contains(rdb.Info(ctx, "stats").Val(), "evicted_keys:0\r") || n < 100; n++ {
		rdb.Set(ctx, fmt.Sprint("other:", n), strings.Repeat("x", 50_000), 0)
	}
	if err := rdb.ConfigSet(ctx, "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		// Where a mark is among what was evicted, that is what the program sees first.
		_, status := l.answer("/api/v1/status")
		if !strings.Contains(status, `"evicted_keys":`) && !strings.Contains(p.Log(), "The views are filled again") {
			return fmt.Errorf("nothing tells of evictions: %s", status)
		}
		if got := shownSales(t, rdb); !slices.Equal(got, want) {
			return fmt.Errorf("the views have %q", got)
		}
		// It may have been told of the first evictions while there were more: views that look right may be made of what
		// is not there, until it is told of those.
		if r := l.run("verify"); r.code != 0 {
			return fmt.Errorf("verify says\n%s%s", r.out, r.errors)
		}
		return nil
	})
	p.stop()
}

// shownSales is what readers see.
func shownSales(t *testing.T, rdb *goredis.Client) (all []string) {
	t.Helper()
	ctx := t.Context()
	for _, key := range rdb.Keys(ctx, "s*").Val() {
		if strings.HasPrefix(key, "sold:") {
			all = append(all, key+" "+rdb.Get(ctx, key).Val())
		} else {
			h := rdb.HGetAll(ctx, key).Val()
			all = append(all, key+" "+h["shop"]+" "+h["amount"])
		}
	}
	slices.Sort(all)
	return append(all, fmt.Sprint(rdb.ZRangeWithScores(ctx, "best", 0, -1).Val()))
}
