package elastic_test

import (
	"fmt"
	"testing"
)

func TestWhatAnEndedViewLeftIsItsIndexes(t *testing.T) {
	b, other := newBench(t, ""), newBench(t, "")
	b.apply(op(cellOf(t, "users", 1), 5, "one", nil), op(cellOf(t, "users", 2), 5, "two", nil))
	other.apply(op(cellOf(t, "users", 1), 5, "one", nil))
	b.do("POST", "/"+indexOf(b.view)+"-r1/_refresh", "")
	sink := b.sink
	left, err := sink.Left(t.Context(), b.view.Name)
	if want := "[{index " + indexOf(b.view) + "-r1 2 documents}]"; err != nil || fmt.Sprint(left) != want {
		t.Errorf("%v, %v, not %s", left, err, want)
	}
	if err := sink.Empty(t.Context(), b.view.Name); err != nil {
		t.Fatal(err)
	}
	if n, m := len(b.indexes(indexOf(b.view))), len(other.indexes(indexOf(other.view))); n != 0 || m != 1 {
		t.Errorf("%d indexes of the view are left, and %d of another one", n, m)
	}
	if left, err := sink.Left(t.Context(), b.view.Name); err != nil || len(left) > 0 {
		t.Errorf("%v, %v are left", left, err)
	}
}
