package elastic_test

import (
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers/servertest"
	"replicator/sinks/elastic"
	"replicator/sinks/sinktest"
)

// block sets or removes a block of a view's index.
func (p *pair) block(v *replicator.View, name, value string) {
	p.t.Helper()
	p.do("PUT", "/"+indexOf(v)+"-r1/_settings", `{"index.blocks.`+name+`": `+value+`}`)
}

// An operator may block an index. Elasticsearch itself blocks the indexes with a shard on a full disk. The views of
// blocked indexes wait until the block is removed, and the other views go on.
func TestABlockedIndexStopsItsViewAlone(t *testing.T) {
	for _, name := range []string{"write", "read_only_allow_delete", "read_only"} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			target := p.open(p.views...)
			if _, err := target.Apply(t.Context(), p.both(1, "first")); err != nil {
				t.Fatal(err)
			}
			p.block(p.other, name, "true")
			at := replicator.Standing{Position: replicator.Position{Order: 2, Token: "t"}}
			applied, applying := target.Apply(t.Context(), p.both(2, "second"))
			if len(applied.Rejected) > 0 {
				t.Errorf("dead letters: %+v", applied.Rejected)
			}
			for doing, err := range map[string]error{"Apply": applying, "Mark": target.Mark(t.Context(), at)} {
				if err == nil || replicator.IsFatal(err) || !strings.Contains(err.Error(), "blocked") {
					t.Errorf("%s says %v", doing, err)
				}
				sinktest.Refuses(t, err, p.views, p.other.Name)
			}
			alone := p.open(p.well)
			if _, err := alone.Apply(t.Context(), []replicator.Op{op(cellOf(t, "users", 2), 1, "alone")}); err != nil {
				t.Error(err)
			}
			if err := alone.Mark(t.Context(), at); err != nil {
				t.Error(err)
			}
			p.block(p.other, name, "null")
			if a, err := p.open(p.views...).Apply(t.Context(), p.both(3, "third")); err != nil || len(a.Rejected) > 0 {
				t.Errorf("once it is not blocked: %+v, %v", a, err)
			}
		})
	}
}

// If an index's metadata is blocked, every request that lists several indexes fails. This must stop only the index's
// own view, and no view if the index belongs to another program.
func TestAnIndexWhoseMetadataIsBlockedStopsItsViewAlone(t *testing.T) {
	p := newPair(t)
	foreign := servertest.Name() + "-r7"
	p.do("PUT", "/"+foreign, `{"settings": `+oneShard+`}`)
	free := func(index string) {
		p.do("PUT", "/"+index+"/_settings", `{"index.blocks.metadata": null}`)
	}
	t.Cleanup(func() { free(foreign); p.do("DELETE", "/"+foreign, "") })
	p.do("PUT", "/"+foreign+"/_settings", `{"index.blocks.metadata": true}`)

	target := p.open(p.views...)
	at := replicator.Standing{Position: replicator.Position{Order: 2, Token: "t"}}
	if err := target.Mark(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	target = p.open(p.views...)
	p.block(p.other, "metadata", "true")
	t.Cleanup(func() { free(indexOf(p.other) + "-r1") })

	at.Position.Order = 3
	_, opening := p.sink.Open(t.Context(), "", p.views)
	for doing, err := range map[string]error{"Mark": target.Mark(t.Context(), at), "Open": opening,
		"Swap": elastic.Shadowing{Sink: p.sink}.Swap(t.Context(), "", []*replicator.View{p.other, p.other})} {
		if err == nil || replicator.IsFatal(err) || strings.Contains(err.Error(), "disk") ||
			!strings.Contains(err.Error(), "-r1/_settings {\"index.blocks.metadata\": null}`") {
			t.Errorf("%s says %v", doing, err)
		}
		if groups, _ := replicator.Troubled(append(p.views, p.well), err); len(groups) != 1 || groups[0][0] != p.other {
			t.Errorf("%s concerns %v", doing, groups)
		}
	}
	marks, err := p.sink.Marks(t.Context(), "")
	if err != nil || len(marks) != 2 {
		t.Fatalf("the marks are %+v (%v)", marks, err)
	}
	for _, m := range marks {
		if (m.Err != nil) != (m.View == p.other.Name) || m.Err != nil && strings.Contains(m.Err.Error(), "view ") {
			t.Errorf("the mark is %+v", m)
		}
	}
	if err := p.open(p.well).Mark(t.Context(), at); err != nil {
		t.Error(err)
	}
	if err := p.sink.Forget(t.Context(), p.well.Name); err != nil {
		t.Error(err)
	}
	if err := p.sink.Forget(t.Context(), p.other.Name); err == nil || strings.Count(err.Error(), "view ") != 1 {
		t.Errorf("forgetting the other view says %v", err)
	}
}
