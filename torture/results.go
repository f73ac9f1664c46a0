package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"replicator/internal/servers"
)

// result is the record of a run. -results writes it as a line of JSON, and -report makes tables from these lines.
// Servers and Faults only list what the run really used.
type result struct {
	At      time.Time
	Seed    uint64
	Servers map[string]string // by role: source, MySQL sink, Redis sink, Elasticsearch sink, broker
	Layout  string            `json:"Source"` // such as "store file, 2 in the source, 1 in the sink" (databases)
	Faults  []string
	Took    float64 // seconds for the run
	Setup   float64 // seconds until the programs were started
	Cleared float64 // seconds to clean up after the run
	Settled float64 // seconds from the end of the last fault until all views had the expected content
	Passes  int
	Wrong   []string `json:",omitempty"`
	Stuck   bool     `json:",omitempty"` // at the end, a view was not running or a program had ended
	Harness string   `json:",omitempty"` // why the harness could not finish the run
}

func resultOf(f *farm, p Plan, o Outcome, began time.Time, err error) result {
	r := result{At: began, Seed: p.Seed, Servers: f.roles(p), Faults: o.Inflicted, Wrong: o.Wrong, Stuck: o.Stuck,
		Layout: fmt.Sprintf("store %s, %d in the source, %d in the sink", p.Store, p.Parts, p.Shards),
		Took:   o.Took.Seconds(), Setup: o.Setup.Seconds(), Settled: o.Settled.Seconds(), Passes: o.Passes}
	r.Cleared = time.Since(began).Seconds() - r.Took
	if err != nil {
		r.Harness = err.Error()
	}
	return r
}

// roles returns the names of the servers that a plan uses, by role.
func (f *farm) roles(p Plan) map[string]string {
	all := map[string]string{"source": named(f.source[p.Source])}
	for _, sink := range p.sinks() {
		switch sink {
		case "main":
			all["MySQL sink"] = named(f.main[p.Main])
		case "cache":
			all["Redis sink"] = named(f.cache[p.Cache])
		case "search":
			all["Elasticsearch sink"] = named(f.search)
		}
	}
	if p.Topic != nil {
		all[fmt.Sprintf("Kafka between source and sinks (%d brokers)", len(f.brokers))] = named(f.brokers[0])
	}
	return all
}

// named returns a server's name and version, such as "MariaDB 10.11.19".
func named(s *servers.Server) string {
	name, _, _ := strings.Cut(string(s.Kind), "-")
	proper := map[string]string{"mysql": "MySQL", "mariadb": "MariaDB", "redis": "Redis", "valkey": "Valkey",
		"elasticsearch": "Elasticsearch", "kafka": "Kafka"}
	return cmp.Or(proper[name], name) + " " + s.Version
}

// keep appends a result to a file, unless the name is empty.
func (r result) keep(name string) error {
	if name == "" {
		return nil
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

func readResults(names []string) (all []result, err error) {
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		lines := bufio.NewReader(f)
		d := json.NewDecoder(lines)
		for d.More() {
			var r result
			if err := d.Decode(&r); err != nil {
				f.Close()
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			all = append(all, r)
		}
		f.Close()
	}
	return all, nil
}

// tally counts runs by their outcome.
type tally struct {
	runs, wrong, stuck int
	settled            []float64 // result.Settled of the other runs
}

func (t *tally) add(r result) {
	t.runs++
	switch {
	case r.Stuck:
		t.stuck++
	case len(r.Wrong) > 0:
		t.wrong++
	default:
		t.settled = append(t.settled, r.Settled)
	}
}

// quantile returns the shortest time within which the given share of the runs settled.
func (t *tally) quantile(share float64) string {
	if len(t.settled) == 0 {
		return "–"
	}
	slices.Sort(t.settled)
	at := int(share*float64(len(t.settled))+0.999999) - 1
	return fmt.Sprintf("%.1f", t.settled[min(max(at, 0), len(t.settled)-1)])
}

func (t *tally) cells() string {
	return fmt.Sprintf("%d | %d | %d | %s | %s | %s | %s |", t.runs, t.wrong, t.stuck, t.quantile(0.5), t.quantile(0.9),
		t.quantile(0.99), t.quantile(1))
}

const tallied = "runs | wrong | stuck | p50, s | p90 | p99 | max |\n"

// printReport prints a summary of the runs as Markdown: in total, by server and role, and by fault. A run counts for
// each of its faults. Runs that the harness could not finish are counted separately.
func printReport(out io.Writer, all []result) {
	var total tally
	byLayout, byServer, byFault := map[string]*tally{}, map[[2]string]*tally{}, map[string]*tally{}
	var seeds []uint64
	var harness []string
	var took, setup float64
	for _, r := range all {
		if r.Harness != "" {
			harness = append(harness, fmt.Sprintf("%d: %s", r.Seed, r.Harness))
			continue
		}
		total.add(r)
		seeds = append(seeds, r.Seed)
		took, setup = took+r.Took+r.Cleared, setup+r.Setup+r.Cleared
		count(byLayout, r.Layout, r)
		for role, server := range r.Servers {
			count(byServer, [2]string{role, server}, r)
		}
		slices.Sort(r.Faults)
		for _, fault := range slices.Compact(r.Faults) {
			count(byFault, fault, r)
		}
	}
	if total.runs == 0 {
		fmt.Fprintln(out, "No runs.")
		return
	}
	n := float64(total.runs)
	fmt.Fprintf(out, "%d runs of %.1f s on average, of which setup took %.1f s (seeds %s; %s to %s): %d wrong, %d stuck.\n"+
		"After the last fault had healed, all views were right within %s s in half of the runs, within %s s in nine of\n"+
		"ten, within %s s in 99 of 100, and within %s s in all. Further runs in which the harness failed: %d.\n\n",
		total.runs, took/n, setup/n, ranges(seeds), all[0].At.Format(time.DateOnly), all[len(all)-1].At.Format(time.DateOnly),
		total.wrong, total.stuck, total.quantile(0.5), total.quantile(0.9), total.quantile(0.99), total.quantile(1),
		len(harness))
	for _, why := range harness {
		fmt.Fprintf(out, "- %s\n", why)
	}
	fmt.Fprintf(out, "| server | was | %s|---|---|---|---|---|---|---|---|---|\n", tallied)
	order := func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }
	for _, at := range slices.SortedFunc(maps.Keys(byServer), order) {
		fmt.Fprintf(out, "| %s | %s | %s\n", at[1], at[0], byServer[at].cells())
	}
	for _, table := range []struct {
		name string
		of   map[string]*tally
	}{{"state, databases", byLayout}, {"fault", byFault}} {
		fmt.Fprintf(out, "\n| %s | %s|---|---|---|---|---|---|---|---|\n", table.name, tallied)
		for _, name := range slices.Sorted(maps.Keys(table.of)) {
			fmt.Fprintf(out, "| %s | %s\n", name, table.of[name].cells())
		}
	}
}

func count[K comparable](all map[K]*tally, at K, r result) {
	if all[at] == nil {
		all[at] = &tally{}
	}
	all[at].add(r)
}

// ranges formats seeds as 1–5, 9.
func ranges(seeds []uint64) string {
	slices.Sort(seeds)
	seeds = slices.Compact(seeds)
	var parts []string
	for i := 0; i < len(seeds); {
		j := i
		for j+1 < len(seeds) && seeds[j+1] == seeds[j]+1 {
			j++
		}
		part := fmt.Sprint(seeds[i])
		if j > i {
			part += fmt.Sprint("–", seeds[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ", ")
}
