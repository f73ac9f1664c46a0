package canal

import (
	"fmt"
	"slices"
	"testing"

	"replicator"
	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// A key of several columns has several spellings if one of its text columns has. Such a key is also found if it has no
// row itself, but another spelling of it has.
func TestKeysThatTheSourceHoldsInSeveralSpellingsAreFound(t *testing.T) {
	servertest.Each(t, func(t *testing.T, s *servers.Server) {
		b := newBench(t, s)
		b.exec("CREATE TABLE x (id INT PRIMARY KEY AUTO_INCREMENT, n INT NOT NULL, k VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_swedish_ci NOT NULL, "+
			"c CHAR(5) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, v INT NOT NULL, UNIQUE(n, k, c, v))",
			"CREATE TABLE y (id INT PRIMARY KEY AUTO_INCREMENT, k CHAR(20) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL, v INT NOT NULL, UNIQUE(k, v))",
			"CREATE TABLE z (k VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, v INT NOT NULL)")
		src := b.source(replicator.Table{Name: "x", Key: []string{"n", "k"}, Column: "c", Version: "v"},
			replicator.Table{Name: "y", Key: []string{"k"}, Version: "v"},
			replicator.Table{Name: "z", Key: []string{"k"}, Version: "v"})
		r := b.open(src, b.latest(src))
		for table, want := range map[string]bool{"x": true, "y": false, "z": false} {
			if got := r.MixesSpellings(table); got != want {
				t.Errorf("table %s mixes spellings: %t", table, got)
			}
		}
		b.exec("INSERT INTO x(n, k, c, v) VALUES (1, 'ab', 'p', 1), (1, 'AB', 'p', 2), (1, 'ab ', 'q', 1), (2, 'ab', 'p', 1), (3, 'É', 'p', 1), (4, 'é', 'p', 1)")
		key := func(n int64, k string) replicator.Key {
			key, err := replicator.MakeKey(n, k)
			if err != nil {
				t.Fatal(err)
			}
			return key
		}
		asked := []replicator.Key{key(1, "ab"), key(2, "ab"), key(3, "é"), key(4, "é"), key(5, "ab")}
		mixed, err := r.Spellings(testContext(t), "x", asked)
		if err != nil {
			t.Fatal(err)
		}
		var got [][]string
		for _, cells := range mixed {
			var some []string
			for _, c := range cells {
				some = append(some, fmt.Sprintf("%q", c.String()))
			}
			slices.Sort(some)
			got = append(got, slices.Compact(some))
		}
		want := [][]string{{`"x.p 1:AB"`, `"x.p 1:ab"`, `"x.q 1:ab "`, `"x.q 1:ab"`}, {`"x.p 3:É"`, `"x.p 3:é"`}}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("found %v, want %v", got, want)
		}
		cells := []replicator.Cell{{Table: "x", Key: key(1, "ab"), Column: "p"}, {Table: "x", Key: key(1, "AB"), Column: "p"},
			{Table: "x", Key: key(3, "é"), Column: "p"}}
		rows, _, err := r.Newest(testContext(t), cells, 0)
		if err != nil || rows[0] != nil || rows[1] == nil || rows[1].Version != 2 || rows[2] != nil {
			t.Errorf("the newest rows: %+v, %v", rows, err)
		}
	})
}
