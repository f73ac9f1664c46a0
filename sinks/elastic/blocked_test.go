package elastic_test

import (
	"strings"
	"testing"

	"replicator"
	"replicator/sinks/sinktest"
)

// block sets or takes away a block of a view's index.
func (p *pair) block(v *replicator.View, name, value string) {
	p.t.Helper()
	p.do("PUT", "/"+indexOf(v)+"-r1/_settings", `{"index.blocks.`+name+`": `+value+`}`)
}

// A block is set by somebody, or by Elasticsearch itself on the indexes that have a shard where the disk is full: these
// views wait until it is gone, and the others go on.
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
