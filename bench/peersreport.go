package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
)

type campaign struct {
	Machine machine `json:"machine"`
	Kind    string  `json:"kind"`
	Version string  `json:"version"`
	Turns   []turn  `json:"turns"`
}

func writeJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

func (t turn) String() string {
	if t.Failed != "" {
		return fmt.Sprintf("%s, round %d: %s: %s", t.Task, t.Round, t.Program, t.Failed)
	}
	return fmt.Sprintf("%s, round %d: %s: %.1f CPU µs a cell, %s (load %s)", t.Task, t.Round, t.Program, t.CPU, t.Holds,
		t.Load)
}

func (r *campaign) print(out io.Writer) {
	fmt.Fprintf(out, "\n%s\nsource: %s %s; sink: Redis 7; medians\n", &r.Machine, r.Kind, r.Version)
	fmt.Fprint(out, "\n| task | program, what it writes | turns | cells a second | CPU s per million (warm) | × ours "+
		"| sink's CPU s | peak MiB | the sink holds |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, line := range r.lines() {
		fmt.Fprintln(out, line)
	}
}

func (r *campaign) lines() (lines []string) {
	for _, task := range []string{"w1", "w2"} {
		ours := 0.0
		for _, c := range everyContender(peersOptions{}) {
			var done []turn
			failed, turns := "", 0
			for _, t := range r.Turns {
				if t.Task == task && t.Program == c.name {
					if turns++; t.Failed == "" {
						done = append(done, t)
					} else {
						failed = t.Failed
					}
				}
			}
			if turns == 0 {
				continue
			}
			head := fmt.Sprintf("| %s | %s: %s | %d of %d | ", task, c.name, c.keeps, len(done), turns)
			if len(done) == 0 {
				lines = append(lines, head+"failed: "+firstLine(failed)+" | | | | | |")
				continue
			}
			cpu, warm := median(done, func(t turn) float64 { return t.CPU }), ""
			if w := median(done, func(t turn) float64 { return t.WarmCPU }); w > 0 {
				warm = " (" + rounded(w) + ")"
			}
			if ours == 0 && c.ours {
				ours = cpu
			}
			ratio := ""
			if ours > 0 {
				ratio = fmt.Sprintf("%.2f", cpu/ours)
			}
			lines = append(lines, head+fmt.Sprintf("%s | %s%s | %s | %s | %.0f | %s |",
				thousands(int64(median(done, func(t turn) float64 { return float64(t.Cells) / t.Seconds }))),
				rounded(cpu), warm, ratio, rounded(median(done, func(t turn) float64 { return t.SinkCPU })),
				median(done, func(t turn) float64 { return float64(t.PeakBytes) / (1 << 20) }), done[len(done)-1].Holds))
		}
	}
	return lines
}

func median(turns []turn, figure func(turn) float64) float64 {
	all := make([]float64, 0, len(turns))
	for _, t := range turns {
		all = append(all, figure(t))
	}
	slices.Sort(all)
	n := len(all)
	return (all[(n-1)/2] + all[n/2]) / 2
}

func firstLine(text string) string {
	for i, r := range text {
		if r == '\n' {
			return text[:i]
		}
	}
	return text
}
