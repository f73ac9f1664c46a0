package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
)

// draw makes a picture of the figures that -json wrote: "draw FIGURES.json PICTURE.svg".
func draw(args []string) error {
	if len(args) != 2 {
		return errors.New("draw: give the file that -json wrote, and the SVG file to write")
	}
	text, err := os.ReadFile(args[0])
	if err != nil {
		return fmt.Errorf("draw: %w", err)
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		return fmt.Errorf("draw: %s is not what -json writes: %w", args[0], err)
	}
	var out bytes.Buffer
	r.draw(&out)
	return os.WriteFile(args[1], out.Bytes(), 0o644)
}

// The measures of a picture, in pixels.
const (
	drawWidth  = 980
	leftOfPlot = 210 // room for names and for figures of an axis
	plotWidth  = 560
	plotHeight = 180
	barHeight  = 18
	gap        = 62 // room for a heading and the names of an axis
)

// The colours are told apart without seeing red and green as two.
var colours = []string{"#0072b2", "#e69f00", "#009e73", "#cc79a7"}

// picture is an SVG that grows downwards.
type picture struct {
	body bytes.Buffer
	y    float64 // where the next panel begins
}

// series is one line of a plot.
type series struct {
	name string
	x, y []float64
}

// draw writes the SVG: for each kind of server the CPU time of every stage, the latency over time and the growth
// curves.
func (r *report) draw(out io.Writer) {
	p := &picture{y: 28}
	p.text(10, p.y, "start", 16, "replicator: make bench")
	p.y += 20
	p.text(10, p.y, "start", 11, r.Machine.String())
	for _, m := range r.Servers {
		p.y += 34
		p.text(10, p.y, "start", 14, fmt.Sprintf("%s %s, %s cells, bodies of %d bytes", m.Kind, m.Version,
			thousands(int64(r.Cells)), r.Body))
		m.draw(p)
	}
	fmt.Fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" font-family=\"sans-serif\">\n"+
		"<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n", drawWidth, p.y+30)
	out.Write(p.body.Bytes())
	fmt.Fprintln(out, "</svg>")
}

func (m *measure) draw(p *picture) {
	p.bars(slices.DeleteFunc(slices.Clone(m.Results), func(r result) bool { return r.Curve != "" }))
	for _, r := range m.Results {
		if r.Latency != nil {
			p.latency(r)
		}
	}
	for _, curve := range m.curves() {
		p.growth(curve, slices.DeleteFunc(slices.Clone(m.Results), func(r result) bool { return r.Curve != curve }))
	}
}

// curves are the names of the growth curves, in order.
func (m *measure) curves() []string {
	var names []string
	for _, r := range m.Results {
		if r.Curve != "" && !slices.Contains(names, r.Curve) {
			names = append(names, r.Curve)
		}
	}
	return names
}

// bars shows what a unit costs in each stage: the client's CPU time, then the source's and the sink's.
func (p *picture) bars(results []result) {
	if len(results) == 0 {
		return
	}
	p.heading("CPU µs a cell or row", []string{"client", "source", "sink"})
	most := 1e-9
	for _, r := range results {
		most = max(most, r.ClientCPU+r.SourceCPU+r.SinkCPU)
	}
	for _, r := range results {
		p.text(leftOfPlot-8, p.y+13, "end", 11, r.Stage)
		x := float64(leftOfPlot)
		for i, v := range []float64{r.ClientCPU, r.SourceCPU, r.SinkCPU} {
			width := v / most * plotWidth
			p.printf("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>\n", x, p.y, width, barHeight-4,
				colours[i])
			x += width
		}
		p.text(x+5, p.y+12, "start", 10, fmt.Sprintf("%s + %s + %s, %s a second", micro(r.ClientCPU), micro(r.SourceCPU),
			micro(r.SinkCPU), thousands(int64(r.PerSecond))))
		p.y += barHeight
	}
}

// latency shows the quantiles of each second.
func (p *picture) latency(r result) {
	d := r.Latency
	lines := []series{{name: "p50"}, {name: "p90"}, {name: "p99"}, {name: "max"}}
	for _, s := range d.Over {
		for i, v := range []float64{s.P50, s.P90, s.P99, s.Max} {
			lines[i].x, lines[i].y = append(lines[i].x, float64(s.At)), append(lines[i].y, v)
		}
	}
	p.plot(fmt.Sprintf("%s: commit → visible, ms, at %.0f transactions a second, by the second", r.Stage, d.Rate), lines, linear)
}

