package redis

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"replicator"
)

// placed is a view and what it shows of a cell.
type placed struct {
	*replicator.View
	entry replicator.Entry
}

// shows are views of the kinds that show cells' own things: at h:…, j:… and s:….
func shows(word string, value string, fields ...string) []placed {
	values := func() (all []any) {
		for _, f := range fields {
			all = append(all, word+f)
		}
		return all
	}
	return []placed{
		{view(word+"-h", "hash", "h:{k}", fields...), replicator.Entry{Key: "h:" + value, Fields: values()}},
		{view(word+"-j", "json", "j:{k}", fields...), replicator.Entry{Key: "j:" + value, Fields: values()}},
		{view(word+"-s", "index", "s:{a}"), replicator.Entry{Key: "s:" + value}},
	}
}

// places opens views, has cells shown in them (each at a key of its own, which ends as the cell's), and ends the fill.
func places(t *testing.T, sink *Sink, version int64, cells []replicator.Cell, of func(cell string) []placed) *Target {
	t.Helper()
	var views []*replicator.View
	for _, p := range of("") {
		views = append(views, p.View)
	}
	target, err := sink.Open(t.Context(), "", views)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cells {
		op := replicator.Op{Cell: c, Version: version, Order: version}
		for i, p := range of(c.Key.String()) {
			op.Values = append(op.Values, replicator.Value{View: i, Entries: []replicator.Entry{p.entry}})
		}
		apply(t, target, op)
	}
	if err := target.(*Target).Relinquish(t.Context()); err != nil {
		t.Fatal(err)
	}
	at := replicator.Standing{Position: replicator.Position{Order: version, Token: fmt.Sprint(version)}}
	if err := target.Mark(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	return target.(*Target)
}

// held is what stands at h:…, j:… and s:….
func held(t *testing.T, rdb redis.UniversalClient, values ...string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, v := range values {
		hash := rdb.HGetAll(t.Context(), "h:"+v).Val()
		var fields []string
		for _, name := range slices.Sorted(maps.Keys(hash)) {
			fields = append(fields, name+"="+hash[name])
		}
		found[v] = fmt.Sprint(fields, rdb.Get(t.Context(), "j:"+v).Val(), rdb.SMembers(t.Context(), "s:"+v).Val())
	}
	return found
}

// TestAViewThatWasRenamedLeavesNothingOfBefore: what went, or moved, while the one was kept no more and the other not
// yet, would stay for ever.
func TestAViewThatWasRenamedLeavesNothingOfBefore(t *testing.T) {
	everywhere(t, func(t *testing.T, rdb redis.UniversalClient, c Config) {
		sink := newSink(t, c)
		sink.names = namesOfKinds{}
		cells := []replicator.Cell{cellOf(t, "cell", "users", "stays"), cellOf(t, "cell", "users", "moves"),
			cellOf(t, "cell", "users", "goes")}
		places(t, sink, 1, cells, func(cell string) []placed { return shows("old", cell, "a", "b") })
		sink.names = namesNow{}
		places(t, sink, 2, cells[:2], func(cell string) []placed {
			return shows("new", strings.Replace(cell, "moves", "moved", 1), "a")
		})
		want := map[string]string{"stays": `[a=newa]{"a":"newa"}[stays]`, "moved": `[a=newa]{"a":"newa"}[moves]`,
			"moves": "[][]", "goes": "[][]"}
		if got := held(t, rdb, "stays", "moved", "moves", "goes"); !maps.Equal(got, want) {
			t.Errorf("held is %v, want %v", got, want)
		}
	})
}

// TestViewsThatExchangeTheirKeysKeepWhatEachShows, one filled after the other.
func TestViewsThatExchangeTheirKeysKeepWhatEachShows(t *testing.T) {
	everywhere(t, func(t *testing.T, rdb redis.UniversalClient, c Config) {
		sink := newSink(t, c)
		sink.names = namesOfKinds{}
		cells := []replicator.Cell{cellOf(t, "cell", "users", "x")}
		at := func(word, key, print string) func(string) []placed {
			return func(string) []placed {
				all := shows(word, key, "a")
				for _, p := range all {
					p.Fingerprint = print
				}
				return all
			}
		}
		places(t, sink, 1, cells, at("one", "1", "before"))
		places(t, sink, 1, cells, at("two", "2", "before"))
		places(t, sink, 1, cells, at("one", "2", "after"))
		places(t, sink, 1, cells, at("two", "1", "after"))
		want := map[string]string{"1": `[a=twoa]{"a":"twoa"}[x]`, "2": `[a=onea]{"a":"onea"}[x]`}
		if got := held(t, rdb, "1", "2"); !maps.Equal(got, want) {
			t.Errorf("held is %v, want %v", got, want)
		}
	})
}

// TestAViewThatTakesThePlaceOfAnotherKindIsShown: what ended would keep its own things from it.
func TestAViewThatTakesThePlaceOfAnotherKindIsShown(t *testing.T) {
	everywhere(t, func(t *testing.T, rdb redis.UniversalClient, c Config) {
		sink := newSink(t, c)
		sink.names = namesOfKinds{}
		cells := []replicator.Cell{cellOf(t, "cell", "users", "x")}
		places(t, sink, 1, cells, func(cell string) []placed { return shows("old", cell, "a")[:1] })
		sink.names = namesNow{}
		places(t, sink, 1, cells, func(cell string) []placed {
			one := shows("new", cell, "a")[1]
			one.Key, one.entry.Key = "h:{k}", "h:"+cell
			return []placed{one}
		})
		if got := rdb.Get(t.Context(), "h:x").Val(); got != `{"a":"newa"}` {
			t.Errorf("shown is %q", got)
		}
	})
}

// TestVerifyFindsWhatAViewLeftThatEnded in the place of another one, before that is filled again.
func TestVerifyFindsWhatAViewLeftThatEnded(t *testing.T) {
	everywhere(t, func(t *testing.T, rdb redis.UniversalClient, c Config) {
		sink := newSink(t, c)
		sink.names = namesOfKinds{}
		cells := []replicator.Cell{cellOf(t, "cell", "users", "stays"), cellOf(t, "cell", "users", "goes")}
		set := func(word string) func(string) []placed {
			return func(cell string) []placed { return shows(word, cell, "a")[2:] }
		}
		target := places(t, sink, 1, cells, set("new"))
		places(t, sink, 1, cells, set("old"))
		apply(t, target, replicator.Op{Cell: cells[1], Version: 2, Order: 2, Values: []replicator.Value{{View: 0}}})
		if err := rdb.SAdd(t.Context(), "s:goes", "goes").Err(); err != nil { // as by the older one
			t.Fatal(err)
		}
		sink.names = namesNow{}
		var found []replicator.Stray
		for after, first := "", true; first || after != ""; first = false {
			strays, next, err := target.Strays(t.Context(), 0, after, 100)
			if err != nil {
				t.Fatal(err)
			}
			found, after = append(found, strays...), next
		}
		if len(found) != 1 || found[0].Name != "s:goes goes" {
			t.Fatalf("found is %+v", found)
		}
		n, err := target.Tidy(t.Context(), 0, found)
		if n != 1 || err != nil || rdb.Exists(t.Context(), "s:goes").Val() != 0 {
			t.Errorf("%d removed, %v", n, err)
		}
	})
}
