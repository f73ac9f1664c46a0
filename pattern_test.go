package replicator

import "testing"

func TestAPatternStandsForTheTablesThatMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"orders_*", "orders_1", true},
		{"orders_*", "orders_", true},
		{"orders_*", "orders", false},
		{"orders_?", "orders_12", false},
		{"orders_??", "orders_12", true},
		{"*_old", "a_old_old", true},
		{"*_old", "a_old_new", false},
		{"a*b*c", "abcbc", true},
		{"a*b*c", "acb", false},
		{"[ab]*", "a1", false},
		{"[ab]*", "[ab]1", true},
		{"?", "ü", true},
		{"*", "", true},
		{"plain", "plain", true},
	} {
		table := Table{Database: "shop", Table: c.pattern}
		if got := table.Matches("shop", c.name); got != c.want {
			t.Errorf("%q matches %q: %t", c.pattern, c.name, got)
		}
		if table.Matches("shop2", c.name) {
			t.Errorf("%q matches %q in another database", c.pattern, c.name)
		}
	}
}
