package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"
	goredis "github.com/redis/go-redis/v9"

	"replicator/internal/launch"
	"replicator/internal/servers"
)

func main() { os.Exit(execute(os.Args[1:])) }

func execute(args []string) int {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	context.AfterFunc(ctx, cancel)
	_ = mysql.SetLogger(&mysql.NopLogger{}) // clients of disturbed servers would log many errors
	goredis.SetLogger(quiet{})
	o, err := parse(args, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err == nil && o.list {
		listFaults(os.Stdout)
		return 0
	}
	switch {
	case err != nil:
	case o.report != "":
		var all []result
		if all, err = readResults(strings.Split(o.report, ",")); err == nil {
			printReport(os.Stdout, all)
		}
	case o.planted:
		err = o.torturePlanted(ctx, ".", os.Stdout)
	default:
		err = torture(ctx, o, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		return 1
	}
	return 0
}

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

type options struct {
	Choices
	seed   uint64
	runs   int
	time   time.Duration
	race   bool
	shrink bool

	list     bool
	planted  bool
	only     string // run only the planted bugs whose names contain this text
	patience time.Duration

	results string
	report  string // files of results, separated by commas
	all     bool   // continue after failed runs

	loud bool
}

func parse(args []string, out io.Writer) (options, error) {
	o := options{Choices: Choices{Mounts: canMount()}}
	fs := flag.NewFlagSet("torture", flag.ContinueOnError)
	fs.SetOutput(out)
	fs.Uint64Var(&o.seed, "seed", uint64(time.Now().Unix()), "the seed of the first run; each further run adds 1")
	fs.IntVar(&o.runs, "runs", 0, "how many runs; 0: as many as -time allows")
	fs.DurationVar(&o.time, "time", 0, "start no run after this time; 0: five minutes, or no limit with -runs")
	fs.IntVar(&o.Writes, "writes", 0, "transactions in a run; 0: the seed decides")
	fs.BoolVar(&o.Clock, "clock", true, "build the program so that its wall clock can jump")
	fs.BoolVar(&o.race, "race", false, "build the program with the race detector")
	fs.BoolVar(&o.shrink, "shrink", false, "search for a smaller plan that fails, too")
	fs.BoolVar(&o.list, "list", false, "list the faults")
	fs.BoolVar(&o.planted, "planted", false, "plant known bugs, one after another, and make runs until each is caught")
	fs.StringVar(&o.only, "only", "", "plant only the bugs whose names contain this")
	fs.DurationVar(&o.patience, "patience", 120*time.Second, "how long after the last fault every view must be right")
	fs.StringVar(&o.results, "results", "", "append a record of each run to this file")
	fs.StringVar(&o.report, "report", "", "print tables of the results in these files, separated by commas")
	fs.BoolVar(&o.all, "all", false, "continue after a run that found errors")
	fs.BoolVar(&o.loud, "v", false, "log each step")
	search := fs.String("search", "", "also use this kind of Elasticsearch or OpenSearch as a sink")
	kafka := fs.Bool("kafka", false,
		"send the rows through Kafka: the program publishes, and three members of consumer groups maintain the views")
	fs.IntVar(&o.Brokers, "brokers", 3, "how many brokers Kafka has")
	sources := fs.String("sources", string(servers.MySQL)+","+string(servers.MariaDB1011)+","+string(servers.MariaDB118),
		"kinds of source, separated by commas")
	main := fs.String("main", string(servers.MariaDB1011),
		"kinds of server for the MySQL sink, separated by commas; each run uses one")
	cache := fs.String("cache", string(servers.Redis7), "kinds of server for the Redis sink, separated by commas")
	only := fs.String("faults", "", "inject only these faults, separated by commas")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if !*kafka {
		o.Brokers = 0
	}
	if o.runs == 0 && o.time == 0 {
		o.time = 5 * time.Minute
	}
	if *search != "" {
		kind, err := servers.ParseKind(*search)
		if err != nil {
			return o, err
		}
		o.Search = kind
	}
	for _, list := range []struct {
		names string
		into  *[]servers.Kind
	}{{*sources, &o.Sources}, {*main, &o.Main}, {*cache, &o.Cache}} {
		for name := range strings.SplitSeq(list.names, ",") {
			kind, err := servers.ParseKind(name)
			if err != nil {
				return o, err
			}
			*list.into = append(*list.into, kind)
		}
	}
	if *only != "" {
		o.Faults = strings.Split(*only, ",")
		for _, name := range o.Faults {
			if _, ok := faults()[name]; !ok {
				return o, fmt.Errorf("unknown fault %q. List the faults with -list", name)
			}
		}
	}
	return o, nil
}

func listFaults(out io.Writer) {
	known := faults()
	for _, name := range slices.Sorted(maps.Keys(known)) {
		fmt.Fprintf(out, "%-20s %s\n", name, known[name].about)
	}
}

func torture(ctx context.Context, o options, out io.Writer) error {
	dir, err := os.MkdirTemp("", "replicator-torture-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "replicator")
	flags, err := o.buildFlags(ctx, dir)
	if err != nil {
		return err
	}
	if err := launch.Build(ctx, binary, flags...); err != nil {
		return err
	}
	f, err := startFarm(ctx, o.Choices)
	defer f.close()
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "servers:", f)
	return o.runAll(ctx, f, binary, out)
}

func (o options) buildFlags(ctx context.Context, dir string) (flags []string, err error) {
	if o.Clock {
		if flags, err = skewedClock(ctx, ".", dir); err != nil {
			return nil, err
		}
	}
	if o.race {
		flags = append(flags, "-race")
	}
	return flags, nil
}

// runAll makes one run after another. It stops after a run that found errors, unless -all is set. If the harness itself
// fails, runAll continues with the next run, but gives up at the third such failure in a row.
func (o options) runAll(ctx context.Context, f *farm, binary string, out io.Writer) error {
	began := time.Now()
	passes, wrong, broken, inARow := 0, 0, 0, 0
	for n := 0; ctx.Err() == nil && (o.runs == 0 || n < o.runs) && (o.time == 0 || time.Since(began) < o.time); n++ {
		p := planOf(o.seed+uint64(n), o.Choices)
		start := time.Now()
		outcome, err := run(ctx, f, p, binary, o.patience, o.say(out))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if kerr := resultOf(f, p, outcome, start, err).keep(o.results); kerr != nil {
			return kerr
		}
		if err != nil {
			fmt.Fprintf(out, "seed %d: %s %v: the harness failed: %v\n", p.Seed, p.Source, p.Faults, err)
			if broken++; inARow == 2 {
				return fmt.Errorf("seed %d: %w\n%s", p.Seed, err, outcome.Log)
			}
			inARow++
			if err := f.mend(ctx); err != nil {
				return err
			}
			continue
		}
		inARow = 0
		passes += outcome.Passes
		fmt.Fprintf(out, "seed %d: %s %s %v: %.1f s, settled after %.1f s\n", p.Seed, p.Source, p.Store, p.Faults,
			outcome.Took.Seconds(), outcome.Settled.Seconds())
		if len(outcome.Wrong) == 0 {
			continue
		}
		report(out, p, outcome)
		if o.shrink {
			o.smaller(ctx, f, p, binary, out)
		}
		if wrong++; !o.all {
			return fmt.Errorf("the run of seed %d found errors", p.Seed)
		}
	}
	if wrong+broken > 0 {
		return fmt.Errorf("%d runs found errors, and the harness failed in %d more", wrong, broken)
	}
	fmt.Fprintf(out, "no errors in %s: the reader polled every view %d times\n",
		time.Since(began).Round(time.Second), passes)
	return ctx.Err()
}

func (o options) say(out io.Writer) func(string, ...any) {
	return func(format string, args ...any) {
		if o.loud {
			fmt.Fprintf(out, time.Now().Format(time.TimeOnly+".000 ")+format+"\n", args...)
		}
	}
}

func report(out io.Writer, p Plan, o Outcome) {
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		text = []byte(err.Error())
	}
	fmt.Fprintf(out, "%s\nlog:\n%s\nwrong:\n%s\n", text, o.Log, strings.Join(o.Wrong, "\n"))
}

// tries is how many times a smaller plan is run before it counts as correct.
const tries = 3

// smaller searches for a plan with fewer faults, views or writes that still fails.
func (o options) smaller(ctx context.Context, f *farm, p Plan, binary string, out io.Writer) {
	fails := func(p Plan) bool {
		for range tries {
			outcome, err := run(ctx, f, p, binary, o.patience, o.say(out))
			if err == nil && len(outcome.Wrong) > 0 {
				fmt.Fprintf(out, "fails with %v, %d views, %d writes: %s\n", p.Faults, len(p.Views), p.Writes, outcome.Wrong[0])
				return true
			}
		}
		return false
	}
	for _, next := range shrunk(p) {
		if ctx.Err() == nil && fails(next) {
			o.smaller(ctx, f, next, binary, out)
			return
		}
	}
}

// shrunk returns variants of p that lack one fault or one view, or have half the writes.
func shrunk(p Plan) []Plan {
	var all []Plan
	for i := range p.Faults {
		if len(p.Faults) > 1 {
			q := p
			q.Faults = append(append([]Fault{}, p.Faults[:i]...), p.Faults[i+1:]...)
			all = append(all, q)
		}
	}
	for i := range p.Views {
		if len(p.Views) > 1 {
			q := p
			q.Views = append(append([]View{}, p.Views[:i]...), p.Views[i+1:]...)
			all = append(all, q)
		}
	}
	if p.Writes > 40 {
		q := p
		q.Writes /= 2
		all = append(all, q)
	}
	return all
}
