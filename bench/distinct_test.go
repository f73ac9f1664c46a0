package main

import (
	"testing"

	"replicator/internal/servers"
)

func TestDistinctCellsEndAsTheWorkloadSaysInEveryPhase(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program and runs it eight times")
	}
	const cells = 300
	l := quickLab(t, servers.MySQL, built(t), "-only", "distinct", "-cells", "300")
	if err := l.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{}
	for phase := range distinctPhases {
		want[phase.String()+"-mysql"] = cells
		want[phase.String()+"-redis"] = 2 * cells // a hash and an index entry of each
	}
	checkRows(t, l, want)
	for _, r := range l.results {
		if r.ClientCPU <= 0 || r.PeakBytes == 0 || r.Units != cells {
			t.Errorf("%s has no CPU time, no memory or not all cells: %+v", r.Stage, r)
		}
	}
}

func TestPhasesOfDistinctCellsDifferInWhatTheySay(t *testing.T) {
	w := &workload{entities: 10, body: 250, begin: 1, order: phased}
	at := func(p distinctPhase, i int) cell { return w.at(int(p)*w.entities + i) }
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
