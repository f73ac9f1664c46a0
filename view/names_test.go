package view

import (
	"slices"
	"strings"
	"testing"

	"replicator"
)

// Entities must recognize every name that a template makes, and must return the entity that it was made from.
func TestANameLeadsBackToItsEntity(t *testing.T) {
	for _, template := range []string{"o:{tenant}:{id}", "o/{id}/{tenant}/x", "o{{:{tenant:hex}-{id:uuid}",
		"o:{tenant:base64}.{id}", "o:{tenant}0:{id}"} {
		v := hashOfOrders(template)
		found, err := NewNames([]*replicator.View{v}, testTables())
		if err != nil {
			t.Fatal(err)
		}
		e := mustCompile(t, v)
		for _, key := range [][2]any{{"a:b%", "c"}, {int64(-7), int64(5)}, {rowKey, rowKey},
			{"71f0c4d2-2918-44cc-a2df-6f486e96e37c", rowKey}} {
			cell := replicator.Cell{Table: "order", Key: mustKey(t, key[0], key[1])}
			made := e.Evaluate(cell, &replicator.Row{Cell: cell, Body: []byte("{}")})[0]
			if made.Err != nil { // the template format refuses the value
				continue
			}
			entities, ok := found.Entities(v, made.Entries[0].Key)
			if strings.HasSuffix(made.Entries[0].Key, ":b%/x") && !ok {
				continue // Entities refuses a name whose last value contains a colon
			}
			if !ok || !slices.Contains(entities, cell.Key.String()) {
				t.Errorf("%s: %s of %s leads to %q, %v", template, made.Entries[0].Key, cell.Key, entities, ok)
			}
		}
	}
}

func TestNamesThatMayBeSomethingElseAreLeftAlone(t *testing.T) {
	hash := func(name, key string) *replicator.View {
		return &replicator.View{Name: name, Kind: "hash", From: from("cell", "users"), Key: key}
	}
	user := hash("user", "user:{row_key}")
	tests := []struct {
		name  string
		views []*replicator.View
		key   string
		ok    bool
	}{
		{"the view's own", []*replicator.View{user}, "user:5", true},
		{"another beginning", []*replicator.View{user}, "users:5", false},
		{"something beside the view's", []*replicator.View{user}, "user:5:sessions", false},
		{"no value", []*replicator.View{user}, "user:", false},
		{"any name", []*replicator.View{hash("any", "{row_key}")}, "5", false},
		{"one name", []*replicator.View{{Name: "one", Kind: "ranking", From: from("cell", "users"),
			Key: "best"}}, "best", true},
		{"not that name", []*replicator.View{{Name: "one", Kind: "ranking", From: from("cell", "users"),
			Key: "best"}}, "bests", false},
	}
	for _, tt := range tests {
		found, err := NewNames(tt.views, testTables())
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := found.Entities(tt.views[0], tt.key); ok != tt.ok {
			t.Errorf("%s: of %s it says %v", tt.name, tt.key, ok)
		}
	}
}

func TestNamesBeginWithWhatStandsBeforeTheFirstValue(t *testing.T) {
	for template, want := range map[string]string{"o:{tenant}:{id}": "o:",
		"o{{:{tenant:hex}-{id:uuid}": "o{:", "{tenant}:{id}": ""} {
		v := hashOfOrders(template)
		found, err := NewNames([]*replicator.View{v}, testTables())
		if err != nil {
			t.Fatal(err)
		}
		if got := found.Begins(v); got != want {
			t.Errorf("%s begins with %q, want %q", template, got, want)
		}
	}
	best := &replicator.View{Name: "one", Kind: "ranking", From: from("cell", "users"), Key: "best"}
	if found, err := NewNames([]*replicator.View{best}, testTables()); err != nil || found.Begins(best) != "best" {
		t.Errorf("a key without a value begins with %q, %v", found.Begins(best), err)
	}
}
