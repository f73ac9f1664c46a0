package main

import (
	"testing"

	"replicator/internal/servers"
)

// The stage compares the whole topic and all hashes with the workload. The test ignores the figures.
func TestEveryCellGoesThroughKafka(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program, starts five servers, and runs it twice")
	}
	t.Parallel()
	l := quickLab(t, servers.MySQL, linked(t), "-only", "kafka")
	if err := l.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkRows(t, l, map[string]int{"publish": 1000, "member": 1000})
}
