package elastic_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"replicator"
	"replicator/config"
	"replicator/internal/seen"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
	"replicator/sinks/elastic"
	"replicator/sinks/sinktest"
)

// With REPLICATOR_TEST_INSTEAD=opensearch-2, all tests run on OpenSearch. The tests in this file are about its
// differences.

func newOpenSearch(t *testing.T) *cluster {
	return newCluster(t, servertest.Shared(t, servers.OpenSearch).DSN(""))
}

func TestOpenSearchKeepsWhatElasticsearchDoes(t *testing.T) {
	conforms(t, newOpenSearch(t).url, sinktest.RunHistories)
}

// In OpenSearch, walks sort by the sequence number, and documents of different shards may have the same one.
func TestWalksOfOpenSearchMeetEveryDocumentOnceWhateverItsShard(t *testing.T) {
	c := newOpenSearch(t)
	v := view(servertest.Name(), []replicator.Feed{{Table: "cell", Column: "users"}}, "name")
	v.Settings = elastic.Settings{Index: v.Name, IndexSettings: strings.Replace(oneShard, "1", "3", 1)}
	sink := newSink(t, c.url, v)
	defer sink.Close()
	t.Cleanup(func() { c.drop(v.Name) })
	target, err := sink.Open(t.Context(), "", []*replicator.View{v})
	if err != nil {
		t.Fatal(err)
	}
	const cells = 25
	var ops []replicator.Op
	for n := range int64(cells) {
		ops = append(ops, op(cellOf(t, "users", n), 1, "a"))
	}
	if _, err := target.Apply(t.Context(), ops); err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int{1, 2, 7, cells} {
		met := map[string]int{}
		for after, pages := "", 0; ; pages++ {
			found, next, err := target.Held(t.Context(), 0, after, limit)
			if err != nil || pages > cells {
				t.Fatalf("page %d of at most %d: %v", pages, limit, err)
			}
			for _, cell := range found {
				met[cell.Key.String()]++
			}
			if after = next; after == "" {
				break
			}
		}
		if len(met) != cells {
			t.Errorf("in pages of %d it met %d cells of %d", limit, len(met), cells)
		}
		for key, times := range met {
			if times != 1 {
				t.Errorf("in pages of %d it met cell %s %d times", limit, key, times)
			}
		}
	}
}

// OpenSearch's type for objects (flat_object) refuses texts that are longer than a term. A derived mapping must not
// refuse any value of a column.
func TestAMappingThatIsMadeForOpenSearchRefusesNoValue(t *testing.T) {
	c := newOpenSearch(t)
	v := view(servertest.Name(), []replicator.Feed{{Table: "cell", Column: "users"}}, "$data", "$number")
	objects := seen.Values{}
	objects.Add(object("a", "b"))
	sink := newSinkOf(t, elastic.Config{Addresses: []string{c.url}, Views: []*replicator.View{v},
		Columns: func(context.Context, string, string) ([]config.Column, error) {
			return []config.Column{{Name: "data", Type: "json"}, {Name: "number", Type: "bigint unsigned"}}, nil
		},
		Samples: func(context.Context, string, *replicator.View) ([]seen.Values, error) {
			return []seen.Values{objects, {}}, nil
		}})
	defer sink.Close()
	t.Cleanup(func() { c.drop(v.Name) })
	target, err := sink.Open(t.Context(), "", []*replicator.View{v})
	if err != nil {
		t.Fatal(err)
	}
	long := op(cellOf(t, "users", 1), 1, object("a", strings.Repeat("x", 40000)), uint64(1<<64-1))
	if a, err := target.Apply(t.Context(), []replicator.Op{long}); err != nil || len(a.Rejected) > 0 {
		t.Errorf("Apply says %+v, %v", a, err)
	}
	mapping := string(c.do("GET", "/"+v.Name+"/_mapping", ""))
	for _, part := range []string{`"$data":{"type":"object","enabled":false}`, `"$number":{"type":"unsigned_long"}`} {
		if !strings.Contains(mapping, part) {
			t.Errorf("the mapping is %s", mapping)
		}
	}
}

func TestCheckSaysThatOpenSearchAnswers(t *testing.T) {
	c := newOpenSearch(t)
	v := view(servertest.Name(), []replicator.Feed{{Table: "cell", Column: "users"}}, "name")
	sink := newSink(t, c.url, v)
	defer sink.Close()
	found := fmt.Sprintf("%+v", sink.Check(t.Context(), []*replicator.View{v}))
	for _, part := range []string{"OpenSearch 2.19", "OpenSearch has no request"} {
		if !strings.Contains(found, part) || strings.Contains(found, "Elasticsearch") {
			t.Errorf("check says %s", found)
		}
	}
}
