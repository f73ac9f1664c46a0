package view

import (
	"slices"
	"strings"
	"testing"

	"replicator"
)

// stored tells views apart as Redis does.
func stored(v *replicator.View) string {
	if v.Name == "unique" {
		return "string"
	}
	return v.Kind
}

// What a key makes must be found again, and so must the entity.
func TestANameLeadsBackToItsEntity(t *testing.T) {
	for _, template := range []string{"o:{tenant}:{id}", "o/{id}/{tenant}/x", "o{{:{tenant:hex}-{id:uuid}",
		"o:{tenant:base64}.{id}", "o:{tenant}0:{id}"} {
		v := hashOfOrders(template)
		found, err := NewNames([]*replicator.View{v}, testTables(), stored)
		if err != nil {
			t.Fatal(err)
		}
		e := mustCompile(t, v)
		for _, key := range [][2]any{{"a:b%", "c"}, {int64(-7), int64(5)}, {rowKey, rowKey},
			{"71f0c4d2-2918-44cc-a2df-6f486e96e37c", rowKey}} {
			cell := replicator.Cell{Table: "order", Key: mustKey(t, key[0], key[1])}
			made := e.Evaluate(cell, &replicator.Row{Cell: cell, Body: []byte("{}")})[0]
			if made.Err != nil { // the form does not take the value
				continue
			}
			entities, ok := found.Entities(v, made.Entries[0].Key)
			if strings.HasSuffix(made.Entries[0].Key, ":b%/x") && !ok {
				continue // its last value holds a colon
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
	unique := &replicator.View{Name: "unique", Kind: "index", From: from("cell", "users"), Key: "user:{email}"}
	set := &replicator.View{Name: "set", Kind: "index", From: from("cell", "users"), Key: "user:{email}"}
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
		{"another view of the same type", []*replicator.View{user, hash("other", "user:{row_key:hex}")}, "user:55", false},
		{"another view of another type", []*replicator.View{user, set}, "user:5", true},
		{"a string beside a hash", []*replicator.View{unique, user}, "user:5", true},
		{"any name", []*replicator.View{hash("any", "{row_key}")}, "5", false},
		{"one name", []*replicator.View{{Name: "one", Kind: "ranking", From: from("cell", "users"),
			Key: "best"}}, "best", true},
		{"not that name", []*replicator.View{{Name: "one", Kind: "ranking", From: from("cell", "users"),
			Key: "best"}}, "bests", false},
	}
	for _, tt := range tests {
		found, err := NewNames(tt.views, testTables(), stored)
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
		found, err := NewNames([]*replicator.View{v}, testTables(), stored)
		if err != nil {
			t.Fatal(err)
		}
		if got := found.Begins(v); got != want {
			t.Errorf("%s begins with %q, want %q", template, got, want)
		}
	}
	best := &replicator.View{Name: "one", Kind: "ranking", From: from("cell", "users"), Key: "best"}
	if found, err := NewNames([]*replicator.View{best}, testTables(), stored); err != nil || found.Begins(best) != "best" {
		t.Errorf("a key without a value begins with %q, %v", found.Begins(best), err)
	}
}

// TestANameIsOneViewsOnly: whatever the values are, a name that two views' keys make is the one's or the other's.
func TestANameIsOneViewsOnly(t *testing.T) {
	index := func(name, key string) *replicator.View {
		return &replicator.View{Name: name, Kind: "index", From: from("cell", "users"), Key: key}
	}
	user, posts := index("user", "user:{id}"), index("posts", "user:posts:{id}")
	ends, both := index("ends", "user:{id}:x"), index("both", "user:{a}:{b}")
	whole, constant := index("whole", "{id}"), index("constant", "user:all")
	apart := index("apart", "post:{id}")
	all := []*replicator.View{user, posts, ends, both, whole, constant, apart}
	names, err := NewNames(all, testTables(), stored)
	if err != nil {
		t.Fatal(err)
	}
	for name, owner := range map[string]string{
		"user:5": "user", "user:posts:5": "posts", "user:posts:": "user", "user:5:x": "ends", "user:posts:5:x": "posts",
		"user:a:b": "both", "user:a:b:c": "both", "user:all": "constant", "other": "whole", "post:1": "apart",
	} {
		for _, v := range all {
			if _, _, fits := names.views[v.Name].template.fit(name); !fits {
				continue
			}
			own := ""
			if f := names.Owner(v); f != nil {
				own = f(name)
			}
			if own == "" {
				own = v.Name
			}
			if own != owner {
				t.Errorf("for view %s %s is %s's, not %s's", v.Name, name, own, owner)
			}
		}
	}
	if names.Owner(posts) != nil && names.Owner(constant) != nil {
		t.Error("what can't be another view's is asked for")
	}
	alone, err := NewNames([]*replicator.View{user, apart}, testTables(), stored)
	if err != nil {
		t.Fatal(err)
	}
	if alone.Owner(user) != nil || alone.Owner(apart) != nil {
		t.Error("names that no other view has are asked for")
	}
}
