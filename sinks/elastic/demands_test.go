package elastic_test

import (
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers/servertest"
	"replicator/sinks/elastic"
	"replicator/sinks/sinktest"
)

// A mapping may require a routing for each document, as index.routing_partition_size does. Then the marks' document
// needs a routing, too.
func TestAMappingThatDemandsARouting(t *testing.T) {
	for name, settings := range map[string]string{
		"one shard": oneShard,
		"several shards for each routing": `{"number_of_shards": 4, "number_of_routing_shards": 8,
			"number_of_replicas": 0, "routing_partition_size": 2}`,
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, servertest.Elasticsearch(t))
			v := view(servertest.Name(), []replicator.Feed{{Table: "cell", Column: "users"}}, "name")
			v.Settings = elastic.Settings{Index: v.Name, IndexSettings: settings,
				Mapping: `{"_routing": {"required": true}}`}
			v.Member = "of everyone"
			t.Cleanup(func() { c.drop(indexOf(v)) })
			sink := newSinkOf(t, elastic.Config{Addresses: []string{c.url}, Views: []*replicator.View{v},
				DocumentID: func(_ *replicator.View, c replicator.Cell) (string, string, error) {
					return c.Key.String(), "everyone", nil
				}})
			defer sink.Close()
			for order := range int64(3) { // the first Open creates the index, the others continue in it
				target, err := sink.Open(t.Context(), "", []*replicator.View{v})
				if err != nil {
					t.Fatal(err)
				}
				change := op(cellOf(t, "users", 1), order+1, "a")
				if _, err := target.Apply(t.Context(), []replicator.Op{change}); err != nil {
					t.Fatal(err)
				}
				at := replicator.Standing{Position: replicator.Position{Order: order + 1, Token: "t"}}
				if err := target.Mark(t.Context(), at); err != nil {
					t.Fatal(err)
				}
				marks, err := sink.Marks(t.Context(), "")
				if err != nil || len(marks) != 1 || marks[0].Err != nil || marks[0].Position != at.Position {
					t.Errorf("the marks are %+v (%v)", marks, err)
				}
			}
			if found := c.search(indexOf(v)); len(found) != 1 {
				t.Errorf("it shows %s", found)
			}
			if err := sink.Forget(t.Context(), v.Name); err != nil {
				t.Error(err)
			}
			if marks, err := sink.Marks(t.Context(), ""); err != nil || len(marks) > 0 {
				t.Errorf("forgotten it has the marks %+v (%v)", marks, err)
			}
		})
	}
}

// A template may also require a routing. If the view has none, only this view fails.
func TestADemandForARoutingIsTheViewsOwn(t *testing.T) {
	p := newPair(t)
	template := servertest.Name()
	p.do("PUT", "/_index_template/"+template, `{"index_patterns": ["`+indexOf(p.other)+`-r*"], "priority": 900,
		"template": {"mappings": {"_routing": {"required": true}}}}`)
	t.Cleanup(func() { p.do("DELETE", "/_index_template/"+template, "") })
	target := p.open(p.views...)
	_, err := target.Versions(t.Context(), []replicator.Cell{cellOf(t, "users", 1)})
	if err == nil || !strings.Contains(err.Error(), "requires a routing") || strings.Contains(err.Error(), "503") {
		t.Errorf("Versions says %v", err)
	}
	if groups, _ := replicator.Troubled(p.views, err); len(groups) != 1 || groups[0][0] != p.other {
		t.Errorf("it concerns %v", groups)
	}
}

// If the index's settings name an ingest pipeline that does not exist, only that view stops. No document becomes a dead
// letter, because the documents are not at fault.
func TestAPipelineThatThereIsNotStopsTheViewAlone(t *testing.T) {
	p := newPair(t)
	target := p.open(p.views...)
	set := func(pipeline string) {
		p.do("PUT", "/"+indexOf(p.other)+"-r1/_settings", `{"index.default_pipeline": "`+pipeline+`"}`)
	}
	set("gone")
	at := replicator.Standing{Position: replicator.Position{Order: 2, Token: "t"}}
	applied, applying := target.Apply(t.Context(), p.both(1, "a"))
	if len(applied.Rejected) > 0 {
		t.Errorf("dead letters: %+v", applied.Rejected)
	}
	for doing, err := range map[string]error{"Apply": applying, "Mark": target.Mark(t.Context(), at)} {
		if !replicator.IsFatal(err) || !strings.Contains(err.Error(), "pipeline with id [gone] does not exist") {
			t.Errorf("%s says %v", doing, err)
		}
		sinktest.Refuses(t, err, p.views, p.other.Name)
	}
	set("_none")
	if _, err := p.open(p.views...).Apply(t.Context(), p.both(2, "b")); err != nil {
		t.Error(err)
	}
}
