package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"replicator/internal/launch"
	"replicator/internal/servers"
)

type boundsOptions struct {
	kind  servers.Kind
	share float64
	only  []string
	json  string
}

func parseBounds(args []string, out io.Writer) (o boundsOptions, err error) {
	fs := flag.NewFlagSet("bench bounds", flag.ContinueOnError)
	fs.SetOutput(out)
	kind := fs.String("server", string(servers.MySQL), "the kind of server for source and sink")
	fs.Float64Var(&o.share, "share", 1, "the fraction of the full sizes: above 0, at most 1")
	var names []string
	for _, b := range allBounds() {
		names = append(names, b.name)
	}
	only := fs.String("only", "", "run only these `cases`, separated by commas: "+strings.Join(names, ", "))
	fs.StringVar(&o.json, "json", "", "write every figure to this `file` too")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if o.kind, err = sourceKind(*kind); err != nil {
		return o, err
	}
	if fs.NArg() > 0 || o.share <= 0 || o.share > 1 {
		return o, errors.New(
			"bounds: -share must be above 0 and at most 1, and arguments besides flags are not allowed")
	}
	if *only != "" {
		o.only = strings.Split(*only, ",")
	}
	for _, name := range o.only {
		if !slices.Contains(names, name) {
			return o, fmt.Errorf("-only: unknown case %q", name)
		}
	}
	return o, nil
}

// bound is a case of large data that the program must handle with bounded memory.
type bound struct {
	name string
	what string // a description, with %s in place of the size n
	full int    // the full size of the case; its size n is this times the flag -share
	// search says that the case needs an Elasticsearch.
	search bool
	// views returns the configuration's sinks and views. If the case reads more than the table `cell`, the tables are
	// included.
	views func(l *boundLab, n int) string
	ddl   func(n int) []string // DDL of the tables in the sink's database
	write func(ctx context.Context, l *boundLab, n int) error
	check func(ctx context.Context, l *boundLab, n int) error
}

// boundLab has the servers of one case: a source and a sink (lab), a Redis, and an Elasticsearch if the case needs one.
type boundLab struct {
	*lab
	cache  *servers.Server
	search *servers.Server // nil unless the case needs it
}

type bounded struct {
	Name       string  `json:"name"`
	What       string  `json:"what"`
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpu_seconds"`
	PeakBytes  int64   `json:"peak_bytes"`
	Standstill float64 `json:"standstill_seconds"` // the longest time in which the program read and applied nothing
	Load       string  `json:"load"`
}

// bounds runs the program on each case of large data, one after another, and reports the memory that it used.
func bounds(ctx context.Context, o boundsOptions, compile compiler, out, progress io.Writer) (err error) {
	show := newScreen(progress)
	_, program, remove, err := build(ctx, compile, show)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	machine, all := thisMachine(), []bounded{}
	for _, b := range allBounds() {
		if o.only != nil && !slices.Contains(o.only, b.name) {
			continue
		}
		got, err := o.run(ctx, b, program, show)
		if err != nil {
			return fmt.Errorf("bounds: %s: %w", b.name, err)
		}
		all = append(all, got)
		show.say(got.line())
	}
	machine.LoadAfter = load()
	fmt.Fprintf(
		out,
		"\n%s\n\n| what | seconds | CPU s of the program | peak MiB | longest standstill, s |\n|---|---|---|---|---|\n",
		&machine,
	)
	for _, got := range all {
		fmt.Fprintln(out, got.line())
	}
	if o.json != "" {
		return writeJSON(o.json, all)
	}
	return nil
}

func (b bounded) line() string {
	return fmt.Sprintf("| %s: %s | %.0f | %.1f | %.0f | %.1f |", b.Name, b.What, b.Seconds, b.CPUSeconds,
		float64(b.PeakBytes)/(1<<20), b.Standstill)
}

// boundArgs returns the options of an SQL server: those of serverArgs, and packets large enough for bodies of 60 MiB.
func boundArgs(kind servers.Kind) []string {
	return append(serverArgs(kind), "--max-allowed-packet=256M")
}

