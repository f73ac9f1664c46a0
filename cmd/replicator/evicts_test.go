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

// Redis loses keys, including sums and the amounts that they are made of. verify finds the loss, and a rebuild restores
// the keys. If the server reports evictions, the program repairs the views without an operator.
func TestARedisThatEvictsIsRepaired(t *testing.T) {
	t.Parallel()
	l := newBareLab(t, servertest.MySQL(t))
	redis, rdb := ownRedis(t)
	l.env["REDIS"] = "redis://" + redis.Addr()
	l.exec("CREATE TABLE sale (id INT PRIMARY KEY, shop INT, amount DECIMAL(9,2))")
	for id := range 40 {
		l.exec(fmt.Sprintf("INSERT INTO sale VALUES (%d, %d, %d.25)", id, id%3, id))
	}
	// Marks may be evicted, too. With on_lost = "rebuild", the views are then filled again.
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
		// If a mark was evicted, the program notices that before it sees the number of evictions.
		_, status := l.answer("/api/v1/status")
		if !strings.Contains(status, `"evicted_keys":`) && !strings.Contains(p.Log(), "The views are filled again") {
			return fmt.Errorf("nothing tells of evictions: %s", status)
		}
		if got := shownSales(t, rdb); !slices.Equal(got, want) {
			return fmt.Errorf("the views have %q", got)
		}
		// The program may have seen only the first evictions. Then the views may look right although the keys behind
		// them are missing, until the program sees the others. verify checks these keys, too.
		if r := l.run("verify"); r.code != 0 {
			return fmt.Errorf("verify says\n%s%s", r.out, r.errors)
		}
		return nil
	})
	p.stop()
}

// shownSales returns what readers see of the sales.
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
