package elastic_test

import (
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers/servertest"
	"replicator/sinks/elastic"
	"replicator/sinks/sinktest"
)

// Open refuses only the view that can't be kept. Check reports the same error before.
func TestAViewThatCannotBeKeptIsRefusedByItself(t *testing.T) {
	c := newCluster(t, servertest.Elasticsearch(t))
	users := []replicator.Feed{{Table: "cell", Column: "users"}}
	for _, r := range []struct {
		name  string
		spoil func(v *replicator.View)
		want  string
	}{
		{"another kind", func(v *replicator.View) { v.Kind = "hash" }, "hash"},
		{"an index of the alias's name", func(v *replicator.View) {
			c.do("PUT", "/"+indexOf(v),
				`{"settings": `+oneShard+`}`)
		}, "DELETE /"},
		{"a type that there is none of", func(v *replicator.View) {
			setMapping(v,
				`{"properties": {"name": {"type": "txet"}}}`)
		}, "txet"},
		{"a mapping that is no JSON", func(v *replicator.View) { setMapping(v, `{"properties": `) }, "mapping_file"},
		{"an analyzer that there is none of", func(v *replicator.View) {
			setMapping(v,
				`{"properties": {"name": {"type": "text", "analyzer": "a"}}}`)
		}, "mapping_file"},
		{"a setting that makes no sense", func(v *replicator.View) {
			v.Settings = elastic.Settings{Index: v.Name, IndexSettings: `{"number_of_shards": "many"}`}
		}, "settings_file"},
		{"a routing that is demanded", func(v *replicator.View) { setMapping(v, `{"_routing": {"required": true}}`) },
			`routing = "{…}"`},
		{"a field of Elasticsearch's own", func(v *replicator.View) { v.Fields = fields("_id") }, `fields = { id = "_id" }`},
		{"the field of the state", func(v *replicator.View) { v.Fields = fields("_replicator") }, "Rename"},
	} {
		t.Run(r.name, func(t *testing.T) {
			well, bad, worse := view(servertest.Name(), users, "name"), view(servertest.Name(), users,
				"name"), view(servertest.Name(), users, "name")
			t.Cleanup(func() { c.drop(indexOf(well)); c.ask("DELETE", "/"+indexOf(bad), "") })
			r.spoil(bad)
			worse.Kind = "row"
			views := []*replicator.View{well, bad, worse}
			sink := newSink(t, c.url, views...)
			defer sink.Close()
			var failed []replicator.Finding
			for _, f := range sink.Check(t.Context(), views) {
				if f.Level == replicator.Fail {
					failed = append(failed, f)
				}
			}
			_, err := sink.Open(t.Context(), "", views)
			if !replicator.IsFatal(err) || !strings.Contains(err.Error(), r.want) {
				t.Fatalf("Open says %v", err)
			}
			sinktest.Refuses(t, err, views, bad.Name, worse.Name)
			if len(failed) != 2 || !strings.HasPrefix(failed[0].What, "view "+bad.Name) ||
				!strings.Contains(err.Error(), failed[0].Detail) {
				t.Errorf("Check says %+v, Open %v", failed, err)
			}
			if _, err := sink.Open(t.Context(), "", views[:1]); err != nil {
				t.Errorf("the other view: %v", err)
			}
		})
	}
}
