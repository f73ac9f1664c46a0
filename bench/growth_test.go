package main

import (
	"fmt"
	"testing"

	"replicator/internal/servers"
)

func TestGrowthMeasuresEveryPointOfItsCurves(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program and runs it thirteen times")
	}
	const cells = 400
	l := quickLab(t, servers.MySQL, built(t), "-only", "growth", "-cells", fmt.Sprint(cells))
	if err := l.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"growth-cells-400": cells}
	for _, views := range []int{1, 2, 5, 10, 20, 50} {
		want[fmt.Sprintf("growth-views-%d", views)] = views * cells / 20
	}
	for _, body := range []int{100, 250, 1000, 4000, 16_000, 65_535} {
		want[fmt.Sprintf("growth-body-%d", body)] = cells / 10
	}
	checkRows(t, l, want)
	if len(l.results) != len(want) {
		t.Errorf("%d points are measured, not %d", len(l.results), len(want))
	}
}
