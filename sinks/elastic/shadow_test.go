package elastic_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"replicator"
	"replicator/internal/lab"
	"replicator/internal/servers/servertest"
	"replicator/sinks/elastic"
	"replicator/sinks/sinktest"
)

// A search first resolves the alias and asks the index a moment later. If the index is gone by then, the search returns
// no hits and a failed shard.
func TestASearchDuringASwapFindsEverything(t *testing.T) {
	b := newBench(t, "")
	sink := elastic.Shadowing{Sink: b.sink}
	views := []*replicator.View{b.view}
	users := []replicator.Op{op(cellOf(t, "users", 1), 1, "one", nil), op(cellOf(t, "users", 2), 1, "two", nil)}
	filled := func(target replicator.Target) {
		if err := target.Mark(t.Context(), replicator.Standing{Position: replicator.Position{Order: 5,
			Token: "t"}}); err != nil {
			t.Fatal(err)
		}
	}
	b.apply(users...)
	filled(b.target)
	b.do("POST", "/"+indexOf(b.view)+"/_refresh", "")

	swaps := func() {
		for range 10 {
			target, err := sink.Open(t.Context(), "", []*replicator.View{sink.Shadow(b.view)})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := target.Apply(t.Context(), users); err != nil {
				t.Fatal(err)
			}
			filled(target)
			if err := sink.Swap(t.Context(), "", views); err != nil {
				t.Fatal(err)
			}
		}
	}
	look := func(context.Context) (string, error) {
		status, answer := b.ask("GET", "/"+indexOf(b.view)+"/_count", "")
		return fmt.Sprintf("%d %s", status, answer), nil
	}
	looks := lab.Watch(t, look, func(seen string) error {
		if !strings.HasPrefix(seen, `200 {"count":2,`) || !strings.Contains(seen, `"failed":0`) {
			return errors.New(seen)
		}
		return nil
	}, swaps)
	t.Logf("looked %d times", looks)
}

// If one view can't be swapped in, the error names it, and no view is swapped. The others can then be swapped without
// it.
func TestASwapNamesTheViewThatItFailsFor(t *testing.T) {
	for name, breaks := range map[string]func(b *bench, index string){
		"somebody closed its shadow's index":  func(b *bench, index string) { b.do("POST", "/"+index+"/_close", "") },
		"somebody removed its shadow's index": func(b *bench, index string) { b.do("DELETE", "/"+index, "") },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "")
			other := *b.view
			other.Name, other.Settings = servertest.Name(), elastic.Settings{Index: servertest.Name(), IndexSettings: oneShard}
			t.Cleanup(func() { b.drop(indexOf(&other)) })
			sink := elastic.Shadowing{Sink: newSink(t, b.url, b.view, &other)}
			defer sink.Close()
			views := []*replicator.View{b.view, &other}
			for _, v := range views {
				for _, v := range []*replicator.View{v, sink.Shadow(v)} {
					target, err := sink.Open(t.Context(), "", []*replicator.View{v})
					if err == nil {
						err = target.Mark(t.Context(), replicator.Standing{Position: replicator.Position{Order: 5, Token: "t"}})
					}
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			breaks(b, indexOf(&other)+"-r2")
			err := sink.Swap(t.Context(), "", views)
			if sinktest.Refuses(t, err, views, other.Name); !replicator.IsFatal(err) {
				t.Errorf("the swap says %v", err)
			}
			if left := b.indexes(indexOf(b.view)); len(left) != 2 {
				t.Errorf("the other view was swapped: %v", left)
			}
			if err := sink.Swap(t.Context(), "", views[:1]); err != nil {
				t.Error(err)
			}
			if marks, err := sink.Marks(t.Context(), ""); err != nil || slices.ContainsFunc(marks, func(m replicator.Mark) bool {
				return m.View == b.view.Name+replicator.ShadowSuffix
			}) {
				t.Errorf("after the other was swapped in the marks are %+v (%v)", marks, err)
			}
		})
	}
}
