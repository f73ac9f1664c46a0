package judge

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"replicator"
)

// An entity may be in each other shard, and in one partition of each other topic.
func TestAnEntityMayMoveToOnePlaceOfEachOtherOrigin(t *testing.T) {
	shards := Sources{Shards: []string{"a", "b", "c"}}
	topics := Sources{Partitions: func(context.Context) ([]string, error) {
		return []string{"x-a/10", "x-a/2", "x-b/1", "x-b/0", "x-a/0", "x-a/1", "x-a/3", "x-a/4", "x-a/5", "x-a/6", "x-a/7",
			"x-a/8", "x-a/9", "y/0"}, nil
	}}
	for _, test := range []struct {
		of     Sources
		source string
		want   string
	}{
		{shards, "b", "[[a] [c]]"},
		{shards, "", "[]"},
		{shards, "renamed", "[]"},
		{topics, "y/0", "[[x-a/0 x-a/1 x-a/2 x-a/3 x-a/4 x-a/5 x-a/6 x-a/7 x-a/8 x-a/9 x-a/10] [x-b/0 x-b/1]]"},
		{topics, "x-a/7", "[[x-b/0 x-b/1] [y/0]]"},
		{Sources{Partitions: func(context.Context) ([]string, error) { return []string{"t/0", "t/1"}, nil }}, "t/1", "[]"},
	} {
		others, err := test.of.Others(t.Context(), test.source)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint([][]string(others)); got != test.want {
			t.Errorf("other sources than %q: %s, want %s", test.source, got, test.want)
		}
	}
	others, _ := topics.Others(t.Context(), "y/0")
	met := map[string]bool{}
	for n := range int64(200) {
		key, err := replicator.MakeKey(n)
		if err != nil {
			t.Fatal(err)
		}
		at := others.Of(key)
		if len(at) != 2 || !slices.Contains(others[0], at[0]) || !slices.Contains(others[1], at[1]) {
			t.Fatalf("key %d may be in %q", n, at)
		}
		met[at[0]], met[at[1]] = true, true
	}
	if len(met) != 13 {
		t.Errorf("200 keys are in %d of 13 partitions", len(met))
	}
}
