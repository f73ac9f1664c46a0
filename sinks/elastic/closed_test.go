package elastic_test

import (
	"errors"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers/servertest"
	"replicator/sinks/elastic"
	"replicator/sinks/sinktest"
)

// pair has two views of the same cells in one sink. Tests damage other, and well must not be affected.
type pair struct {
	*cluster
	well, other *replicator.View
	views       []*replicator.View
	sink        *elastic.Sink
}

func newPair(t *testing.T) *pair {
	t.Helper()
	users := []replicator.Feed{{Table: "cell", Column: "users"}}
	p := &pair{cluster: newCluster(t, servertest.Elasticsearch(t)),
		well: view(servertest.Name(), users, "name"), other: view(servertest.Name(), users, "name")}
	p.views = []*replicator.View{p.well, p.other}
	p.sink = newSink(t, p.url, p.views...)
	t.Cleanup(func() {
		for _, v := range p.views {
			p.drop(indexOf(v))
		}
		if err := p.sink.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func (p *pair) open(views ...*replicator.View) replicator.Target {
	p.t.Helper()
	target, err := p.sink.Open(p.t.Context(), "", views)
	if err != nil {
		p.t.Fatal(err)
	}
	return target
}

// both returns an op on one cell that feeds both views.
func (p *pair) both(version int64, name string) []replicator.Op {
	value := replicator.Value{Entries: []replicator.Entry{{Fields: []any{name}}}}
	second := value
	second.View = 1
	return []replicator.Op{{Cell: cellOf(p.t, "users", 1), Version: version, Order: version,
		Values: []replicator.Value{value, second}}}
}

// If an operator closes an index (POST /INDEX/_close), its view waits until the index is opened. No cell becomes a dead
// letter, and the sink's other views go on.
func TestAClosedIndexStopsItsViewAlone(t *testing.T) {
	p := newPair(t)
	closed := p.other
	at := replicator.Standing{Position: replicator.Position{Order: 1, Token: "t"}}
	target := p.open(p.views...)
	if _, err := target.Apply(t.Context(), p.both(1, "first")); err != nil {
		t.Fatal(err)
	}
	if err := target.Mark(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	p.do("POST", "/"+indexOf(closed)+"-r1/_close", "")
	// the target remembers the documents, so it writes them without reading them
	applied, applying := target.Apply(t.Context(), p.both(2, "second"))
	if len(applied.Rejected) > 0 {
		t.Errorf("dead letters: %+v", applied.Rejected)
	}
	_, asking := target.Versions(t.Context(), []replicator.Cell{cellOf(t, "users", 1)})
	_, opening := p.sink.Open(t.Context(), "", p.views)
	for doing, err := range map[string]error{"Apply": applying, "Versions": asking,
		"Mark": target.Mark(t.Context(), at), "Open": opening} {
		if !replicator.IsFatal(err) || errors.Is(err, replicator.ErrSinkLost) ||
			!strings.Contains(err.Error(), "POST /"+indexOf(closed)+"-r1/_open") {
			t.Errorf("%s says %v", doing, err)
		}
		sinktest.Refuses(t, err, p.views, closed.Name)
	}
	marks, err := p.sink.Marks(t.Context(), "")
	if err != nil || len(marks) != 2 {
		t.Fatalf("the marks are %+v (%v)", marks, err)
	}
	for _, m := range marks {
		if (m.Err != nil) != (m.View == closed.Name) || m.Err == nil && m.Position != at.Position {
			t.Errorf("the mark is %+v", m)
		}
	}
	alone := p.open(p.well)
	if err := alone.Mark(t.Context(), at); err != nil {
		t.Error(err)
	}
	p.do("POST", "/"+indexOf(closed)+"-r1/_open", "")
	a, err := p.open(p.views...).Apply(t.Context(), p.both(3, "third"))
	if err != nil || len(a.Stale)+len(a.Rejected) > 0 {
		t.Errorf("once it is open again: %+v, %v", a, err)
	}
}
