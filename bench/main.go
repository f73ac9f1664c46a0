package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"replicator/internal/launch"
	"replicator/internal/servers"
)

func main() { os.Exit(execute(os.Args[1:])) }

// execute runs one command line. The first Ctrl-C stops the run and cleans up. A second one ends the bench at once, and
// the servers with it.
func execute(args []string) int {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	context.AfterFunc(ctx, cancel)
	var do func() error
	var err error
	switch {
	case len(args) > 0 && args[0] == "peers":
		var o peersOptions
		o, err = parsePeers(args[1:], os.Stderr)
		do = func() error { return peers(ctx, o, launch.BuildGuided, os.Stdout, os.Stderr) }
	case len(args) > 0 && args[0] == "profile":
		do = func() error { return gatherProfile(ctx, args[1:], os.Stdout, os.Stderr) }
	case len(args) > 0 && args[0] == "bounds":
		var o boundsOptions
		o, err = parseBounds(args[1:], os.Stderr)
		do = func() error { return bounds(ctx, o, launch.BuildGuided, os.Stdout, os.Stderr) }
	default:
		var o options
		o, err = parse(args, os.Stderr)
		do = func() error { return run(ctx, o, os.Stdout, os.Stderr) }
	}
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 2
	}
	if err := do(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}

type options struct {
	kinds    []servers.Kind
	cells    int
	entities int
	body     int
	tx       int
	rate     int
	seconds  int
	stages   []stage
	curve    string // the only curve that the growth stage measures; "": all
	json     string
}

// quick has the sizes for a smoke run. Flags on the command line override them.
var quick = map[string]string{"cells": "5000", "entities": "500", "rate": "200", "latency-seconds": "2"}

// sourceKind returns the kind of server that -server names. It must have a binlog.
func sourceKind(name string) (servers.Kind, error) {
	kind, err := servers.ParseKind(name)
	if err == nil && !kind.IsSQL() {
		err = fmt.Errorf("-server: %s has no binlog", kind)
	}
	return kind, err
}

func parse(args []string, out io.Writer) (options, error) {
	var o options
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(out)
	kinds := fs.String("servers", string(servers.MySQL),
		"kinds of server, separated by commas: mysql, mariadb-10.11, mariadb-11.8")
	fs.IntVar(&o.cells, "cells", 1_000_000, "how many cells the source holds")
	fs.IntVar(&o.entities, "entities", 100_000, "how many entities the cells belong to")
	fs.IntVar(&o.body, "body", 250, "the size of a body in bytes")
	fs.IntVar(&o.tx, "tx", 10, "cells per transaction")
	fs.IntVar(&o.rate, "rate", 1000, "transactions a second while the latency is measured")
	fs.IntVar(&o.seconds, "latency-seconds", 20, "how long the latency is measured")
	fs.StringVar(&o.json, "json", "", "write everything to this `file` too")
	var names []string
	for _, s := range stages() {
		names = append(names, s.name)
	}
	only := fs.String("only", "", "run only these `stages`, separated by commas: "+strings.Join(names, ", "))
	fs.StringVar(&o.curve, "curve", "", "run only this `curve` of the growth stage: "+strings.Join(curves[:], ", "))
	small := fs.Bool("quick", false, "a smoke run: small sizes, unless other flags set them")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q. See -help", fs.Arg(0))
	}
	if *small {
		given := map[string]bool{}
		fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
		for name, value := range quick {
			if !given[name] {
				if err := fs.Set(name, value); err != nil {
					return o, err
				}
			}
		}
	}
	for name, n := range map[string]int{"cells": o.cells, "entities": o.entities, "body": o.body, "tx": o.tx,
		"rate": o.rate, "latency-seconds": o.seconds} {
		if n < 1 {
			return o, fmt.Errorf("-%s must be at least 1", name)
		}
	}
	if o.curve != "" && !slices.Contains(curves[:], o.curve) {
		return o, fmt.Errorf("-curve: unknown curve %q", o.curve)
	}
	if o.stages = stages(); *only == "" {
		o.stages = slices.DeleteFunc(o.stages, func(s stage) bool { return s.asked })
	} else {
		names := strings.Split(*only, ",")
		o.stages = slices.DeleteFunc(o.stages, func(s stage) bool {
			i := slices.Index(names, s.name)
			if i >= 0 {
				names = slices.Delete(names, i, i+1)
			}
			return i < 0
		})
		if len(names) > 0 {
			return o, fmt.Errorf("-only: unknown stage %q", names[0])
		}
	}
	for name := range strings.SplitSeq(*kinds, ",") {
		kind, err := servers.ParseKind(strings.TrimSpace(name))
		if err != nil {
			return o, err
		}
		if !kind.IsSQL() {
			return o, fmt.Errorf("-servers: %s has no binlog", kind)
		}
		o.kinds = append(o.kinds, kind)
	}
	return o, nil
}

func run(ctx context.Context, o options, out, progress io.Writer) (err error) {
	show := newScreen(progress)
	_, program, remove, err := build(ctx, launch.BuildGuided, show)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	r := report{Machine: thisMachine(), Cells: o.cells, Entities: o.entities, Body: o.body, Tx: o.tx}
	for _, kind := range o.kinds {
		m, err := measureKind(ctx, o, kind, program, show)
		if err != nil {
			return err
		}
		r.Servers = append(r.Servers, m)
	}
	r.Machine.LoadAfter = load()
	r.print(out)
	if o.json != "" {
		return writeJSON(o.json, r)
	}
	return nil
}

// compiler builds the program and writes it to a path. Package launch has several compilers.
type compiler func(ctx context.Context, path string) error

// build builds the program in a new directory. The returned function `remove` deletes the directory.
func build(
	ctx context.Context, compile compiler, show *screen,
) (dir, program string, remove func() error, err error) {
	if dir, err = os.MkdirTemp("", "replicator-bench-"); err != nil {
		return "", "", nil, err
	}
	remove = func() error { return os.RemoveAll(dir) }
	done := show.begin("building the program")
	program = filepath.Join(dir, "replicator")
	err = compile(ctx, program)
	done()
	if err != nil {
		return "", "", nil, errors.Join(err, remove())
	}
	return dir, program, remove, nil
}

func measureKind(ctx context.Context, o options, kind servers.Kind, program string,
	show *screen) (m measure, err error) {
	closing := func(s *servers.Server) { err = errors.Join(err, s.Close()) }
	source, err := start(ctx, kind, show.say)
	if err != nil {
		return m, err
	}
	defer closing(source)
	sink, err := startSink(ctx, kind, show.say)
	if err != nil {
		return m, err
	}
	defer closing(sink)
	l, err := newLab(o, source, sink, program, show)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	if err := l.run(ctx); err != nil {
		return m, err
	}
	return measure{Kind: string(kind), Version: source.Version, Results: l.results, LeftOut: l.leftOut}, nil
}
