package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"replicator/internal/servers"
	"replicator/internal/servers/servertest"
)

// A turn fails if the sink differs from the workload. If another program can't run, this is part of the result.
func TestProgramsTakeTurnsAtTheSameCells(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program and runs it four times")
	}
	t.Parallel()
	broken := filepath.Join(t.TempDir(), "transfer")
	if err := os.WriteFile(broken, []byte("#!/bin/sh\necho no disk >&2\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	o, err := parsePeers([]string{"-runs", "1", "-cells", "1000", "-go-mysql-transfer", broken,
		"-only", "replicator,replicator-hash,transfer-copy"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	err = peers(t.Context(), o, built(t), &out, io.Discard)
	if missing := (*servers.MissingError)(nil); errors.As(err, &missing) {
		servertest.Unavailable(t, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| w1 | replicator: hash and index, versions | 1 of 1 | ",
		"| w2 | replicator-hash: hash, versions | 1 of 1 | ",
		"index entries, each as it should be |",
		"| w1 | transfer-copy: a copy of each row | 0 of 1 | failed: ",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in\n%s", want, out.String())
		}
	}
}

func TestTheMedianOfTurnsStandsBesideOurs(t *testing.T) {
	var r campaign
	for i, cpu := range []float64{5, 7, 6} {
		r.Turns = append(r.Turns,
			turn{Task: "w1", Program: "replicator", Round: i + 1, Cells: 100, Seconds: 0.01, CPU: cpu},
			turn{Task: "w1", Program: "debezium", Round: i + 1, Cells: 100, Seconds: 0.1, CPU: 4 * cpu, WarmCPU: 2 * cpu,
				Holds: "100 changes"})
	}
	r.Turns = append(r.Turns, turn{Task: "w1", Program: "debezium", Round: 4, Failed: "it ended\nand said much"})
	got := strings.Join(r.lines(), "\n")
	want := "| w1 | replicator: hash and index, versions | 3 of 3 | 10,000 | 6.0 | 1.00 | 0.0 | 0 |  |\n" +
		"| w1 | debezium: a log of changes | 3 of 4 | 1,000 | 24.0 (12.0) | 4.00 | 0.0 | 0 | 100 changes |"
	if got != want {
		t.Errorf("the lines are\n%s\nnot\n%s", got, want)
	}
}

func TestFlagsOfPeers(t *testing.T) {
	for args, wrong := range map[string]string{
		"":                  "",
		"-only debezium":    "",
		"-only maxwell":     `unknown program "maxwell"`,
		"-server redis-7":   "no binlog",
		"-runs 0":           "-runs must be",
		"now":               "besides flags",
		"-server mysql":     "",
		"-cells 4":          "-cells at least 5",
		"-only replicator,": `unknown program ""`,
	} {
		_, err := parsePeers(strings.Fields(args), io.Discard)
		if wrong == "" && err != nil || wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)) {
			t.Errorf("%q: %v; it should say %q", args, err, wrong)
		}
	}
}
