package nearest

import "testing"

func TestDistanceCountsInsertionsRemovalsReplacementsAndSwaps(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"main", "mian", 1}, {"fields", "field", 1}, {"kitten", "sitting", 3}, {"ab", "ba", 1}} {
		if got := letters(c.a, c.b); got != c.want {
			t.Errorf("%q and %q: %d, not %d", c.a, c.b, got, c.want)
		}
	}
}

func TestTheNearestWord(t *testing.T) {
	words := []string{"index", "row", "counter"}
	for written, want := range map[string]string{"INDX": "index", "cuonter": "counter", "row": "row"} {
		if got, _ := Word(written, words); got != want {
			t.Errorf("%q is taken for %q, not %q", written, got, want)
		}
	}
	if got, distance := Word("x", nil); got != "" || distance != 0 {
		t.Errorf("of no words the nearest is %q", got)
	}
}

func TestOnlyAWordThatIsNearIsMeant(t *testing.T) {
	words := []string{"full_name", "email", "address.city", "x"}
	for written, want := range map[string]string{"fullname": `: did you mean "full_name"?`, "adress.city": `: did you mean "address.city"?`,
		"phone": "", "email": "", "y": ""} {
		if got := Close(written, words); got != want {
			t.Errorf("%q: %q, not %q", written, got, want)
		}
	}
}
