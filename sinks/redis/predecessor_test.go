package redis

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"replicator"
)

// namesNow are the names of views of which the configuration has only those that are called new.
type namesNow struct{ namesOfKinds }

func (namesNow) Has(view string) bool { return strings.HasPrefix(view, "new") }

// counting are views of every kind that counts, called by a word and their kind: their values are at c:…, z:…, m:… and
// u:….
func counting(word string) []*replicator.View {
	views := []*replicator.View{view(word+"-c", "counter", "c:{a}", "n"), view(word+"-z", "ranking", "z:{a}", "n"),
		view(word+"-m", "index", "m:{a}"), view(word+"-u", "index", "u:{a}")}
	views[2].Member, views[3].Settings = "{b}", Settings{Unique: true}
	return views
}

// countOf is an op that counts a cell at one value by the first views of counting.
func countOf(c replicator.Cell, version int64, value string, views int) replicator.Op {
	op := replicator.Op{Cell: c, Version: version, Order: version}
	for i, kind := range []string{"c", "z", "m", "u"}[:views] {
		e := replicator.Entry{Key: kind + ":" + value}
		switch kind {
		case "c", "z":
			e.Fields = []any{int64(3)}
		}
		if kind == "z" || kind == "m" {
			e.Member = "all"
		}
		op.Values = append(op.Values, replicator.Value{View: i, Entries: []replicator.Entry{e}})
	}
	return op
}

// leftOut is an op that says that a cell is in none of the views.
func leftOut(c replicator.Cell, version int64, views int) replicator.Op {
	op := replicator.Op{Cell: c, Version: version, Order: version}
	for i := range views {
		op.Values = append(op.Values, replicator.Value{View: i})
	}
	return op
}

func TestAViewThatWasRenamedCountsNothingTwice(t *testing.T) {
	everywhere(t, func(t *testing.T, rdb redis.UniversalClient, c Config) { renamed(t, newSink(t, c), rdb) })
}

func renamed(t *testing.T, sink *Sink, rdb redis.UniversalClient) {
	ctx := t.Context()
	sink.names = namesNow{}
	opened := func(views ...*replicator.View) *Target {
		target, err := sink.Open(ctx, "", views)
		if err != nil {
			t.Fatal(err)
		}
		return target.(*Target)
	}
	shown := func(value string) string {
		return fmt.Sprint(rdb.Get(ctx, "c:"+value).Val(), " ", rdb.ZRangeWithScores(ctx, "z:"+value, 0, -1).Val(), " ",
			rdb.SMembers(ctx, "m:"+value).Val(), " ", rdb.Get(ctx, "u:"+value).Val())
	}
	cells := make([]replicator.Cell, 3)
	before, apart := opened(counting("old")...), opened(view("elsewhere", "counter", "total:all", "n"))
	for i, value := range []string{"1", "1", "2"} {
		cells[i] = cellOf(t, "cell", "users", fmt.Sprint("e", i))
		apply(t, before, countOf(cells[i], 1, value, 4))
		apply(t, apart, put(cells[i], 1, replicator.Entry{Key: "total:all", Fields: []any{int64(3)}}))
	}

	after := opened(counting("new")...) // which leaves the third out
	apply(t, after, countOf(cells[0], 1, "1", 4), countOf(cells[1], 1, "1", 4), leftOut(cells[2], 1, 4))
	if err := after.Relinquish(ctx); err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]string{"1": "6 [{6 all}] [all] e0", "2": " [] [] "} {
		if got := strings.Replace(shown(value), "e1", "e0", 1); got != want {
			t.Errorf("of %s is shown %q, want %q", value, got, want)
		}
	}
	if got := rdb.Get(ctx, "total:all").Val(); got != "9" {
		t.Errorf("another view counts %s, want 9", got)
	}
	marks, err := sink.Marks(ctx, "")
	former := func(m replicator.Mark) bool { return strings.HasPrefix(m.View, "old") }
	if err != nil || slices.ContainsFunc(marks, former) {
		t.Errorf("what ended is still known: %v, %v", marks, err)
	}

	apply(t, after, leftOut(cells[0], 2, 4), leftOut(cells[1], 2, 4))
	if got := shown("1"); got != " [] [] " {
		t.Errorf("when all cells are gone %q is shown", got)
	}
}
