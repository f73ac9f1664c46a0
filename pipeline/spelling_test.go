package pipeline

import (
	"fmt"
	"testing"

	"replicator"
)

// The source is asked only once about a key that changes often. It is asked again if another variant of the key may
// have been inserted unnoticed.
func TestAKeyIsAskedForUntilItIsKnownToBeTheOnlySpelling(t *testing.T) {
	a := newLoneKeys()
	cell := func(text string) replicator.Cell {
		key, err := replicator.MakeKey(text)
		if err != nil {
			t.Fatal(err)
		}
		return replicator.Cell{Table: "cell", Key: key}
	}
	asks := func(text string, gone, want bool) {
		t.Helper()
		if got := a.ask(cell(text), gone); got != want {
			t.Errorf("%s: asked %v, want %v", text, got, want)
		}
	}
	answered := func(variants [][]replicator.Cell, texts ...string) {
		var keys []replicator.Key
		for _, text := range texts {
			keys = append(keys, cell(text).Key)
		}
		a.answered("cell", keys, variants)
	}
	asks("abc", false, true)
	asks("abc", false, true) // no answer yet
	answered(nil, "abc")
	asks("abc", false, false)
	if !a.ask(replicator.Cell{Table: "other", Key: cell("abc").Key}, false) {
		t.Error("another table's key was taken for this one's")
	}

	asks("ABC", false, true)
	answered([][]replicator.Cell{{cell("ABC"), cell("abc")}}, "ABC")
	asks("abc", false, true)
	asks("ABC", false, true)

	answered(nil, "abc", "ABC") // one variant is gone
	asks("abc", true, true)
	answered(nil, "abc") // this answer may be from before the delete
	asks("abc", false, true)

	for i := range rememberedKeys + 10 {
		a.ask(cell(fmt.Sprint(i)), false)
	}
	if n := len(a.keys); n > rememberedKeys {
		t.Errorf("%d keys are remembered", n)
	}
}

// The rows of a cell's variants are not read at one moment. So two variants may be read, although the cell only changed
// from one to the other.
func TestACellSpeltAnewWhileItIsReadIsNoTwo(t *testing.T) {
	row := func(column, text string, version int64) *replicator.Row {
		key, err := replicator.MakeKey(text)
		if err != nil {
			t.Fatal(err)
		}
		return &replicator.Row{Cell: replicator.Cell{Table: "ev", Column: column, Key: key}, Version: version}
	}
	a, b := replicator.Feed{Table: "ev", Column: "a"}, replicator.Feed{Table: "ev", Column: "b"}
	one := &replicator.View{Name: "one", From: []replicator.Feed{a}}
	both := &replicator.View{Name: "both", From: []replicator.Feed{a, b}}
	for _, c := range []struct {
		name  string
		view  *replicator.View
		rows  []*replicator.Row
		apart bool
	}{
		{"one cell, spelt anew", one, []*replicator.Row{row("a", "ABC", 1), row("a", "Abc", 2), nil}, false},
		{"two cells, one spelt anew", both,
			[]*replicator.Row{row("a", "ABC", 1), row("a", "Abc", 2), row("b", "Abc", 1)}, false},
		{"two cells, one spelt back", both,
			[]*replicator.Row{row("a", "ABC", 3), row("a", "Abc", 2), row("b", "Abc", 1)}, true},
		{"two cells, of which it has one", one, []*replicator.Row{row("a", "ABC", 1), row("b", "Abc", 1)}, false},
	} {
		if err := speltApart([]*replicator.View{c.view}, c.rows); (err != nil) != c.apart {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
