package main

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

type result struct {
	Stage     string   `json:"stage"`
	What      string   `json:"what"`
	Cells     int      `json:"cells"`
	Seconds   float64  `json:"seconds"`
	PerSecond float64  `json:"per_second"`
	ClientCPU float64  `json:"client_cpu_us"` // µs of CPU time a row, like the next two
	SourceCPU float64  `json:"source_cpu_us"`
	SinkCPU   float64  `json:"sink_cpu_us"`
	PeakBytes int64    `json:"peak_bytes,omitempty"`
	OfRaw     float64  `json:"of_raw,omitempty"` // the program's speed ÷ the speed of the same writes without the program
	Raw       string   `json:"raw,omitempty"`    // the name of the result for the same writes without the program
	Checked   int64    `json:"rows_checked,omitempty"`
	Latency   *latency `json:"latency,omitempty"`
}

// latency is the time from a commit's return until a reader of the sink sees the change.
type latency struct {
	Rate float64 `json:"rate"` // transactions a second that were really written
	quantiles
	Over []second `json:"over_time"` // the quantiles of each second, which show a stall that the overall p99 can hide
}

type second struct {
	At int `json:"second"`
	quantiles
}

// quantiles are quantiles of times in milliseconds.
type quantiles struct {
	Samples int     `json:"samples"`
	P50     float64 `json:"p50_ms"`
	P90     float64 `json:"p90_ms"`
	P99     float64 `json:"p99_ms"`
	Max     float64 `json:"max_ms"`
}

// add completes a result with the resources used, and stores it.
func (l *lab) add(r result, took usage) {
	cells := float64(max(r.Cells, 1))
	micros := func(d time.Duration) float64 { return d.Seconds() * 1e6 / cells }
	r.Seconds = took.wall.Seconds()
	r.PerSecond = cells / r.Seconds
	r.ClientCPU, r.SourceCPU, r.SinkCPU = micros(took.client), micros(took.source), micros(took.sink)
	r.PeakBytes = took.peak
	l.results = append(l.results, r)
}

// seconds returns how long a stage took. It returns 0 if the stage did not run.
func (l *lab) seconds(stage string) float64 {
	for _, r := range l.results {
		if r.Stage == stage {
			return r.Seconds
		}
	}
	return 0
}

type report struct {
	Machine  machine   `json:"machine"`
	Cells    int       `json:"cells"`
	Entities int       `json:"entities"`
	Body     int       `json:"body_bytes"`
	Tx       int       `json:"cells_per_transaction"`
	Servers  []measure `json:"servers"`
}

type measure struct {
	Kind    string   `json:"kind"`
	Version string   `json:"version"`
	Results []result `json:"results"`
	LeftOut []string `json:"left_out,omitempty"` // stages that this machine can't run, and why
}

func (r *report) print(out io.Writer) {
	fmt.Fprintf(out, "\n%s\n", &r.Machine)
	for _, m := range r.Servers {
		fmt.Fprintf(out, "\n%s %s: %s cells of %s entities, bodies of %d bytes, %d cells a transaction\n\n", m.Kind,
			m.Version,
			thousands(int64(r.Cells)), thousands(int64(r.Entities)), r.Body, r.Tx)
		m.print(out)
	}
	fmt.Fprint(out, `
CPU is µs a cell, which is CPU seconds per million. The client is the program; in raw-hset and raw-bulk it is the bench.
Of raw is the program's speed ÷ raw-hset's or raw-bulk's. Every row, hash and document of every view was checked.
`)
}

func (m *measure) print(out io.Writer) {
	lines := [][]string{{"", "cells a second", "client", "source", "sink", "all CPU", "peak MiB", "of raw", ""}}
	for _, r := range m.Results {
		line := []string{
			r.Stage, thousands(int64(r.PerSecond)), rounded(r.ClientCPU), rounded(r.SourceCPU), rounded(r.SinkCPU),
			rounded(r.ClientCPU + r.SourceCPU + r.SinkCPU), "", "", r.What,
		}
		if r.PeakBytes > 0 {
			line[6] = fmt.Sprintf("%.0f", float64(r.PeakBytes)/(1<<20))
		}
		if r.OfRaw > 0 {
			line[7] = fmt.Sprintf("%.2f", r.OfRaw)
		}
		lines = append(lines, line)
	}
	align(out, lines, "<>>>>>>><")
	for _, why := range m.LeftOut {
		fmt.Fprintf(out, "\nleft out: %s\n", why)
	}
	for _, r := range m.Results {
		if d := r.Latency; d != nil {
			fmt.Fprintf(out, "\n%s: commit → visible, %.0f transactions a second, %s samples: p50 %.2f ms, p90 %.2f, p99 %.2f, max %.1f\n"+
				"(the servers' CPU in that line includes the writer's statements and the reader's polls)\n",
				r.Stage, d.Rate, thousands(int64(d.Samples)), d.P50, d.P90, d.P99, d.Max)
			if len(d.Over) > 0 {
				d.print(out)
			}
		}
	}
}

func (d *latency) print(out io.Writer) {
	lines := [][]string{{"second", "samples", "p50", "p90", "p99", "max"}}
	for _, s := range d.Over {
		lines = append(lines, []string{fmt.Sprint(s.At), thousands(int64(s.Samples)), rounded(s.P50), rounded(s.P90),
			rounded(s.P99), rounded(s.Max)})
	}
	fmt.Fprintln(out)
	align(out, lines, ">>>>>>")
}

func rounded(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.1f", v)
}

// align writes lines as aligned columns. sides gives the alignment of each column.
func align(out io.Writer, lines [][]string, sides string) {
	widths := make([]int, len(sides))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, line := range lines {
		var b strings.Builder
		for i, cell := range line {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if sides[i] == '>' {
				b.WriteString(pad + cell)
			} else {
				b.WriteString(cell + pad)
			}
			b.WriteString("  ")
		}
		fmt.Fprintln(out, strings.TrimRight(b.String(), " "))
	}
}
