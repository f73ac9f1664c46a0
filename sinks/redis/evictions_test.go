package redis

import (
	"fmt"
	"strings"
	"testing"

	"replicator"
)

// fillUp writes another program's keys until the server evicts some, and returns how many it has evicted.
func fillUp(t *testing.T, f *fixture) (evicted int64) {
	t.Helper()
	f.cli(t, "CONFIG", "SET", "maxmemory", "5mb")
	for n := 0; evicted == 0; n++ {
		if err := f.rdb.Set(t.Context(), fmt.Sprint("other:", n), strings.Repeat("x", 100_000), 0).Err(); err != nil {
			t.Fatal(err)
		}
		evicted = evictedKeys(t, f)
	}
	f.cli(t, "CONFIG", "SET", "maxmemory", "0")
	return evictedKeys(t, f)
}

func evictedKeys(t *testing.T, f *fixture) (n int64) {
	t.Helper()
	if _, err := fmt.Sscan(parseInfo(f.rdb.Info(t.Context(), "stats").Val())["evicted_keys"], &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestEvictionsAreTold checks that the next mark finds evictions, and that they are told once. If the process ends
// before that, the next one tells them.
func TestEvictionsAreTold(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.cli(t, "CONFIG", "SET", "maxmemory-policy", "allkeys-random")
	v := view("h", "hash", "h:{k}", "a")
	order := int64(0)
	mark := func(target replicator.Target) {
		t.Helper()
		order++
		at := replicator.Standing{Position: replicator.Position{Order: order, Token: "p"}}
		if err := target.Mark(t.Context(), at); err != nil {
			t.Fatal(err)
		}
	}
	told := func(target replicator.Target, want int64) {
		t.Helper()
		if got := target.(replicator.Evicter).Evicted(); got != want {
			t.Errorf("%d evictions are told of, want %d", got, want)
		}
	}
	target := f.open(t, v)
	mark(target)
	told(target, 0)
	marks := f.rdb.Dump(t.Context(), f.sink.markKeys("")[0]).Val()
	n := fillUp(t, f)
	// The server evicts at random. Another test loses marks.
	if err := f.rdb.RestoreReplace(t.Context(), f.sink.markKeys("")[0], 0, marks).Err(); err != nil {
		t.Fatal(err)
	}

	mark(target) // nothing calls Evicted before the process ends
	target = f.open(t, v)
	told(target, n)
	told(target, 0)
	mark(target)
	told(target, 0)
	target = f.open(t, v)
	mark(target)
	told(target, 0)

	f.cli(t, "CONFIG", "RESETSTAT") // as a restart does
	mark(target)
	told(target, 0)
	told(f.open(t, view("new", "hash", "new:{k}", "a")), 0)
}

// TestWhoMayNotAskForEvictionsMarksAllTheSame checks that marks work without INFO, which managed servers and users with
// few permissions are refused.
func TestWhoMayNotAskForEvictionsMarksAllTheSame(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.cli(t, "ACL", "SETUSER", "blind", "on", ">secret", "~*", "+@all", "-info")
	sink := newSink(t, Config{URLs: []string{f.server.DSN("0")}, Username: "blind", Password: "secret"})
	defer sink.Close()
	target, err := sink.Open(t.Context(), "", []*replicator.View{view("h", "hash", "h:{k}", "a")})
	if err != nil {
		t.Fatal(err)
	}
	for order := range int64(2) {
		at := replicator.Standing{Position: replicator.Position{Order: order + 1, Token: "p"}}
		if err := target.Mark(t.Context(), at); err != nil {
			t.Fatal(err)
		}
	}
	if n := target.(replicator.Evicter).Evicted(); n != 0 {
		t.Errorf("%d evictions are told of", n)
	}
}
