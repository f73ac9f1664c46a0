package sinktest

import (
	"slices"
	"testing"

	"replicator"
)

// Refuses fails the test unless `err` names exactly the views in `names`, with an error for each.
func Refuses(t testing.TB, err error, views []*replicator.View, names ...string) {
	t.Helper()
	var got []string
	groups, _ := replicator.Troubled(views, err)
	for _, group := range groups {
		for _, v := range group {
			got = append(got, v.Name)
		}
		if len(group) != 1 {
			t.Errorf("%d views share the error: %v", len(group), err)
		}
	}
	if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(names))) {
		t.Errorf("the error concerns the views %q, want %q: %v", got, names, err)
	}
}
