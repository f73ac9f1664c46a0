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

// placed is a view, and the entry that it shows of a cell.
type placed struct {
	*replicator.View
	entry replicator.Entry
}

// shows returns views of kinds whose entries belong to single cells, at the keys h:…, j:… and s:….
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

// places opens views, fills them with cells, and ends the fill. of returns the views, and their entries for a cell,
// given its key.
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

// held returns what the keys h:…, j:… and s:… hold.
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

// TestViewsThatExchangeTheirKeysKeepWhatEachShows fills one view after the other.
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

// namesNow implements config.Names for a configuration that has only views whose names begin with "new".
type namesNow struct{ namesOfKinds }

func (namesNow) Has(view string) bool { return strings.HasPrefix(view, "new") }

// TestAViewIsNotFilledWhereAnotherOneHasEnded checks that a view is refused while a former one has data at its keys:
// amounts there would count twice. Once the data is removed, the view can be filled.
func TestAViewIsNotFilledWhereAnotherOneHasEnded(t *testing.T) {
	everywhere(t, func(t *testing.T, rdb redis.UniversalClient, c Config) {
		sink := newSink(t, c)
		sink.names = namesOfKinds{}
		cells := []replicator.Cell{cellOf(t, "cell", "users", "x")}
		places(t, sink, 1, cells, func(cell string) []placed { return shows("old", cell, "a") })
		sink.names = namesNow{}
		now := shows("new", "x", "a")
		elsewhere := view("new-elsewhere", "hash", "g:{k}", "a")
		_, err := sink.Open(t.Context(), "", []*replicator.View{now[0].View, elsewhere, now[2].View})
		for _, command := range []string{"`replicator checkpoint forget old-h --data`",
			"`replicator checkpoint forget old-s --data`"} {
			if err == nil || !strings.Contains(err.Error(), command) {
				t.Errorf("%s is not in: %v", command, err)
			}
		}
		found := sink.Check(t.Context(), []*replicator.View{now[0].View, elsewhere})
		found = slices.DeleteFunc(found, func(f replicator.Finding) bool { return f.Level != replicator.Fail })
		if len(found) != 1 || found[0].What != "view new-h" || !strings.Contains(found[0].Fix, "forget old-h --data") {
			t.Errorf("checked: %+v", found)
		}
		if strings.Contains(fmt.Sprint(err), "elsewhere") || !replicator.IsOfViews(err) {
			t.Errorf("it is an error of the other view, too: %v", err)
		}
		for _, name := range []string{"old-h", "old-s"} { // as the command does
			if err := sink.Empty(t.Context(), name); err != nil {
				t.Fatal(err)
			}
			if err := sink.Forget(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		places(t, sink, 1, cells, func(cell string) []placed {
			all := shows("new", cell, "a")
			return []placed{all[0], all[2]}
		})
		if got, want := held(t, rdb, "x")["x"], `[a=newa]{"a":"olda"}[x]`; got != want {
			t.Errorf("held is %s, want %s", got, want)
		}
		if err := sink.Forget(t.Context(), "old-j"); err != nil { // which leaves the keys of old-j
			t.Fatal(err)
		}
		if _, err := sink.Open(t.Context(), "", []*replicator.View{now[1].View}); err == nil {
			t.Error("a view is opened where a forgotten one shows something")
		}
	})
}
