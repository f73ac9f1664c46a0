package redis

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"replicator"
)

// sumViews returns views with sums, to which several entities contribute.
func sumViews() []*replicator.View {
	views := []*replicator.View{view("c", "counter", "c:{a}", "n"), view("z", "ranking", "z:{a}", "n"),
		view("u", "index", "u:{a}"), view("m", "index", "m:{a}")}
	views[1].Member, views[3].Member = "{k}", "{k}"
	views[2].Settings = Settings{Unique: true}
	return views
}

// sumOp adds n for an entity, at the keys of one group.
func sumOp(t testing.TB, entity, group string, version int64, n any) replicator.Op {
	op := replicator.Op{Cell: cellOf(t, "cell", "users", entity), Version: version, Order: version}
	for i, v := range sumViews() {
		e := replicator.Entry{Key: v.Name + ":" + group, Fields: []any{n}}
		if v.Member != "" {
			e.Member = "m" + group
		}
		op.Values = append(op.Values, replicator.Value{View: i, Entries: []replicator.Entry{e}})
	}
	return op
}

// allStrays returns all orphans of a view.
func allStrays(t *testing.T, target replicator.Target, view int) (found []replicator.Stray) {
	t.Helper()
	for after := ""; ; {
		some, next, err := target.(replicator.Tidier).Strays(t.Context(), view, after, 10)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, some...)
		if after = next; after == "" {
			return found
		}
	}
}

// mend does what verify and a rebuild do: it writes each entity again, then corrects what no entity accounts for.
func mend(t *testing.T, target replicator.Target, ops ...replicator.Op) (mended int) {
	t.Helper()
	for _, op := range ops {
		op.AsOf = 1000
		apply(t, target, op)
	}
	for i := range sumViews() {
		n, err := target.(replicator.Tidier).Tidy(t.Context(), i, allStrays(t, target, i))
		if err != nil {
			t.Fatal(err)
		}
		mended += n
	}
	return mended
}

// TestSumsAreComputedAnew removes or damages one key at a time, of the views or of the sink. A repair must then restore
// the sums, although nothing else would notice some of the damage.
func TestSumsAreComputedAnew(t *testing.T) {
	t.Parallel()
	f := open(t)
	target, right := sumsAreComputedAnew(t, f.rdb, f.sink)
	t.Run("in little memory", func(t *testing.T) {
		f.sink.sumBytes = 1
		f.cli(t, "DEL", beside(kindCounter, "c:1"), beside(kindCounter, "c:2"))
		strays := allStrays(t, target, 0) // missing sums, and then the keys that lack them
		if len(strays) != 4 || strays[0].Kind != replicator.Missing || strays[1].Kind != replicator.Missing {
			t.Errorf("wrong are %v", strays)
		}
		right(t)
	})
}

