package elastic_test

import (
	"fmt"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers/servertest"
	"replicator/sinks/elastic"
)

// TestADocumentWithTooManyFieldsNamesTheSettingThatHelps creates the view again with the setting that the reason names.
// The same document must then be accepted.
func TestADocumentWithTooManyFieldsNamesTheSettingThatHelps(t *testing.T) {
	members := map[string]any{}
	for n := range 1100 {
		members[fmt.Sprint("m", n)] = int64(n)
	}
	for name, start := range map[string]func() *cluster{
		"Elasticsearch": func() *cluster { return newCluster(t, servertest.Elasticsearch(t)) },
		"OpenSearch":    func() *cluster { return newOpenSearch(t) },
	} {
		t.Run(name, func(t *testing.T) {
			c := start()
			put := func(settings string) []replicator.Rejected {
				v := view(servertest.Name(), []replicator.Feed{{Table: "cell", Column: "users"}}, "doc")
				v.Settings = elastic.Settings{Index: v.Name, IndexSettings: settings}
				t.Cleanup(func() { c.drop(indexOf(v)) })
				sink := newSink(t, c.url, v)
				defer sink.Close()
				target, err := sink.Open(t.Context(), "", []*replicator.View{v})
				if err != nil {
					t.Fatal(err)
				}
				out, err := target.Apply(t.Context(), []replicator.Op{op(cellOf(t, "users", 1), 1, replicator.ObjectOf(members)),
					op(cellOf(t, "users", 2), 2, replicator.ObjectOf(map[string]any{"m1": int64(1)}))})
				if err != nil {
					t.Fatal(err)
				}
				return out.Rejected
			}
			rejected := put(oneShard)
			if len(rejected) != 1 || rejected[0].Op != 0 {
				t.Fatalf("%v is rejected", rejected)
			}
			_, rest, _ := strings.Cut(rejected[0].Err.Error(), ". Set ")
			setting, _, found := strings.Cut(rest, " in a settings_file")
			if !found {
				t.Fatalf("the reason is %v", rejected[0].Err)
			}
			if rejected = put(fmt.Sprintf(`{"number_of_replicas": 0, %q: 2000}`, setting)); len(rejected) > 0 {
				t.Errorf("with %s it is rejected: %v", setting, rejected[0].Err)
			}
		})
	}
}
