package elastic_test

import (
	"strings"
	"testing"

	"replicator"
)

func TestDocumentsOfNoCellAreFoundAndRemovedAndNothingElseIs(t *testing.T) {
	b := newBench(t, `{"dynamic": false}`)
	gone := cellOf(t, "users", 3)
	b.apply(op(cellOf(t, "users", 1), 1, "a", nil), op(cellOf(t, "users", 2), 1, "b", nil), op(gone, 1, "c", nil))
	b.apply(reset(gone, replicator.NoVersion, 5))
	b.do("PUT", "/"+indexOf(b.view)+"-r1/_doc/ghost", `{"name": "by hand"}`)
	b.do("PUT", "/"+indexOf(b.view)+"-r1/_doc/a%2Fb%20c?routing=r%26r", `{"name": "by hand"}`)
	b.do("PUT", "/"+indexOf(b.view)+"-r1/_doc/2", `{"name": "in a cell's place"}`)

	tidier := b.target.(replicator.Tidier)
	look := func() (found []replicator.Stray, names string) {
		t.Helper()
		for after := ""; ; {
			some, next, err := tidier.Strays(t.Context(), 0, after, 2)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range some {
				names += s.Name + ","
			}
			found = append(found, some...)
			if after = next; after == "" {
				return found, names
			}
		}
	}
	found, names := look()
	if len(found) != 3 || !strings.Contains(names, "ghost,") || !strings.Contains(names, "a/b c,") ||
		!strings.Contains(names, "2,") {
		t.Fatalf("strays are %s", names)
	}
	b.apply(op(cellOf(t, "users", 2), 2, "b", nil)) // the cell's document replaces the stray
	if removed, err := tidier.Tidy(t.Context(), 0, found); err != nil || removed != 2 {
		t.Errorf("%d were removed, %v", removed, err)
	}
	if found, names := look(); len(found) > 0 {
		t.Errorf("there are still %s", names)
	}
	b.shows("1", `{"name":"a"`)
	b.shows("2", `{"name":"b"`)
	if got := len(b.search(indexOf(b.view))); got != 2 {
		t.Errorf("%d documents are left", got)
	}
}
