package main

import (
	"fmt"
	"testing"

	"replicator/internal/servers"
)

// Both stages use the same sink, so the rest of one stage must not disturb the other.
func TestDistinctCellsAndGrowthEndAsTheWorkloadSays(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program and runs it twenty-one times")
	}
	t.Parallel()
	const cells = 400
	l := quickLab(t, servers.MySQL, linked(t), "-only", "distinct,growth", "-cells", fmt.Sprint(cells))
	if err := l.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"growth-cells-400": cells}
	for _, phase := range phaseNames {
		want[phase+"-mysql"] = cells
		want[phase+"-redis"] = 2 * cells // a hash and an index entry of each
	}
	for _, views := range []int{1, 2, 5, 10, 20, 50} {
		want[fmt.Sprintf("growth-views-%d", views)] = views * cells / 20
	}
	for _, body := range []int{100, 250, 1000, 4000, 16_000, 65_535} {
		want[fmt.Sprintf("growth-body-%d", body)] = cells / 10
	}
	checkRows(t, l, want)
	if len(l.results) != len(want) {
		t.Errorf("%d figures, not %d", len(l.results), len(want))
	}
	for _, r := range l.results {
		if r.ClientCPU <= 0 || r.PeakBytes == 0 {
			t.Errorf("%s has no CPU time or no memory: %+v", r.Stage, r)
		}
	}
}

func TestOneCurveAloneCanGrow(t *testing.T) {
	for curve, want := range map[string]int{"cells": 7, "views": 6, "body": 6, "": 19} {
		points := options{cells: 10_000_000, body: 250, curve: curve}.points()
		if len(points) != want {
			t.Errorf("curve %q has %d points, not %d", curve, len(points), want)
		}
		for _, p := range points {
			if curve != "" && p.curve != curve {
				t.Errorf("curve %q has %+v", curve, p)
			}
		}
	}
}

func TestPhasesOfDistinctCellsDifferInWhatTheySay(t *testing.T) {
	w := &workload{entities: 10, body: 250, begin: 1, order: phased}
	at := func(phase, i int) cell { return w.at(phase*w.entities + i) }
	for i := range w.entities {
		first, moved, unchanged, hot := at(newPhase, i), at(movedPhase, i), at(unchangedPhase, i), at(hotPhase, i)
		if first.entity != i || moved.entity != i || unchanged.entity != i || hot.entity != 0 {
			t.Errorf("cell %d is of entity %d, then %d, %d, %d", i, first.entity, moved.entity, unchanged.entity, hot.entity)
		}
		if first.ref >= moved.ref || moved.ref >= unchanged.ref || unchanged.ref >= hot.ref {
			t.Errorf("cell %d: versions don't rise", i)
		}
		if w.user(first).email == w.user(moved).email || w.user(moved) != w.user(unchanged) {
			t.Errorf("cell %d: %+v, moved %+v, unchanged %+v", i, w.user(first), w.user(moved), w.user(unchanged))
		}
	}
}
