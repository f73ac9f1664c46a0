package redis

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"replicator"
	"replicator/internal/servers"
)

// TestAKeyOfAViewThatWasOverwrittenIsTakenBack checks that a key is the view's if the view has shown something there,
// whatever another program wrote to it. A key where the view has shown nothing may belong to another program.
func TestAKeyOfAViewThatWasOverwrittenIsTakenBack(t *testing.T) {
	t.Parallel()
	views := []*replicator.View{view("h", "hash", "h:{k}", "n"), view("j", "json", "j:{k}", "n"),
		view("s", "index", "s:{a}"), view("m", "index", "m:{a}"), view("u", "index", "u:{a}"),
		view("c", "counter", "c:{a}", "n"),
		view("z", "ranking", "z:{a}", "n")}
	views[3].Member, views[6].Member = "{k}", "{k}"
	views[4].Settings = Settings{Unique: true}
	op := func(version, asOf int64) replicator.Op {
		o := replicator.Op{Cell: cellOf(t, "cell", "users", "x"), Version: version, Order: version, AsOf: asOf}
		for i, v := range views {
			e := replicator.Entry{Key: v.Name + ":x"}
			if v.Member != "" {
				e.Member = "x"
			}
			if len(v.Fields) > 0 {
				e.Fields = []any{version}
			}
			o.Values = append(o.Values, replicator.Value{View: i, Entries: []replicator.Entry{e}})
		}
		return o
	}
	run := func(t *testing.T, rdb redis.UniversalClient, sink *Sink) {
		target, err := sink.Open(t.Context(), "", views)
		if err != nil {
			t.Fatal(err)
		}
		overwrite := func() {
			t.Helper()
			for _, v := range views {
				if err := rdb.Del(t.Context(), v.Name+":x").Err(); err != nil {
					t.Fatal(err)
				}
				if err := rdb.LPush(t.Context(), v.Name+":x", "theirs").Err(); err != nil {
					t.Fatal(err)
				}
			}
		}
		shows := func(when string, n int64) {
			t.Helper()
			ctx, number := t.Context(), fmt.Sprint(n)
			for what, same := range map[string]bool{
				"h": rdb.HGet(ctx, "h:x", "n").Val() == number, "j": rdb.Get(ctx, "j:x").Val() == `{"n":`+number+`}`,
				"s": rdb.SIsMember(ctx, "s:x", "x").Val(), "m": rdb.SIsMember(ctx, "m:x", "x").Val(),
				"u": rdb.Get(ctx, "u:x").Val() == "x", "c": rdb.Get(ctx, "c:x").Val() == number,
				"z": rdb.ZScore(ctx, "z:x", "x").Val() == float64(n),
			} {
				if !same {
					t.Errorf("%s view %s doesn't show %d: it has %s", when, what, n, rdb.Type(ctx, what+":x").Val())
				}
			}
		}
		overwrite()
		if a := apply(t, target, op(1, 0)); len(a.Rejected) != len(views) {
			t.Fatalf("at keys that are somebody's %d values were rejected, want %d", len(a.Rejected), len(views))
		}
		for _, v := range views {
			if got := rdb.LRange(t.Context(), v.Name+":x", 0, -1).Val(); len(got) != 1 {
				t.Errorf("view %s: what somebody had there is %q", v.Name, got)
			}
			rdb.Del(t.Context(), v.Name+":x")
		}
		apply(t, target, op(2, 0))
		shows("when the keys are free", 2)

		overwrite()
		if a := apply(t, target, op(3, 0)); len(a.Rejected) > 0 {
			t.Errorf("a change of what was overwritten was rejected: %v", a.Rejected[0].Err)
		}
		shows("after the next change", 3)

		overwrite()
		differences, err := target.Compare(t.Context(), []replicator.Op{op(3, 9)})
		if err != nil || len(differences) != len(views) {
			t.Errorf("of %d views that were overwritten %d differ (%v)", len(views), len(differences), err)
		}
		if a := apply(t, target, op(3, 9)); len(a.Rejected) > 0 {
			t.Errorf("the repair of what was overwritten was rejected: %v", a.Rejected[0].Err)
		}
		shows("after a repair", 3)
	}
	t.Run("one server", func(t *testing.T) {
		f := open(t)
		run(t, f.rdb, f.sink)
		// A key that shows several entities is the view's for a new entity, too.
		target := f.open(t, views...)
		for _, i := range []int{3, 4, 5, 6} {
			f.cli(t, "DEL", views[i].Name+":x")
			f.cli(t, "RPUSH", views[i].Name+":x", "theirs")
		}
		o := op(1, 0)
		o.Cell = cellOf(t, "cell", "users", "y")
		o.Values = o.Values[3:]
		if a := apply(t, target, o); len(a.Rejected) > 0 {
			t.Errorf("one that joins others was rejected: %v", a.Rejected[0].Err)
		}
	})
	t.Run("cluster", func(t *testing.T) {
		_, rdb, c := startCluster(t, servers.Redis7)
		sink := newSink(t, c)
		defer sink.Close()
		run(t, rdb, sink)
	})
}

// TestWhatIsShownOfAnEntityWhoseRecordIsGoneIsMissing checks that such contents differ from the source: no cell claims
// them, so they would be taken for orphans.
func TestWhatIsShownOfAnEntityWhoseRecordIsGoneIsMissing(t *testing.T) {
	f := open(t)
	f.sink.names = namesOfTests{}
	target := f.open(t, view("h", "hash", "h:{k}", "a"), view("s", "index", "s:{a}"))
	op := func(asOf int64) replicator.Op {
		return replicator.Op{Cell: cellOf(t, "cell", "users", "x"), Version: 1, Order: 1, AsOf: asOf,
			Values: []replicator.Value{{View: 0, Entries: []replicator.Entry{{Key: "h:x", Fields: []any{"1"}}}},
				{View: 1, Entries: []replicator.Entry{{Key: "s:1"}}}}}
	}
	apply(t, target, op(0))
	f.cli(t, "DEL", recordKey("x"))
	differences, err := target.Compare(t.Context(), []replicator.Op{op(9)})
	if err != nil || len(differences) != 2 || differences[0].Kind != replicator.Missing {
		t.Fatalf("%+v (%v)", differences, err)
	}
	first := op(9)
	first.Values = first.Values[:1]
	apply(t, target, first) // the repair of one view gives the entity a record
	differences, err = target.Compare(t.Context(), []replicator.Op{op(9)})
	if err != nil || len(differences) != 1 || differences[0].View != 1 || differences[0].Kind != replicator.Missing {
		t.Errorf("after a repair of the first view: %+v (%v)", differences, err)
	}
	apply(t, target, op(9))
	if differences, err = target.Compare(t.Context(), []replicator.Op{op(9)}); err != nil || len(differences) > 0 {
		t.Errorf("after a repair: %+v (%v)", differences, err)
	}
	for i := range 2 {
		if strays, _, err := target.(replicator.Tidier).Strays(t.Context(), i, "", 10); err != nil || len(strays) > 0 {
			t.Errorf("strays are %v (%v)", strays, err)
		}
	}
	if got := f.cli(t, "SMEMBERS", "s:1"); got != "x" {
		t.Errorf("the set has %q", got)
	}
}
