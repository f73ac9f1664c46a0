package gtid

import (
	"math/rand/v2"
	"strings"
	"testing"
)

const (
	uuidA = "11111111-2222-3333-4444-555555555555"
	uuidB = "11111111-2222-3333-4444-666666666666"
)

func TestSetsAreReadAndWritten(t *testing.T) {
	cases := []struct {
		flavor   Flavor
		in, want string // want "error": Parse fails
	}{
		{MySQL, uuidA + ":1-3:5", uuidA + ":1-3:5"},
		{MySQL, strings.ToUpper(uuidA) + ":5:1-3:4,\n" + uuidB + ":7", uuidA + ":1-5," + uuidB + ":7"},
		{MySQL, uuidA + ":1-3:tag:1-2:other:9", uuidA + ":1-3," + uuidA + ":other:9," + uuidA + ":tag:1-2"},
		{MySQL, uuidA + ":tag:4", uuidA + ":tag:4"},
		{MySQL, "", ""},
		{MySQL, uuidA, "error"},
		{MySQL, uuidA + ":", "error"},
		{MySQL, uuidA + ":3-1", "error"},
		{MySQL, "0-1-2", "error"},
		{MariaDB, "0-1-100,10-2-3,2-1-1", "0-1-100,2-1-1,10-2-3"},
		{MariaDB, "0-1", "error"},
		{MariaDB, uuidA + ":1", "error"},
		{MariaDB, "a-b-1", "error"},
	}
	for _, c := range cases {
		s, err := Parse(c.flavor, c.in)
		got := "error"
		if err == nil {
			got = s.String()
		}
		if got != c.want {
			t.Errorf("%q: %q, want %q", c.in, got, c.want)
		}
	}
}

func TestSetsAgreeWithAModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		sets := [2]*Set{New(MySQL), New(MySQL)}
		var model [2]map[int64]bool
		for i := range sets {
			model[i] = map[int64]bool{}
			for range rng.IntN(30) {
				r := Run{First: 1 + rng.Int64N(60)}
				r.Last = r.First + rng.Int64N(4)
				sets[i].Add(uuidA, r)
				for n := r.First; n <= r.Last; n++ {
					model[i][n] = true
				}
			}
			back, err := Parse(MySQL, sets[i].String())
			if err != nil || !back.Equal(sets[i]) {
				t.Fatalf("%s does not come back: %v", sets[i], err)
			}
		}
		includes := true
		both := sets[0].Intersect(sets[1])
		for n := int64(0); n < 70; n++ {
			if sets[0].Contains(uuidA, n) != model[0][n] {
				t.Fatalf("%s contains %d: %t", sets[0], n, !model[0][n])
			}
			if both.Contains(uuidA, n) != (model[0][n] && model[1][n]) {
				t.Fatalf("%s and %s meet in %s", sets[0], sets[1], both)
			}
			includes = includes && (model[0][n] || !model[1][n])
		}
		if sets[0].Includes(sets[1]) != includes {
			t.Fatalf("%s includes %s: %t", sets[0], sets[1], !includes)
		}
	}
}

func FuzzSet(f *testing.F) {
	f.Add(uuidA+":1-3:tag:5,"+uuidB+":9", false)
	f.Add("0-1-2,3-4-5", true)
	f.Fuzz(func(t *testing.T, text string, maria bool) {
		fl := MySQL
		if maria {
			fl = MariaDB
		}
		s, err := Parse(fl, text)
		if err != nil {
			return
		}
		again, err := Parse(fl, s.String())
		if err != nil || !again.Equal(s) || again.String() != s.String() {
			t.Errorf("%q reads as %q, then as %v (%v)", text, s, again, err)
		}
	})
}
