package redis

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/sinks/judge"
)

// moving has several sources that feed views of one sink.
type moving struct {
	t       *testing.T
	rdb     redis.UniversalClient
	sink    *Sink
	views   []*replicator.View
	targets map[string]replicator.Target
}

func newMoving(t *testing.T, rdb redis.UniversalClient, c Config, views []*replicator.View, sources ...string) *moving {
	t.Helper()
	c.Sources = judge.Sources{Shards: sources}
	m := &moving{t: t, rdb: rdb, sink: newSink(t, c), views: views, targets: map[string]replicator.Target{}}
	t.Cleanup(func() {
		if err := m.sink.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, s := range sources {
		m.open(s)
	}
	return m
}

func (m *moving) open(source string) {
	m.t.Helper()
	target, err := m.sink.Open(m.t.Context(), source, m.views)
	if err != nil {
		m.t.Fatal(err)
	}
	m.targets[source] = target
}

// op returns an op of a cell. body is "email city amount"; if it is empty, the cell is deleted.
func (m *moving) op(column string, key any, n int64, body string) replicator.Op {
	op := replicator.Op{Cell: cellOf(m.t, "cell", column, key), Version: n, Order: n}
	if body == "" {
		op.Version, op.Order, op.AsOf = replicator.NoVersion, 0, n
	}
	for i, v := range m.views {
		if !v.Feeds(op.Cell) {
			continue
		}
		value := replicator.Value{View: i}
		if words := strings.Fields(body); len(words) > 0 {
			has := map[string]any{"email": words[0], "city": words[1], "amount": int64(len(words[0]))}
			var fields []any
			for _, f := range v.Fields {
				fields = append(fields, has[f.Path])
			}
			if e, ok := entry(v, op.Cell, fields); ok {
				value.Entries = append(value.Entries, e)
			}
		}
		op.Values = append(op.Values, value)
	}
	return op
}

func (m *moving) apply(source string, ops ...replicator.Op) {
	m.t.Helper()
	apply(m.t, m.targets[source], ops...)
}

// shown returns what users' keys hold.
func (m *moving) shown() map[string]string {
	m.t.Helper()
	shown := map[string]string{}
	for _, key := range keysLike(m.t, m.rdb, "*") {
		if strings.HasPrefix(key, prefix) {
			continue
		}
		ctx := m.t.Context()
		typ, err := m.rdb.Type(ctx, key).Result()
		var held any
		switch {
		case err != nil:
		case typ == "hash":
			held, err = m.rdb.HGetAll(ctx, key).Result()
		case typ == "set":
			var members []string
			members, err = m.rdb.SMembers(ctx, key).Result()
			held = slices.Sorted(slices.Values(members))
		case typ == "zset":
			held, err = m.rdb.ZRangeWithScores(ctx, key, 0, -1).Result()
		default:
			held, err = m.rdb.Get(ctx, key).Result()
		}
		if err != nil {
			m.t.Fatal(err)
		}
		shown[key] = fmt.Sprint(held)
	}
	return shown
}

func (m *moving) shows(when string, want map[string]string) {
	m.t.Helper()
	if got := m.shown(); !maps.Equal(got, want) {
		m.t.Errorf("%s, the views show\n%v\nand not\n%v", when, got, want)
	}
}

// movable returns views of all kinds. Some merge two cells of an entity.
func movable() []*replicator.View {
	users, both := feed("cell", "users"), append(feed("cell", "users"), feed("cell", "profile")...)
	amount := []replicator.Field{{Name: "sum", Path: "amount"}}
	views := []*replicator.View{
		{Name: "hash", Kind: "hash", From: users, Fields: paths("email", "city"), Key: "hash:{}"},
		{Name: "merged", Kind: "hash", From: both, Fields: paths("email", "city"), Key: "merged:{}"},
		{Name: "json", Kind: "json", From: users, Fields: paths("email", "city"), Key: "json:{}"},
		{Name: "mergedjson", Kind: "json", From: both, Fields: paths("email", "city"), Key: "mergedjson:{}"},
		{Name: "index", Kind: "index", From: both, Fields: paths("city"), Key: "index:{city}"},
		{Name: "members", Kind: "index", From: users, Fields: paths("email", "city"), Key: "members:{city}", Member: "{email}"},
		{Name: "unique", Kind: "index", From: users, Fields: paths("city"), Key: "unique:{city}",
			Settings: Settings{Unique: true}},
		{Name: "counter", Kind: "counter", From: users, Fields: amount, Sum: "amount", Key: "counter"},
		{Name: "ranking", Kind: "ranking", From: users, Fields: append(paths("city"), amount...), Sum: "amount",
			Key: "ranking", Member: "{city}"},
	}
	for _, v := range views {
		v.Fingerprint = "1"
	}
	return views
}

// everywhere runs a test on one server, and in a cluster.
func everywhere(t *testing.T, test func(t *testing.T, rdb redis.UniversalClient, c Config)) {
	t.Parallel()
	t.Run("server", func(t *testing.T) {
		s := servertest.Own(t, servers.Redis7)
		test(t, client(t, s), Config{URLs: []string{s.DSN("0")}})
	})
	t.Run("cluster", func(t *testing.T) {
		_, rdb, c := startCluster(t, servers.Redis7)
		test(t, rdb, c)
	})
}

// Each source is read separately. So the delete of an entity that has moved may be applied after the new source's
// insert, for all cells at once or one by one.
func TestADeleteLeavesWhatHasMovedToAnotherSource(t *testing.T) {
	everywhere(t, func(t *testing.T, rdb redis.UniversalClient, c Config) {
		for _, v := range movable() {
			for _, once := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, at once: %v", v.Name, once), func(t *testing.T) {
					m := newMoving(t, rdb, c, []*replicator.View{v}, "from", "to")
					key := fmt.Sprint("key-", once)
					both := func(n int64, users, profile string) []replicator.Op {
						ops := []replicator.Op{m.op("users", key, n, users), m.op("profile", key, n, profile)}
						return slices.DeleteFunc(ops, func(op replicator.Op) bool { return len(op.Values) == 0 })
					}
					m.apply("to", both(5, "b@x here", "- there")...)
					want := m.shown()
					m.apply("to", both(6, "", "")...)
					m.shows("after all was deleted", nil)

					m.apply("from", both(7, "abc@x here", "- there")...)
					m.apply("to", both(8, "b@x here", "- there")...)
					if gone := both(9, "", ""); once {
						m.apply("from", gone...)
					} else {
						for _, op := range gone {
							m.apply("from", op)
						}
					}
					m.shows("after a late delete", want)
					m.apply("from", both(10, "", "")...)
					m.shows("after a look", want)
					m.apply("to", both(11, "", "")...)
					m.shows("after all was deleted again", nil)
				})
			}
		}
	})
}

