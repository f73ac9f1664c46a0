package main

import (
	"testing"
	"time"

	"replicator/internal/servers"
)

// A stall of one second must show in that second's figures.
func TestLatencyOverTimeShowsAStall(t *testing.T) {
	const rate, seconds, stalled = 100, 5, 3
	v := newLive(options{rate: rate, seconds: seconds, entities: 10}, liveDatabase)
	v.addReader("a sink", nil)
	s := v.sights[0]
	for n := range v.total() {
		v.commits[n] = time.Duration(n) * time.Second / rate
		s.seen[n] = v.commits[n] + 2*time.Millisecond
		if n == v.warm+stalled*rate+50 {
			s.seen[n] += 700 * time.Millisecond
		}
	}
	v.commits[v.warm], v.commits[v.warm+1] = v.commits[v.warm+1], v.commits[v.warm] // writers overtake each other
	v.finished = v.commits[v.total()-1]
	d := v.latency(s)
	if d.Samples != rate*seconds || len(d.Over) != seconds {
		t.Fatalf("%d samples in %d seconds: %+v", d.Samples, len(d.Over), d)
	}
	for i, second := range d.Over {
		if second.At != i || second.Samples != rate || (second.Max > 700) != (i == stalled) {
			t.Errorf("second %d: %+v", i, second)
		}
	}
}

// The stage compares every row of the measured sink. Trouble in the other sink must not keep rows away from it.
func TestASinkInTroubleLeavesTheOtherAtWork(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program and runs it eight times")
	}
	t.Parallel()
	l := quickLab(t, servers.MySQL, linked(t), "-only", "isolation", "-rate", "50")
	if err := l.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{}
	for _, trouble := range []string{"well", "down", "hanging", "spoiled"} {
		want["isolation-mysql-"+trouble], want["isolation-redis-"+trouble] = 100, 100
	}
	checkRows(t, l, want)
}

// The stage compares each order with the result of the join.
func TestAViewWithJoinsIsMeasuredAndRight(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program and runs it for each figure")
	}
	t.Parallel()
	l := quickLab(t, servers.MySQL, linked(t), "-only", "joins", "-rate", "50")
	if err := l.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{}
	for _, stage := range []string{"fill", "orders", "items", "customers", "beside", "fan-out", "naive"} {
		want["joins-"+stage] = l.entities
	}
	checkRows(t, l, want)
}

func TestEachRowImageIsMeasuredAndRight(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program and runs it for each figure")
	}
	t.Parallel()
	l := quickLab(t, servers.MySQL, linked(t), "-only", "images")
	if err := l.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{}
	for _, image := range []string{"full", "noblob", "minimal"} {
		want["images-"+image+"-body"], want["images-"+image+"-column"] = l.entities, l.entities
	}
	checkRows(t, l, want)
}

// Each rebuild is one sample, and both views are right after the last one.
func TestTheWaitForASwapIsMeasured(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program and runs it for some seconds")
	}
	t.Parallel()
	l := quickLab(t, servers.MySQL, linked(t), "-only", "swaps", "-rate", "50")
	if err := l.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkRows(t, l, map[string]int{"swaps-rebuilt": 100, "swaps-beside": 100})
	for _, r := range l.results {
		if r.Latency == nil || r.Latency.Samples == 0 {
			t.Errorf("%s: no rebuild was measured", r.Stage)
		}
	}
}
