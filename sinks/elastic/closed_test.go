package elastic_test

import (
	"errors"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/servers/servertest"
	"replicator/sinks/sinktest"
)

// Somebody closes an index (POST /INDEX/_close): its view waits until it is open, and no cell becomes a dead letter for
// it. The other views of the sink go on.
func TestAClosedIndexStopsItsViewAlone(t *testing.T) {
	c := newCluster(t, servertest.Elasticsearch(t))
	users := []replicator.Feed{{Table: "cell", Column: "users"}}
	well, closed := view(servertest.Name(), users, "name"), view(servertest.Name(), users, "name")
	views := []*replicator.View{well, closed}
	for _, v := range views {
		t.Cleanup(func() { c.drop(indexOf(v)) })
	}
	sink := newSink(t, c.url, views...)
	defer sink.Close()
	open := func(views ...*replicator.View) replicator.Target {
		t.Helper()
		target, err := sink.Open(t.Context(), "", views)
		if err != nil {
			t.Fatal(err)
		}
		return target
	}
	both := func(version int64, name string) []replicator.Op {
		value := replicator.Value{Entries: []replicator.Entry{{Fields: []any{name}}}}
		second := value
		second.View = 1
		return []replicator.Op{{Cell: cellOf(t, "users", 1), Version: version, Order: version,
			Values: []replicator.Value{value, second}}}
	}
	at := replicator.Standing{Position: replicator.Position{Order: 1, Token: "t"}}
	target := open(views...)
	if _, err := target.Apply(t.Context(), both(1, "first")); err != nil {
		t.Fatal(err)
	}
	if err := target.Mark(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	c.do("POST", "/"+indexOf(closed)+"-r1/_close", "")
	// it remembers the documents: they are written and not read
	applied, applying := target.Apply(t.Context(), both(2, "second"))
	if len(applied.Rejected) > 0 {
		t.Errorf("dead letters: %+v", applied.Rejected)
	}
	_, asking := target.Versions(t.Context(), []replicator.Cell{cellOf(t, "users", 1)})
	_, opening := sink.Open(t.Context(), "", views)
	for doing, err := range map[string]error{"Apply": applying, "Versions": asking,
		"Mark": target.Mark(t.Context(), at), "Open": opening} {
		if !replicator.IsFatal(err) || errors.Is(err, replicator.ErrSinkLost) || !strings.Contains(err.Error(), "_open") {
			t.Errorf("%s says %v", doing, err)
		}
		sinktest.Refuses(t, err, views, closed.Name)
	}
	marks, err := sink.Marks(t.Context(), "")
	if err != nil || len(marks) != 2 {
		t.Fatalf("the marks are %+v (%v)", marks, err)
	}
	for _, m := range marks {
		if (m.Err != nil) != (m.View == closed.Name) || m.Err == nil && m.Position != at.Position {
			t.Errorf("the mark is %+v", m)
		}
	}
	alone := open(well)
	if err := alone.Mark(t.Context(), at); err != nil {
		t.Error(err)
	}
	c.do("POST", "/"+indexOf(closed)+"-r1/_open", "")
	if a, err := open(views...).Apply(t.Context(), both(3, "third")); err != nil || len(a.Stale)+len(a.Rejected) > 0 {
		t.Errorf("once it is open again: %+v, %v", a, err)
	}
}