// A change that the source made before the entity moved may be late, too. It shows until the source's delete follows.
func TestALateChangeTakesNothingForGood(t *testing.T) {
	everywhere(t, func(t *testing.T, rdb redis.UniversalClient, c Config) {
		m := newMoving(t, rdb, c, movable(), "from", "to")
		m.apply("to", m.op("users", "x", 5, "b@x here"))
		want := m.shown()
		m.apply("to", m.op("users", "x", 6, ""))
		m.apply("from", m.op("users", "x", 5, "a@x here"))
		m.apply("to", m.op("users", "x", 7, "b@x here"))
		m.apply("from", m.op("users", "x", 6, "a@x elsewhere"))
		m.apply("from", m.op("users", "x", 7, ""))
		m.shows("after a late change and a late delete", want)
		m.apply("to", m.op("users", "x", 8, ""))
		m.shows("after all was deleted", nil)
	})
}

// Two sources apply a move at the same time: whichever is first, the row that one of them has stays.
func TestMovesBetweenSourcesThatAreReadAtOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, rdb redis.UniversalClient, c Config) {
		m := newMoving(t, rdb, c, movable(), "a", "b")
		keys := []string{"1", "2", "3", "4", "5", "6", "7", "8", "9"}
		ops := func(n int64, is bool) (all []replicator.Op) {
			for _, key := range keys {
				body := ""
				if is {
					body = "b@x city-" + key // distinct, because a unique value may show any of those that claim it
				}
				all = append(all, m.op("users", key, n, body))
			}
			return all
		}
		m.apply("a", ops(1, true)...)
		want := m.shown()
		for n := int64(2); n < 60; n++ {
			from, to := "a", "b"
			if n%2 == 1 {
				from, to = to, from
			}
			var both sync.WaitGroup
			for source, ops := range map[string][]replicator.Op{from: ops(n, false), to: ops(n, true)} {
				both.Go(func() {
					for i := range ops {
						if _, err := m.targets[source].Apply(t.Context(), ops[i:i+1]); err != nil {
							t.Error(err)
						}
					}
				})
			}
			both.Wait()
			if m.shows(fmt.Sprintf("after %d moves", n-1), want); t.Failed() {
				return
			}
		}
	})
}

