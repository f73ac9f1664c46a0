package redis

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/sinks/sinktest"
)

const day = 24 * time.Hour

// expiring returns a view of each kind that can expire. Their keys are NAME:ENTITY, those of the indexes NAME:v.
func expiring(expire time.Duration) []*replicator.View {
	views := []*replicator.View{view("h", "hash", "h:{k}", "a", "b"), view("j", "json", "j:{k}", "a", "b"),
		view("s", "index", "s:{a}"), view("m", "index", "m:{a}")}
	views[3].Member = "{b}"
	for _, v := range views {
		v.Settings = Settings{Expire: expire}
		v.Fingerprint = expire.String()
	}
	return views
}

// expiringOp returns an op that shows the entity in all views, in the indexes at v; or nowhere, if a is nil.
func expiringOp(t *testing.T, entity string, n int64, a any) replicator.Op {
	op := replicator.Op{Cell: cellOf(t, "cell", "users", entity), Version: n, Order: n}
	for i, e := range []replicator.Entry{
		{Key: "h:" + entity, Fields: []any{a, "b"}}, {Key: "j:" + entity, Fields: []any{a, "b"}},
		{Key: "s:v"}, {Key: "m:v", Member: "one"},
	} {
		v := replicator.Value{View: i}
		if a != nil {
			v.Entries = []replicator.Entry{e}
		}
		op.Values = append(op.Values, v)
	}
	return op
}

