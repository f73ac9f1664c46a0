package service

import (
	"errors"
	"testing"
	"time"

	"replicator"
	"replicator/server"
)

func TestDeadLettersAreGroupedByWhatIsWrongWithThem(t *testing.T) {
	l, _ := keeping("main", "", "emails", "phones")
	s := serving(t, configured(t, cellViews), l)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i, letter := range []struct{ view, key, reason string }{
		{"emails", "a", `field "email": 300 characters, VARCHAR(255) holds 255`},
		{"phones", "a", `field "email": 300 characters, VARCHAR(255) holds 255`},
		{"emails", "b", `field "email": 1200 characters, VARCHAR(255) holds 255`},
		{"emails", "c", "the body is no JSON"},
	} {
		key, err := replicator.MakeKey(letter.key)
		if err != nil {
			t.Fatal(err)
		}
		err = s.store.Bury(t.Context(), []replicator.DeadLetter{{View: letter.view, Reason: letter.reason,
			Cell: replicator.Cell{Table: "cell", Column: "users", Key: key}, Time: at.Add(time.Duration(i) * time.Hour)}})
		if err != nil {
			t.Fatal(err)
		}
	}
	groups, err := s.LetterGroups(t.Context(), "")
	if err != nil || len(groups) != 3 {
		t.Fatalf("%+v, %v", groups, err)
	}
	first := groups[0]
	if first.View != "emails" || first.Letters != 2 || first.Table != "cell" || !first.First.Equal(at) ||
		!first.Last.Equal(at.Add(2*time.Hour)) {
		t.Errorf("%+v", first)
	}
	example, err := s.Letter(t.Context(), first.Example)
	if err != nil || example.Cell.Key.String() != "a" || example.Reason != first.Reason {
		t.Errorf("the example is %+v, %v", example, err)
	}
	if _, err := s.Letter(t.Context(), "nobody"); !errors.Is(err, server.ErrUnknown) {
		t.Errorf("one that is not there: %v", err)
	}
	if n, err := s.Drop(t.Context(), server.Selection{Group: first.Group}); err != nil || n != 2 {
		t.Errorf("%d dropped, %v", n, err)
	}
	if groups, err = s.LetterGroups(t.Context(), "phones"); err != nil || len(groups) != 1 {
		t.Errorf("of one view: %+v, %v", groups, err)
	}
}
