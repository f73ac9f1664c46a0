package elastic_test

import (
	"slices"
	"testing"

	"replicator"
	"replicator/internal/servers/servertest"
	"replicator/sinks/elastic"
)

// If a shard's table has changed, the same ids may belong to other cells. All shards share the index, so all of them
// start again in a new index. A target that still uses the old index finds out with its next mark.
func TestASourceWhoseTableChangedBeginsTheViewAnewForAll(t *testing.T) {
	c := newCluster(t, servertest.Elasticsearch(t))
	sink, err := elastic.New(elastic.Config{Name: "search", Addresses: []string{c.url}, Tables: tables,
		Sources: []string{"a", "b"}})
	if err != nil {
		t.Fatal(err)
	}
	of := view(servertest.Name(), []replicator.Feed{{Table: "cell", Column: "users"}}, "name")
	defer c.drop(indexOf(of))
	open := func(source, tables string) replicator.Target {
		t.Helper()
		v := *of
		v.Fingerprint += tables
		target, err := sink.Open(t.Context(), source, []*replicator.View{&v})
		if err != nil {
			t.Fatal(err)
		}
		return target
	}
	fill := func(target replicator.Target, n int64, name string) {
		t.Helper()
		if _, err := target.Apply(t.Context(), []replicator.Op{op(cellOf(t, "users", n), 1, name)}); err != nil {
			t.Fatal(err)
		}
		if err := target.Mark(t.Context(), at(9)); err != nil {
			t.Fatal(err)
		}
	}
	shows := func(when string, index string, want int) {
		t.Helper()
		if is := c.indexes(indexOf(of)); len(c.search(indexOf(of))) != want || !slices.Contains(is, indexOf(of)+index) {
			t.Errorf("%s it shows %v, of %v", when, c.search(indexOf(of)), is)
		}
	}
	fill(open("a", ".x"), 1, "of a")
	fill(open("b", ".y"), 2, "of b")
	shows("filled by both", "-r1", 2)

	late := open("b", ".y")
	fill(open("a", ".z"), 1, "of a, anew")
	shows("while one has begun it anew", "-r2", 2)
	if err := late.Mark(t.Context(), at(10)); err == nil || replicator.IsFatal(err) {
		t.Errorf("the other one's mark: %v", err)
	}
	fill(open("b", ".y"), 2, "of b, anew")
	shows("filled anew by both", "-r2", 2)
	if err := sink.Close(); err != nil { // removes the index that was shown before
		t.Fatal(err)
	}
	if got := c.indexes(indexOf(of)); len(got) != 1 {
		t.Errorf("there are %v", got)
	}
}
