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

func TestAShadowTakesThePlaceOfTheLiveViewWithItsStatesAndMarks(t *testing.T) {
	b := newBench(t, "")
	sink := elastic.Shadowing{Sink: b.sink}
	views := []*replicator.View{b.view}
	mark := func(target replicator.Target, order int64) {
		t.Helper()
		if err := target.Mark(t.Context(), replicator.Standing{Position: replicator.Position{Order: order, Token: "t"}}); err != nil {
			t.Fatal(err)
		}
	}
	b.apply(op(cellOf(t, "users", 1), 1, "old", nil))
	mark(b.target, 5)
	b.do("PUT", "/"+indexOf(b.view)+"-r1/_doc/strange?refresh=true", `{"name": "by hand"}`)

	for range 2 { // the second takes the place of one that was given up
		if err := sink.Discard(t.Context(), views); err != nil {
			t.Fatal(err)
		}
		shadow := sink.Shadow(b.view)
		target, err := sink.Open(t.Context(), "", []*replicator.View{shadow})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := target.Apply(t.Context(), []replicator.Op{op(cellOf(t, "users", 1), 7, "new", nil)}); err != nil {
			t.Fatal(err)
		}
		mark(target, 9)
		b.apply(op(cellOf(t, "users", 2), 6, "live", nil)) // the live view goes on
		b.open()
		mark(b.target, 6)
		if got := len(b.search(indexOf(b.view))); got != 3 {
			t.Errorf("%d documents are shown before the swap", got)
		}
	}
	if err := sink.Swap(t.Context(), "", views); err != nil {
		t.Fatal(err)
	}
	if got := len(b.search(indexOf(b.view))); got != 1 {
		t.Errorf("%d documents are shown after the swap", got)
	}
	b.shows("1", `{"name":"new"`)
	_, applying := b.target.Apply(t.Context(), []replicator.Op{op(cellOf(t, "users", 3), 10, "late", nil)})
	_, asking := b.target.Versions(t.Context(), []replicator.Cell{cellOf(t, "users", 1)})
	marking := b.target.Mark(t.Context(), replicator.Standing{Position: replicator.Position{Order: 10, Token: "t"}})
	for _, err := range []error{applying, asking, marking} { // nothing is lost: the view is opened anew
		if err == nil || errors.Is(err, replicator.ErrSinkLost) || replicator.IsFatal(err) {
			t.Errorf("a target of before the swap: %v", err)
		}
	}
	b.open()
	if a := b.apply(op(cellOf(t, "users", 1), 6, "stale", nil)); len(a.Stale) != 1 {
		t.Errorf("after the swap an older version is %+v", a)
	}
	marks, err := b.sink.Marks(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range marks {
		if strings.HasPrefix(m.View, b.view.Name) && (m.View != b.view.Name || m.Position.Order != 9 || m.Filling()) {
			t.Errorf("the mark is %+v", m)
		}
	}
	if err := b.sink.Close(); err != nil {
		t.Fatal(err)
	}
	if left := b.indexes(indexOf(b.view)); len(left) != 1 {
		t.Errorf("in the end there are the indexes %v", left)
	}
}

// A search finds out first which indexes an alias shows and asks these a moment later. If one is gone by then, it
// answers with nothing, and that a shard failed.
func TestASearchDuringASwapFindsEverything(t *testing.T) {
	b := newBench(t, "")
	sink := elastic.Shadowing{Sink: b.sink}
	views := []*replicator.View{b.view}
	users := []replicator.Op{op(cellOf(t, "users", 1), 1, "one", nil), op(cellOf(t, "users", 2), 1, "two", nil)}
	filled := func(target replicator.Target) {
		if err := target.Mark(t.Context(), replicator.Standing{Position: replicator.Position{Order: 5, Token: "t"}}); err != nil {
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

func TestCompareFindsWhatWasChangedByHand(t *testing.T) {
	b := newBench(t, `{"dynamic": false}`, "profile", "users")
	var ops []replicator.Op
	for n := range int64(5) {
		ops = append(ops, op(cellOf(t, "users", n), 1, "a", exact()))
	}
	b.apply(ops...)
	for i := range ops {
		ops[i] = reset(ops[i].Cell, 1, 5, "a", exact())
	}
	ops[4] = reset(ops[4].Cell, replicator.NoVersion, 5) // extra
	ops = append(ops, reset(cellOf(t, "users", 9), replicator.NoVersion, 5))
	b.do("DELETE", "/"+indexOf(b.view)+"-r1/_doc/1", "")
	b.do("PUT", "/"+indexOf(b.view)+"-r1/_doc/2", `{"name": "b"}`)
	want := map[int]replicator.DifferenceKind{1: replicator.Missing, 2: replicator.Stale, 4: replicator.Extra}
	compare := func(want map[int]replicator.DifferenceKind) {
		t.Helper()
		differences, err := b.target.Compare(t.Context(), ops)
		if err != nil {
			t.Fatal(err)
		}
		got := map[int]replicator.DifferenceKind{}
		for _, d := range differences {
			got[d.Op] = d.Kind
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("the differences are %v, and not %v", got, want)
		}
	}
	compare(want)
	held, next, err := b.target.Held(t.Context(), 0, "", 100)
	if err != nil || next != "" || len(held) != 3 { // 0, 3 and 4; of the others nothing says which cells they are of
		t.Errorf("it holds %v, next %q, %v", held, next, err)
	}
	b.apply(ops...)
	compare(nil)
}

// One view that can't be swapped in is named, nothing is swapped then, and the others can be without it.
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