// sumsAreComputedAnew returns the target, and a function that repairs the views and checks them.
func sumsAreComputedAnew(t *testing.T, rdb redis.UniversalClient, sink *Sink) (*Target, func(*testing.T)) {
	sink.names = namesOfTests{}
	target := openViews(t, sink, sumViews()).(*Target)
	do := func(t *testing.T, command ...any) {
		t.Helper()
		if err := rdb.Do(t.Context(), command...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	ops := []replicator.Op{sumOp(t, "x", "1", 1, replicator.Number("1.25")), sumOp(t, "y", "1", 2, int64(40)),
		sumOp(t, "w", "2", 3, int64(-7))}
	apply(t, target, ops...)
	keys := keysLike(t, rdb, "*")
	shown := func() (all []string) {
		ctx := t.Context()
		for _, g := range []string{"1", "2"} {
			all = append(all, fmt.Sprint(rdb.Get(ctx, "c:"+g).Val(), rdb.Get(ctx, beside(kindCounter, "c:"+g)).Val(),
				rdb.ZScore(ctx, "z:"+g, "m"+g).Val(), rdb.HGetAll(ctx, beside(kindRanking, "z:"+g)).Val(),
				rdb.SMembers(ctx, "m:"+g).Val(), rdb.HGetAll(ctx, beside(kindMembers, "m:"+g)).Val(),
				rdb.Exists(ctx, "u:"+g).Val(), rdb.HGetAll(ctx, beside(kindUnique, "u:"+g)).Val()))
		}
		return all
	}
	want := shown()
	right := func(t *testing.T) {
		t.Helper()
		mend(t, target, ops...)
		if got := shown(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("the views are\n%q, want\n%q", got, want)
		}
		for i, v := range sumViews() {
			if left := allStrays(t, target, i); len(left) > 0 {
				t.Errorf("view %s: after the repair %v is wrong", v.Name, left)
			}
		}
	}
	if n := mend(t, target, ops...); n > 0 {
		t.Fatalf("%d were wrong where nothing was", n)
	}
	for _, key := range keys {
		if rdb.Type(t.Context(), key).Val() == "none" || key == sourcesKey || strings.HasPrefix(key, marksPrefix) {
			continue
		}
		t.Run("without "+key, func(t *testing.T) {
			do(t, "DEL", key)
			target.memory = newMemory()
			right(t)
		})
	}
	for name, command := range map[string][]any{
		"a sum that somebody changed": {"SET", beside(kindCounter, "c:1"), "1000"},
		"a sum that is no number":     {"SET", beside(kindCounter, "c:1"), "x"},
		"a sum of another type":       {"HSET", beside(kindCounter, "c:3"), "x", "1"},
		"claims of a ranking":         {"HSET", beside(kindRanking, "z:2"), "m2", "9 0.5"},
		"claims of nobody":            {"HSET", beside(kindRanking, "z:2"), "ghost", "1 5"},
		"claims of an index":          {"HSET", beside(kindMembers, "m:1"), "m1", "3"},
	} {
		t.Run(name, func(t *testing.T) {
			do(t, command...)
			if command[1] == beside(kindCounter, "c:3") {
				defer do(t, "DEL", command[1]) // no key of the view leads to it
			}
			right(t)
		})
	}
	return target, right
}

// TestSumsAreComparedWhileTheyChange checks that concurrent changes make no right sum look wrong, and that a wrong sum
// is corrected.
func TestSumsAreComparedWhileTheyChange(t *testing.T) {
	t.Parallel()
	f := open(t)
	sumsAreComparedWhileTheyChange(t, f.rdb, f.sink, 3000)
}

func sumsAreComparedWhileTheyChange(t *testing.T, rdb redis.UniversalClient, sink *Sink, entities int) {
	sink.names = namesOfTests{}
	target := openViews(t, sink, sumViews())
	var ops []replicator.Op
	for i := range entities {
		ops = append(ops, sumOp(t, fmt.Sprint("e", i), fmt.Sprint(i%3), 1, int64(1)))
	}
	apply(t, target, ops...)
	if err := rdb.IncrBy(t.Context(), beside(kindCounter, "c:1"), 5).Err(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var writers sync.WaitGroup
	version := make([]int64, entities)
	writers.Go(func() {
		for i := 0; ; i = (i + 7) % entities {
			select {
			case <-done:
				return
			default:
			}
			version[i]++
			op := sumOp(t, fmt.Sprint("e", i), fmt.Sprint(version[i]%3), 1+version[i], version[i])
			if _, err := target.Apply(t.Context(), []replicator.Op{op}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 5 {
		for i, v := range sumViews() {
			strays := allStrays(t, target, i)
			if _, err := target.(replicator.Tidier).Tidy(t.Context(), i, strays); err != nil {
				t.Error(err)
			}
			for _, s := range strays {
				if s.Name != "c:1" {
					t.Errorf("view %s: %s is wrong", v.Name, s.Name)
				}
			}
		}
	}
	close(done)
	writers.Wait()
	for i, v := range sumViews() {
		if left := allStrays(t, target, i); len(left) > 0 {
			t.Errorf("view %s: %v is wrong", v.Name, left)
		}
	}
}
