package replicator_test

import (
	"fmt"
	"testing"

	"replicator"
)

func TestObjectsHaveEachNameOnceInOrder(t *testing.T) {
	members := func(names ...string) (all []replicator.Member) {
		for i, name := range names {
			all = append(all, replicator.Member{Name: name, Value: i})
		}
		return all
	}
	for _, c := range []struct {
		names []string
		want  string
	}{
		{nil, "[]"},
		{[]string{"a"}, "[{a 0}]"},
		{[]string{"a", "b", "c"}, "[{a 0} {b 1} {c 2}]"},
		{[]string{"c", "", "b"}, "[{ 1} {b 2} {c 0}]"},
		{[]string{"a", "a"}, "[{a 1}]"},
		{[]string{"b", "a", "b", "a", "b"}, "[{a 3} {b 4}]"},
	} {
		o := replicator.MakeObject(members(c.names...))
		if got := fmt.Sprint(o); got != c.want {
			t.Errorf("%q: %s, want %s", c.names, got, c.want)
		}
		last := map[string]any{}
		for i, name := range c.names {
			last[name] = i
		}
		if got := fmt.Sprint(replicator.ObjectOf(last)); got != c.want {
			t.Errorf("the map of %q: %s, want %s", c.names, got, c.want)
		}
		for _, name := range []string{"a", "b", "c", "", "d"} {
			if got := o.Get(name); got != last[name] {
				t.Errorf("%q of %q: %v, want %v", name, c.names, got, last[name])
			}
		}
	}
}
