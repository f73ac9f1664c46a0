package main

import (
	"testing"

	"replicator/internal/servers"
)

// What the topic and the hashes hold is compared in full. No figure is looked at.
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