// growth shows what a cell costs as something grows, and the memory that the program had.
func (p *picture) growth(curve string, results []result) {
	what := map[string]string{"cells": "number of cells", "views": "number of views", "body": "bytes of a body"}
	costs := []series{{name: "client"}, {name: "sink"}}
	memory := []series{{name: "peak"}}
	slices.SortFunc(results, func(a, b result) int { return cmp.Compare(a.At, b.At) })
	for _, r := range results {
		for i, v := range []float64{r.ClientCPU, r.SinkCPU} {
			costs[i].x, costs[i].y = append(costs[i].x, float64(r.At)), append(costs[i].y, v)
		}
		memory[0].x, memory[0].y = append(memory[0].x, float64(r.At)), append(memory[0].y, float64(r.PeakBytes)/(1<<20))
	}
	name := cmp.Or(what[curve], curve)
	p.plot("CPU µs a cell, by "+name, costs, logarithmic)
	p.plot("peak memory of the program, MiB, by "+name, memory, logarithmic)
}

// scale says where a value stands on an axis.
type scale func(v float64) float64

func linear(v float64) float64      { return v }
func logarithmic(v float64) float64 { return math.Log10(max(v, 1e-3)) }

// plot draws lines over an axis of the given scale. What is measured stands on a linear axis that begins at 0.
func (p *picture) plot(title string, lines []series, across scale) {
	var xs []float64
	top := 1e-9
	names := make([]string, len(lines))
	for i, s := range lines {
		xs, names[i] = append(xs, s.x...), s.name
		for _, v := range s.y {
			top = max(top, v)
		}
	}
	if len(xs) == 0 {
		return
	}
	p.heading(title, names)
	slices.Sort(xs)
	xs = slices.Compact(xs)
	first, width := across(xs[0]), max(across(xs[len(xs)-1])-across(xs[0]), 1e-9)
	x := func(v float64) float64 { return leftOfPlot + (across(v)-first)/width*plotWidth }
	y := func(v float64) float64 { return p.y + plotHeight - v/top*plotHeight }
	for _, share := range []float64{0, 0.5, 1} {
		p.printf("<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n", leftOfPlot, leftOfPlot+plotWidth,
			y(share*top), y(share*top))
		p.text(leftOfPlot-8, y(share*top)+4, "end", 10, micro(share*top))
	}
	every := (len(xs) + 9) / 10 // as many figures as have room
	for i := 0; i < len(xs); i += every {
		p.text(x(xs[i]), p.y+plotHeight+14, "middle", 10, thousands(int64(xs[i])))
	}
	for i, s := range lines {
		var points strings.Builder
		for j := range s.x {
			fmt.Fprintf(&points, "%.1f,%.1f ", x(s.x[j]), y(s.y[j]))
			p.printf("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2\" fill=\"%s\"/>\n", x(s.x[j]), y(s.y[j]), colours[i])
		}
		p.printf("<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\"/>\n",
			strings.TrimSpace(points.String()),
			colours[i])
	}
	p.y += plotHeight + 16
}

// heading begins a panel, and says which colour is what.
func (p *picture) heading(title string, names []string) {
	p.y += gap - 16
	p.text(10, p.y-8, "start", 12, title)
	x := float64(leftOfPlot + plotWidth - 70*len(names) + 70)
	for i, name := range names {
		p.printf("<rect x=\"%.1f\" y=\"%.1f\" width=\"10\" height=\"10\" fill=\"%s\"/>\n", x, p.y-17, colours[i])
		p.text(x+14, p.y-8, "start", 11, name)
		x += 70
	}
}

func (p *picture) text(x, y float64, anchor string, size int, text string) {
	p.printf("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" font-size=\"%d\">", x, y, anchor, size)
	_ = xml.EscapeText(&p.body, []byte(text)) // a buffer refuses nothing
	p.printf("</text>\n")
}

func (p *picture) printf(format string, args ...any) { fmt.Fprintf(&p.body, format, args...) }