// run measures the program on one case. It uses new servers, because the program reads a binlog from its first byte.
func (o boundsOptions) run(ctx context.Context, b bound, program string, show *screen) (got bounded, err error) {
	start := func() (*servers.Server, error) {
		return servers.Start(ctx, servers.Options{Kind: o.kind, Small: true, Args: boundArgs(o.kind)})
	}
	closing := func(s *servers.Server) { err = errors.Join(err, s.Close()) }
	source, err := start()
	if err != nil {
		return got, err
	}
	defer closing(source)
	sink, err := start()
	if err != nil {
		return got, err
	}
	defer closing(sink)
	cache, err := servers.Start(ctx, servers.Options{Kind: servers.Redis7, Small: true, Args: serverArgs(servers.Redis7)})
	if err != nil {
		return got, err
	}
	defer closing(cache)
	search, err := b.startSearch(ctx)
	if err != nil {
		return got, err
	}
	if search != nil {
		defer closing(search)
	}
	own, err := newLab(options{body: 250, tx: 10}, source, sink, program, show)
	if err != nil {
		return got, err
	}
	l := &boundLab{own, cache, search}
	defer func() { err = errors.Join(err, l.close()) }()
	n := max(int(float64(b.full)*o.share), 1)
	got.Name, got.What = b.name, fmt.Sprintf(b.what, thousands(int64(n)))
	done := show.begin(b.name + ": writing it")
	err = create(ctx, l.sourceDB, sourceDatabase, bigCellDDL)
	if err == nil {
		err = create(ctx, l.sinkDB, boundsDatabase, b.ddl(n)...)
	}
	if err == nil {
		err = b.write(ctx, l, n)
	}
	done()
	if err != nil {
		return got, err
	}
	err = l.bound(ctx, b, n, &got)
	return got, err
}

const boundsDatabase = "bounds"

// bigCellDDL creates the source table for bodies of any length.
var bigCellDDL = strings.Replace(cellDDL, " BLOB", " LONGBLOB", 1)

// bound measures the program on the written data, and checks the sink.
func (l *boundLab) bound(ctx context.Context, b bound, n int, got *bounded) error {
	address, err := freeAddress()
	if err != nil {
		return err
	}
	dir := filepath.Join(l.dir, "bound")
	if err := l.configure(dir, sourceDatabase, "earliest", b.views(l, n)); err != nil {
		return err
	}
	config := launch.Program{Dir: dir}
	text, err := os.ReadFile(config.File())
	if err != nil {
		return err
	}
	if err := config.Configure(strings.Replace(string(text), `listen = ""`, fmt.Sprintf("listen = %q", address), 1)); err != nil {
		return err
	}
	done := l.show.begin(b.name + ": the program")
	took, err := l.measureProgram(ctx, dir, []string{"run", "--until-caught-up"}, func(p *program) error {
		got.Standstill = p.standstill(ctx, address).Seconds()
		return p.Wait()
	})
	done()
	if err != nil {
		return err
	}
	got.Seconds, got.CPUSeconds, got.PeakBytes = took.wall.Seconds(), took.client.Seconds(), took.peak
	got.Load = load()
	return b.check(ctx, l, n)
}

// freeAddress returns an address on which nothing listens, and which outgoing connections don't use.
func freeAddress() (string, error) {
	address, _, err := servers.FreeAddress()
	return address, err
}

// standstill follows the program's counters until the program ends. It returns the longest time in which none of them
// rose.
func (p *program) standstill(ctx context.Context, address string) (longest time.Duration) {
	moved, last := time.Now(), -1.0
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return longest
		case <-p.Done():
			return longest
		case <-tick.C:
		}
		n, err := counted(ctx, address, "source_bytes_total", "changes_applied_total", "changes_stale_total",
			"dead_letters_total")
		if err == nil && n != last { // err means that the program does not listen yet, or has ended
			moved, last = time.Now(), n
		}
		longest = max(longest, time.Since(moved))
	}
}

func counted(ctx context.Context, address string, counters ...string) (float64, error) {
	text, err := scrape(ctx, address)
	return sumOf(text, counters...), err
}

func scrape(ctx context.Context, address string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	return io.ReadAll(res.Body)
}

func sumOf(metrics []byte, counters ...string) (sum float64) {
	for line := range bytes.Lines(metrics) {
		for _, name := range counters {
			if bytes.HasPrefix(line, []byte("replicator_"+name)) {
				fields := bytes.Fields(line)
				if n, err := strconv.ParseFloat(string(fields[len(fields)-1]), 64); err == nil {
					sum += n
				}
			}
		}
	}
	return sum
}