// An op needs more round trips only if another source wrote the record last.
func TestRoundTripsWhereSeveralSourcesFeedASink(t *testing.T) {
	s := servertest.Own(t, servers.Redis7)
	m := newMoving(t, client(t, s), Config{URLs: []string{s.DSN("0")}}, movable(), "it's \"a\": 100%\n", "b")
	a := "it's \"a\": 100%\n"
	h := &trips{}
	m.sink.rdb.AddHook(h)
	history := func(suffix string, counts bool) {
		step := func(what, source, key string, n int64, body string, want int64) {
			t.Helper()
			h.n.Store(0)
			if m.apply(source, m.op("users", key+suffix, n, body)); counts && h.n.Load() != want {
				t.Errorf("%s: %d round trips, want %d", what, h.n.Load(), want)
			}
		}
		step("a put", a, "y", 1, "b@x here", 1)
		step("a change", a, "y", 2, "c@x there", 1)
		step("a delete of what the other source never had", a, "y", 3, "", 1)
		step("a put", a, "z", 1, "b@x here", 1)
		step("a move: what the record holds is told", "b", "z", 1, "c@x here", 2)
		step("a change of what the other source has", a, "z", 2, "d@x there", 2)
		step("a delete in the other source", "b", "z", 4, "", 2)
		step("a delete of what the other source had", a, "z", 5, "", 2)
	}
	history("1", false) // layouts are registered when they are met again
	history("2", false)
	// The order matters: a source that has just met another's record does not assume that keys are new.
	m.apply(a, m.op("users", "warm", 1, "b@x here"))
	m.apply("b", m.op("users", "warm", 1, "b@x here"))
	history("", true)
	if shown := m.shown(); shown["hash:z"] != "" || shown["hash:warm"] == "" {
		t.Errorf("the views show %v", shown)
	}
}

// Rows of a source that no longer feeds the sink, because it was renamed or is sharded now, don't hold up deletes of
// other sources.
func TestASourceThatIsNoMoreHoldsNothing(t *testing.T) {
	everywhere(t, func(t *testing.T, rdb redis.UniversalClient, c Config) {
		for _, old := range []string{"", "old"} {
			m := newMoving(t, rdb, c, movable()[:5], old)
			m.apply(old, m.op("users", "of "+old, 5, "b@x here"))
			m = newMoving(t, rdb, c, movable()[:5], "a", "b")
			m.apply("a", m.op("users", "of "+old, 6, "b@x here"))
			m.apply("a", m.op("users", "of "+old, 7, ""))
			m.shows("after a delete by a source that took over", nil)
		}
	})
}

// After a view was forgotten, the next fill removes what former sources contributed, in views of every kind. What
// present sources contribute stays.
func TestWhatASourceThatIsNoMorePutIntoAForgottenViewGoes(t *testing.T) {
	everywhere(t, func(t *testing.T, rdb redis.UniversalClient, c Config) {
		m := newMoving(t, rdb, c, movable(), "new")
		m.apply("new", m.op("users", "stays", 5, "b@x here"), m.op("profile", "stays", 5, "- there"))
		want := m.shown()
		m.apply("new", m.op("users", "stays", 6, ""), m.op("profile", "stays", 6, ""))

		m = newMoving(t, rdb, c, movable(), "old")
		for _, key := range []string{"stays", "goes"} {
			m.apply("old", m.op("users", key, 5, "b@x here"), m.op("profile", key, 5, "- there"))
		}
		m = newMoving(t, rdb, c, movable(), "new")
		for _, v := range m.views {
			if err := m.sink.Forget(t.Context(), v.Name); err != nil {
				t.Fatal(err)
			}
		}
		m.open("new")
		m.apply("new", m.op("users", "stays", 7, "b@x here"), m.op("profile", "stays", 7, "- there"))
		if err := m.targets["new"].(*Target).Relinquish(t.Context()); err != nil {
			t.Fatal(err)
		}
		m.shows("after the fill", want)
	})
}

// The partitions of a topic are not known beforehand. Some may begin while another one removes what the former topic
// contributed. None loses its own contributions.
func TestWhatATopicThatWasReplacedPutThereGoesWhilePartitionsBegin(t *testing.T) {
	everywhere(t, func(t *testing.T, rdb redis.UniversalClient, c Config) {
		c.Feeds = func(source string) bool { return strings.HasPrefix(source, "new/") }
		m := newMoving(t, rdb, c, movable())
		m.open("new/0")
		m.open("new/1")
		put := func(source, key string, n int64, body string) {
			m.apply(source, m.op("users", key, n, body+"b@x here"), m.op("profile", key, n, "- there"))
		}
		put("new/0", "a", 5, "")
		put("new/1", "b", 5, "long")
		want := m.shown()
		for i, key := range []string{"a", "b"} {
			m.apply(fmt.Sprint("new/", i), m.op("users", key, 6, ""), m.op("profile", key, 6, ""))
		}

		m = newMoving(t, rdb, c, movable())
		m.open("old/0")
		for _, key := range []string{"a", "b", "gone"} {
			put("old/0", key, 5, map[string]string{"b": "long"}[key])
		}
		for _, v := range m.views {
			if err := m.sink.Forget(t.Context(), v.Name); err != nil {
				t.Fatal(err)
			}
		}
		m.open("new/0")
		put("new/0", "a", 7, "")
		began := false
		first := m.targets["new/0"].(*Target)
		feeds := first.sink.feeds
		first.sink.feeds = func(source string) bool { // called after the sources were read
			if source == "old/0" && !began {
				began = true
				m.open("new/1")
				put("new/1", "b", 7, "long")
			}
			return feeds(source)
		}
		for range 2 { // the second time there is nothing to do
			if err := first.Relinquish(t.Context()); err != nil {
				t.Fatal(err)
			}
			m.shows("after the fill", want)
		}
	})
}
