package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAPictureShowsEveryStageCurveAndSecond(t *testing.T) {
	r := report{Cells: 10_000, Machine: machine{CPU: "<any> & all"}, Servers: []measure{{Kind: "mysql", Version: "9.7.4",
		Results: []result{
			{Stage: "distinct-mysql", ClientCPU: 12.5, SourceCPU: 1, SinkCPU: 50, PerSecond: 26_100},
			{Stage: "latency", Latency: &latency{Rate: 1000, Over: []second{
				{At: 0, quantiles: quantiles{P50: 1, P90: 2, P99: 3, Max: 4}},
				{At: 1, quantiles: quantiles{P50: 1, P90: 2, P99: 738, Max: 914}}}}},
			{Stage: "growth-cells-10000", Curve: "cells", At: 10_000, ClientCPU: 10, SinkCPU: 20, PeakBytes: 50 << 20},
			{Stage: "growth-cells-30000", Curve: "cells", At: 30_000, ClientCPU: 11, SinkCPU: 30, PeakBytes: 60 << 20},
			{Stage: "growth-views-1", Curve: "views", At: 1}, // one point, and nothing measured
		}}}}
	dir := t.TempDir()
	figures, svg := filepath.Join(dir, "bench.json"), filepath.Join(dir, "bench.svg")
	if err := errors.Join(writeJSON(figures, r), draw([]string{figures, svg})); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(svg)
	if err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(strings.NewReader(string(text)))
	for {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
	}
	for _, want := range []string{"distinct-mysql", "12.5 + 1.0 + 50.0, 26,100 a second", "by the second", ">914<",
		"CPU µs a cell, by number of cells", "peak memory of the program, MiB, by number of cells", ">30,000<",
		"by number of views"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
	for _, bad := range []string{"NaN", "Inf", "growth-cells"} {
		if strings.Contains(string(text), bad) {
			t.Errorf("there is %s in\n%s", bad, text)
		}
	}
}

func TestDrawSaysWhatItNeeds(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for problem, args := range map[string][]string{
		"give the file":            {"one"},
		"no such file":             {empty + "2", "b"},
		"is not what -json writes": {empty, "b"},
	} {
		if err := draw(args); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("draw %q: %v; it should say %q", args, err, problem)
		}
	}
}
