package redis

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"replicator"
)

// namesOfTests implements config.Names: a key that begins with a view's name belongs to the view. The entity follows
// the colon.
type namesOfTests struct{}

func (namesOfTests) Has(string) bool { return true }

func (namesOfTests) Begins(v *replicator.View) string { return v.Name + ":" }

func (namesOfTests) Entities(v *replicator.View, name string) ([]string, bool) {
	_, entity, ok := strings.Cut(name, ":")
	return []string{entity}, ok && strings.HasPrefix(name, v.Name)
}

func (n namesOfTests) Makes(v *replicator.View, name string) bool {
	_, is := n.Entities(v, name)
	return is
}

// strayViews returns a view of each kind. The keys of view v begin with v:.
func strayViews() []*replicator.View {
	views := []*replicator.View{view("h", "hash", "h:{k}", "a"), view("j", "json", "j:{k}", "a"),
		view("s", "index", "s:{a}"),
		view("c", "counter", "c:{a}", "n"), view("z", "ranking", "z:{a}", "n")}
	unique, members := view("u", "index", "u:{a}"), view("m", "index", "m:{a}")
	unique.Settings = Settings{Unique: true}
	members.Member = "{a}"
	return append(views, unique, members)
}

func TestStraysAreFoundAndRemovedAndNothingElseIs(t *testing.T) {
	f := open(t)
	f.sink.names = namesOfTests{}
	strays(t, f.rdb, f.open(t, strayViews()...))
}

func strays(t *testing.T, rdb redis.UniversalClient, target replicator.Target) {
	ctx := t.Context()
	for n := range 30 {
		key := fmt.Sprintf("e%d", n)
		op := replicator.Op{Cell: cellOf(t, "cell", "users", key), Version: 1, Order: 1}
		for i, v := range strayViews() {
			e := replicator.Entry{Key: v.Name + ":" + key, Fields: []any{int64(7)}}
			if v.Name == "m" || v.Name == "z" {
				e.Member = "y" + key
			}
			op.Values = append(op.Values, replicator.Value{View: i, Entries: []replicator.Entry{e}})
		}
		apply(t, target, op)
	}
	dump := func() (all []string) {
		for _, v := range strayViews() {
			for n := range 30 {
				all = append(all, rdb.Dump(ctx, fmt.Sprintf("%s:e%d", v.Name, n)).Val())
			}
		}
		return all
	}
	before := dump()
	want := map[string][]string{
		"h": {"h:ghost"}, "j": {"j:ghost"}, "s": {"s:e1 ghost", "s:ghost e1", "s:ghost ghost"}, "c": {"c:ghost"},
		"z": {"z:e1 ghost", "z:ghost y"}, "u": {"u:ghost"}, "m": {"m:e1 ghost", "m:ghost y"},
	}
	for _, cmd := range [][]any{
		{"HSET", "h:ghost", "a", "1", "other", "2"}, {"HSET", "h:beside", "other", "1"}, {"SET", "j:ghost", "{}"},
		{"SADD", "s:e1", "ghost"},
		{"SADD", "s:ghost", "e1", "ghost"}, {"SET", "c:ghost", "5"}, {"ZADD", "z:e1", "1", "ghost"},
		{"ZADD", "z:ghost", "1", "y"},
		{"SET", "u:ghost", "x"}, {"SADD", "m:e1", "ghost"}, {"SADD", "m:ghost", "y"},
		{"SET", "h:text", "of another type"}, {"LPUSH", "s:list", "x"}, {"SET", "hidden", "of nobody"},
	} {
		if err := rdb.Do(ctx, cmd...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	look := func(view int) (found []replicator.Stray) {
		t.Helper()
		for after := ""; ; {
			some, next, err := target.(replicator.Tidier).Strays(ctx, view, after, 10)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, some...)
			if after = next; after == "" {
				return found
			}
		}
	}
	for i, v := range strayViews() {
		found := look(i)
		var names []string
		for _, s := range found {
			names = append(names, s.Name)
		}
		slices.Sort(names)
		if names = slices.Compact(names); !slices.Equal(names, want[v.Name]) { // SCAN may return a key twice
			t.Errorf("view %s: strays are %q and not %q", v.Name, names, want[v.Name])
		}
		removed, err := target.(replicator.Tidier).Tidy(ctx, i, found)
		if err != nil || removed != len(want[v.Name]) {
			t.Errorf("view %s: %d were removed, %v", v.Name, removed, err)
		}
		if left := look(i); len(left) > 0 {
			t.Errorf("view %s: there are still %v", v.Name, left)
		}
	}
	if !slices.Equal(dump(), before) {
		t.Error("what the program keeps is not as it was")
	}
	for key, n := range map[string]int64{"h:ghost": 1, "h:beside": 1, "h:text": 1, "s:list": 1, "hidden": 1, "s:ghost": 0,
		"u:ghost": 0} {
		if got := rdb.Exists(ctx, key).Val(); got != n {
			t.Errorf("of %s there are %d", key, got)
		}
	}
}

// As long as a record can't be read, it may claim the key, so the key is no orphan.
func TestNothingIsAStrayThatAnUnreadableRecordMayClaim(t *testing.T) {
	f := open(t)
	f.sink.names = namesOfTests{}
	target := f.open(t, view("h", "hash", "h:{k}", "a"))
	for n := range 8 {
		f.cli(t, "SADD", sourcesKey, fmt.Sprint(n))
	}
	f.cli(t, "HSET", "h:ghost", "a", "1")
	f.cli(t, "LPUSH", recordKey("ghost"), "x")
	strays, _, err := target.(replicator.Tidier).Strays(t.Context(), 0, "", 10)
	if err == nil || len(strays) > 0 {
		t.Errorf("strays are %v (%v)", strays, err)
	}
}