// goesIn returns how long a key has left; -1ns: it never expires, -2ns: there is no key.
func goesIn(t *testing.T, rdb redis.UniversalClient, key string) time.Duration {
	t.Helper()
	d, err := rdb.PTTL(t.Context(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// spend leaves keys only an hour of their time.
func spend(t *testing.T, rdb redis.UniversalClient, keys ...string) {
	t.Helper()
	for _, key := range keys {
		if set, err := rdb.PExpire(t.Context(), key, time.Hour).Result(); err != nil || !set {
			t.Fatalf("%s is not there (%v)", key, err)
		}
	}
}

// pass removes keys, as if they had expired.
func pass(t *testing.T, rdb redis.UniversalClient, keys ...string) {
	t.Helper()
	for _, key := range keys {
		if n, err := rdb.Del(t.Context(), key).Result(); err != nil || n == 0 {
			t.Fatalf("%s is not there (%v)", key, err)
		}
	}
}

func openViews(t *testing.T, sink *Sink, views []*replicator.View) replicator.Target {
	t.Helper()
	target, err := sink.Open(t.Context(), "", views)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

var expiringKeys = []string{"h:x", "j:x", "s:v", "m:v"}

// fresh checks that the time of keys has just begun.
func fresh(t *testing.T, rdb redis.UniversalClient, when string, keys ...string) {
	t.Helper()
	for _, key := range keys {
		if d := goesIn(t, rdb, key); d <= day-time.Hour || d > day {
			t.Errorf("%s, %s goes in %v, want a day", when, key, d)
		}
	}
}

func absent(t *testing.T, rdb redis.UniversalClient, when string, keys ...string) {
	t.Helper()
	for _, key := range keys {
		if d := goesIn(t, rdb, key); d != -2 {
			t.Errorf("%s, %s is there", when, key)
		}
	}
}

func TestEveryChangeOfAnEntityBeginsTheTimeOfItsKeysAgain(t *testing.T) {
	everywhere(t, func(t *testing.T, rdb redis.UniversalClient, c Config) {
		sink := newSink(t, c)
		defer sink.Close()
		target := openViews(t, sink, expiring(day))
		apply(t, target, expiringOp(t, "x", 1, "1"))
		fresh(t, rdb, "after the first change", expiringKeys...)

		spend(t, rdb, expiringKeys...)
		apply(t, target, expiringOp(t, "x", 2, "2"))
		fresh(t, rdb, "after another one", expiringKeys...)

		spend(t, rdb, expiringKeys...)
		apply(t, target, expiringOp(t, "x", 3, "2"))
		fresh(t, rdb, "after one that says the same", expiringKeys...)

		spend(t, rdb, expiringKeys...)
		apply(t, target, expiringOp(t, "x", 3, "2"), expiringOp(t, "y", 1, nil))
		apply(t, target, expiringOp(t, "x", 2, "1"))
		for _, key := range expiringKeys {
			if d := goesIn(t, rdb, key); d > time.Hour {
				t.Errorf("after a replay %s goes in %v, want an hour at most", key, d)
			}
		}

		pass(t, rdb, expiringKeys...)
		apply(t, target, expiringOp(t, "x", 1, "1"), expiringOp(t, "x", 2, "2"))
		apply(t, target, expiringOp(t, "x", 3, "2"))
		absent(t, rdb, "after a replay", expiringKeys...)

		apply(t, target, expiringOp(t, "x", 4, "2"))
		fresh(t, rdb, "after a change of an entity whose keys were gone", expiringKeys...)
		if got := rdb.HGetAll(t.Context(), "h:x").Val(); len(got) != 2 || got["a"] != "2" {
			t.Errorf("the hash is %v", got)
		}

		apply(t, target, expiringOp(t, "y", 5, "2"))
		spend(t, rdb, expiringKeys...)
		apply(t, target, expiringOp(t, "x", 6, nil))
		absent(t, rdb, "after a delete", "h:x", "j:x")
		for key, member := range map[string]string{"s:v": "y", "m:v": "one"} {
			if got := rdb.SMembers(t.Context(), key).Val(); !slices.Equal(got, []string{member}) {
				t.Errorf("%s holds %v, want %s", key, got, member)
			}
			if d := goesIn(t, rdb, key); d > time.Hour {
				t.Errorf("an entity that leaves %s begins its time again: %v", key, d)
			}
		}
		for _, key := range keysLike(t, rdb, prefix+"*") {
			if d := goesIn(t, rdb, key); d != -1 && !strings.HasPrefix(key, gonePrefix) {
				t.Errorf("%s, a key of the sink's own, goes in %v", key, d)
			}
		}
	})
}

// The other tests pretend that time passes. Here the server's clock counts.
func TestAKeyGoesWhenItsTimeIsOver(t *testing.T) {
	f := open(t, expiring(50*time.Millisecond)...)
	apply(t, f.target, expiringOp(t, "x", 1, "1"))
	for _, key := range expiringKeys {
		wait(t, key+" to go", func() error {
			if f.rdb.Exists(t.Context(), key).Val() > 0 {
				return fmt.Errorf("%s is there", key)
			}
			return nil
		})
	}
}

func TestAnExpiredKeyIsNoDifference(t *testing.T) {
	everywhere(t, func(t *testing.T, rdb redis.UniversalClient, c Config) {
		sink := newSink(t, c)
		defer sink.Close()
		target := openViews(t, sink, expiring(day))
		differs := func(when string, op replicator.Op, want ...string) {
			t.Helper()
			found, err := target.Compare(t.Context(), []replicator.Op{op})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range found {
				got = append(got, fmt.Sprint("hjsm"[d.View:d.View+1], " ", d.Kind))
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("%s: differences %q, want %q", when, got, want)
			}
		}
		asOf := func(op replicator.Op) replicator.Op { op.AsOf = 10; return op }
		now := asOf(expiringOp(t, "x", 1, "1"))
		differs("before anything was applied", now, "h missing", "j missing", "m missing", "s missing")
		apply(t, target, expiringOp(t, "x", 1, "1"), expiringOp(t, "y", 1, "1"))
		differs("once it was", now)
		pass(t, rdb, expiringKeys...)
		differs("once the keys expired", now)
		differs("where the source has changed since", asOf(expiringOp(t, "x", 2, "2")), "h missing", "j missing")
		differs("where the source has it no more", asOf(expiringOp(t, "x", 2, nil)))

		rdb.HSet(t.Context(), "h:x", "b", "other")
		rdb.Set(t.Context(), "j:x", "{}", 0)
		rdb.SAdd(t.Context(), "s:v", "z")
		differs("where keys hold something else", now, "h stale", "j stale")
		pass(t, rdb, "h:x", "j:x", "s:v")
		for _, key := range expiringKeys {
			rdb.LPush(t.Context(), key, "theirs")
		}
		differs("where keys have another type", now, "h missing", "j missing", "m missing", "s missing")

		pass(t, rdb, expiringKeys...)
		repair := now
		repair.Rewrite = true
		apply(t, target, repair)
		fresh(t, rdb, "after a repair", expiringKeys...)
		differs("after a repair", now)

		pass(t, rdb, expiringKeys...)
		tidier := target.(replicator.Tidier)
		for i := range expiring(day) {
			for after, more := "", true; more; more = after != "" {
				var strays []replicator.Stray
				var err error
				if strays, after, err = tidier.Strays(t.Context(), i, after, 100); err != nil || len(strays) > 0 {
					t.Errorf("view %d has strays: %v, %v", i, strays, err)
				}
			}
		}
	})
}

// If a view's expiry is removed, its keys stay.
func TestKeysOfAViewThatExpiresNoMoreStay(t *testing.T) {
	everywhere(t, func(t *testing.T, rdb redis.UniversalClient, c Config) {
		sink := newSink(t, c)
		defer sink.Close()
		target := openViews(t, sink, expiring(day))
		apply(t, target, expiringOp(t, "x", 1, "1"), expiringOp(t, "y", 1, "1"))
		fill := func(views []*replicator.View) {
			target := openViews(t, sink, views)
			apply(t, target, expiringOp(t, "y", 2, "1"))
			apply(t, target, expiringOp(t, "x", 2, "1"))
			if err := target.(*Target).Relinquish(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		fill(expiring(0))
		for _, key := range append(expiringKeys, "h:y", "j:y") {
			if d := goesIn(t, rdb, key); d != -1 {
				t.Errorf("%s goes in %v", key, d)
			}
		}
		fill(expiring(2 * day))
		for _, key := range expiringKeys {
			if d := goesIn(t, rdb, key); d <= day {
				t.Errorf("with a longer time %s goes in %v", key, d)
			}
		}
	})
}

// In a cluster, a change is in the record before it reaches its keys. The process that finishes it sets the expiry,
// too.
func TestAKeyExpiresThoughAnotherProcessFinishesItsChange(t *testing.T) {
	t.Parallel()
	_, rdb, c := startCluster(t, servers.Redis7)
	sink := newSink(t, c)
	defer sink.Close()
	target := openViews(t, sink, expiring(day)).(*Target)
	op := expiringOp(t, "x", 1, "1")
	b := target.newBatch([]replicator.Op{op})
	e := b.list[0]
	if err := target.read(t.Context(), b.list); err != nil {
		t.Fatal(err)
	}
	if err := e.decide(b); err != nil {
		t.Fatal(err)
	}
	again := map[*entity]bool{}
	if err := sink.swapRecords(t.Context(), b, b.list, again); err != nil || len(again) > 0 {
		t.Fatal(err, again)
	}
	absent(t, rdb, "where the process ended before it wrote them", expiringKeys...)
	other := newSink(t, c)
	defer other.Close()
	op.Values = op.Values[:1]
	apply(t, openViews(t, other, expiring(day)[:1]), op)
	fresh(t, rdb, "once another one finished", expiringKeys...)
}

func TestAViewThatMayNotExpireItsKeysFailsAlone(t *testing.T) {
	s := servertest.Own(t, servers.Redis7)
	rdb := client(t, s)
	setUser(t, rdb, words("~* "+mayAsk+" -pexpire")...)
	sink := newSink(t, Config{URLs: []string{s.DSN("0")}, Username: "rep", Password: "secret"})
	defer sink.Close()
	views := expiring(0)
	views[2].Settings = Settings{Expire: day}
	_, err := sink.Open(t.Context(), "", views)
	if err == nil || !strings.Contains(err.Error(), "ACL SETUSER rep +@read +@write +@scripting +@keyspace") {
		t.Errorf("Open says %v", err)
	}
	sinktest.Refuses(t, err, views, "s")

	setUser(t, rdb, "+pexpire")
	target := openViews(t, sink, views)
	apply(t, target, expiringOp(t, "x", 1, "1"))
	setUser(t, rdb, "-pexpire")
	_, err = target.Apply(t.Context(), []replicator.Op{expiringOp(t, "y", 1, "1")})
	sinktest.Refuses(t, err, views, "s")
	if got := rdb.SMembers(t.Context(), "s:v").Val(); !slices.Equal(got, []string{"x"}) {
		t.Errorf("what was refused as a whole shows %q", got)
	}
}

// TestExpiringViewsPassTheHistories runs random histories of many writers, with a time that never ends.
func TestExpiringViewsPassTheHistories(t *testing.T) {
	everywhere(t, func(t *testing.T, rdb redis.UniversalClient, c Config) {
		var views []*replicator.View
		for _, kind := range []string{"hash", "index"} { // an entity's record then has several kinds
			for _, v := range kinds()[kind] {
				v.Settings = Settings{Expire: day}
				views = append(views, v)
			}
		}
		sinktest.RunHistories(t, subject(t, views, rdb, c))
		for _, v := range views {
			name, _, _ := strings.Cut(v.Key, "{")
			for _, key := range keysLike(t, rdb, name+"*") {
				fresh(t, rdb, "in the end", key)
			}
		}
	})
}
