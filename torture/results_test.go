package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTheReportCountsWhatWasReallyRun(t *testing.T) {
	name := filepath.Join(t.TempDir(), "results")
	at := time.Date(2026, 11, 23, 1, 2, 3, 0, time.UTC)
	servers := map[string]string{"source": "MySQL 9.7.4", "Redis sink": "Valkey 9.1.2"}
	for i, r := range []result{
		{Faults: []string{"kill", "flush", "kill"}, Settled: 0.5},
		{Faults: []string{"kill"}, Settled: 2},
		{Faults: []string{"kill"}, Wrong: []string{"an entry"}},
		{Faults: []string{"flush"}, Wrong: []string{"a view"}, Stuck: true},
		{Faults: []string{"kill"}, Harness: "no answer"},
	} {
		r.Seed, r.At, r.Servers, r.Layout, r.Took = uint64(7+i), at, servers, "store file", 4
		if err := r.keep(name); err != nil {
			t.Fatal(err)
		}
	}
	all, err := readResults([]string{name})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	printReport(&b, all)
	for _, want := range []string{
		"4 runs of 4.0 s on average, of which setup took 0.0 s (seeds 7–10; 2026-11-23 to 2026-11-23): 1 wrong, 1 stuck.",
		"Further runs in which the harness failed: 1.\n\n- 11: no answer\n",
		"| Valkey 9.1.2 | Redis sink | 4 | 1 | 1 | 0.5 | 2.0 | 2.0 | 2.0 |\n",
		"| kill | 3 | 1 | 0 | 0.5 | 2.0 | 2.0 | 2.0 |\n",
		"| flush | 2 | 0 | 1 | 0.5 | 0.5 | 0.5 | 0.5 |\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the report does not say %q:\n%s", want, b.String())
		}
	}
}
