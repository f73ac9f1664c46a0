package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"replicator/internal/launch"
	"replicator/internal/servers"
)

// scaleoutOptions are the flags of "scaleout".
type scaleoutOptions struct {
	kind       servers.Kind
	cells      int
	rounds     int
	partitions int
	members    []int
	sinks      []string
	use        float64
	from       string
	page       string
	json       string
}

// The sinks that members write to.
const (
	discardSink = "discard"
	redisSink   = "redis"
	mysqlSink   = "mysql"
)

func parseScaleout(args []string, out io.Writer) (o scaleoutOptions, err error) {
	fs := flag.NewFlagSet("bench scaleout", flag.ContinueOnError)
	fs.SetOutput(out)
	kind := fs.String("server", string(servers.MySQL), "the kind of source, and of the sink that is a SQL server")
	fs.IntVar(&o.cells, "cells", 200_000, "how many cells go through Kafka, each of another entity")
	fs.IntVar(&o.rounds, "rounds", 3, "how often they are published; the medians are taken")
	fs.IntVar(&o.partitions, "partitions", 12, "of the topic")
	members := fs.String("members", "1,2,4", "how many members share the work, with commas between; 1 calibrates the model")
	sinks := fs.String("sinks", discardSink+","+redisSink+","+mysqlSink, "what members write to, with commas between")
	fs.Float64Var(&o.use, "use", 0.6, "how much of each core the model plans to use")
	fs.StringVar(&o.from, "from", "", "measure nothing: print what -json wrote to this `file`")
	fs.StringVar(&o.page, "page", "", "put the tables into this `file` too, between its marks: docs/scale.md has them")
	fs.StringVar(&o.json, "json", "", "write every figure to this `file` too")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if o.kind, err = sourceKind(*kind); err != nil {
		return o, err
	}
	for text := range strings.SplitSeq(*members, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return o, fmt.Errorf("-members: %q is no number of members", text)
		}
		o.members = append(o.members, n)
	}
	o.sinks = strings.Split(*sinks, ",")
	for _, name := range o.sinks {
		if !slices.Contains([]string{discardSink, redisSink, mysqlSink}, name) {
			return o, fmt.Errorf("-sinks: there is no sink %q", name)
		}
	}
	if fs.NArg() > 0 || o.cells < 1 || o.rounds < 1 || o.partitions < 1 || o.use <= 0 || o.use > 1 {
		return o, errors.New("scaleout: numbers are at least 1, -use is a part of 1, and nothing else stands beside the flags")
	}
	return o, nil
}

// scaleout measures what a cell costs on its way through Kafka, and how far one machine gets with several members.
func scaleout(ctx context.Context, o scaleoutOptions, out, progress io.Writer) (err error) {
	r := &scaling{Use: o.use, Machine: thisMachine()}
	r.Machine.Kernel = "" // the page does without
	if o.from != "" {
		text, err := os.ReadFile(o.from)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, r); err != nil {
			return fmt.Errorf("%s: %w", o.from, err)
		}
		r.Use = o.use
	} else {
		if err := r.measure(ctx, o, newScreen(progress)); err != nil {
			return fmt.Errorf("scaleout: %w", err)
		}
		r.Machine.LoadAfter = load()
	}
	r.print(out)
	if o.page != "" {
		if err := r.writePage(o.page); err != nil {
			return err
		}
	}
	if o.json != "" {
		return writeJSON(o.json, r)
	}
	return nil
}

// stream is a source, a broker, and what is measured of the way between them.
type stream struct {
	*lab
	o      scaleoutOptions
	r      *scaling
	broker *servers.Server
	admin  *kadm.Client
	topic  string // that members read
}

// measure fills in the report.
func (r *scaling) measure(ctx context.Context, o scaleoutOptions, show *screen) (err error) {
	dir, program, remove, err := build(ctx, show)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	x := &stream{o: o, r: r, lab: &lab{options: options{cells: o.cells, tx: 10}, program: program, dir: dir, show: show,
		workload: &workload{entities: o.cells, body: 250, begin: time.Now().UnixNano(), order: phased}}}
	x.broker, err = servers.Start(ctx, servers.Options{Kind: servers.Kafka, Progress: show.say})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.broker.Close()) }()
	client, err := kgo.NewClient(kgo.SeedBrokers(x.broker.Addr()))
	if err != nil {
		return err
	}
	defer client.Close()
	x.admin = kadm.NewClient(client)
	r.Broker, r.Cells, r.Body = x.broker.Version, o.cells, x.workload.body
	if err := x.publishAll(ctx); err != nil {
		return err
	}
	for _, sink := range o.sinks {
		if err := x.applyAll(ctx, sink); err != nil {
			return fmt.Errorf("members into %s: %w", sink, err)
		}
	}
	return nil
}

// publishAll publishes the cells several times, into a topic of its own each, and once more into one with four times
// the partitions. The source is needed only for that.
func (x *stream) publishAll(ctx context.Context) (err error) {
	if x.source, err = start(ctx, x.o.kind, x.show.say); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.source.Close()) }()
	x.r.Kind, x.r.Version = string(x.source.Kind), x.source.Version
	if x.sourceDB, err = open(x.source); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.sourceDB.Close()) }()
	if err := x.prepare(ctx); err != nil {
		return err
	}
	for range x.o.rounds {
		if err := x.publish(ctx, x.o.partitions); err != nil {
			return fmt.Errorf("the publisher: %w", err)
		}
	}
	read := x.topic
	if err := x.publish(ctx, 4*x.o.partitions); err != nil {
		return fmt.Errorf("the publisher: %w", err)
	}
	x.topic = read
	return nil
}

// publish measures one run of a publisher.
func (x *stream) publish(ctx context.Context, partitions int) error {
	x.topic = fmt.Sprintf("cells%d", x.runs)
	c, err := x.crew(ctx, 1, launch.Program{Path: x.program}, []string{"run", "-c"}, fmt.Sprintf("dsn = %q\n"+
		"start = \"earliest\"\n", x.source.DSN(sourceDatabase)), changelogView(x.broker, x.topic, partitions))
	if err != nil {
		return err
	}
	defer c.kill()
	c.begins = `"msg":"running"`
	c.servers = map[part]*servers.Server{sourcePart: x.source, brokerPart: x.broker}
	got := scaled{What: publishing, Sink: "kafka", Members: 1, Partitions: partitions}
	if err := x.watch(ctx, c, &got); err != nil {
		return err
	}
	if err := c.stop(); err != nil {
		return err
	}
	if got.Bytes, err = x.bytes(ctx); err != nil {
		return err
	}
	x.r.Turns = append(x.r.Turns, got)
	return nil
}

// bytes is what a cell takes in the topic.
func (x *stream) bytes(ctx context.Context) (float64, error) {
	dirs, err := x.admin.DescribeAllLogDirs(ctx, nil)
	if err != nil {
		return 0, err
	}
	size := int64(0)
	for _, d := range dirs {
		for _, t := range d {
			for _, p := range t.Topics[x.topic] {
				size += p.Size
			}
		}
	}
	return float64(size) / float64(x.cells), nil
}

// applyAll lets members read the topic into a sink.
func (x *stream) applyAll(ctx context.Context, sink string) (err error) {
	into, err := x.openSink(ctx, sink)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, into.close()) }()
	for _, n := range x.o.members {
		if err := x.apply(ctx, sink, into, n); err != nil {
			return fmt.Errorf("%d: %w", n, err)
		}
	}
	return nil
}

// apply measures one group of members, each with a core.
func (x *stream) apply(ctx context.Context, sink string, into *appliedSink, members int) error {
	targets, err := into.prepare(ctx)
	if err != nil {
		return err
	}
	group := fmt.Sprintf("group%d", x.runs)
	at, args := launch.Program{Path: x.program, Env: append(os.Environ(), "GOMAXPROCS=1")}, []string{"run", "-c"}
	if sink == discardSink { // which only this binary has
		if at.Path, err = os.Executable(); err != nil {
			return err
		}
		args = []string{memberCommand}
	}
	c, err := x.crew(ctx, members, at, args, fmt.Sprintf("type = \"kafka\"\nbrokers = [%q]\ntopics = [%q]\ngroup = %q\n",
		x.broker.Addr(), x.topic, group), targets)
	if err != nil {
		return err
	}
	defer c.kill()
	c.begins = `"msg":"partitions are assigned"`
	c.servers = map[part]*servers.Server{brokerPart: x.broker}
	if into.server != nil {
		c.servers[sinkPart] = into.server
	}
	got := scaled{What: applying, Sink: sink, Members: members, Partitions: x.o.partitions}
	if err := x.watch(ctx, c, &got); err != nil {
		return err
	}
	why := ""
	if got.Retries, why = c.retries(ctx); got.Retries > 0 {
		x.show.say(fmt.Sprintf("  %d sessions failed and began again, the last one: %s", got.Retries, why))
	}
	if err := into.settled(ctx); err != nil {
		return fmt.Errorf("the result is wrong: %w\n%s", err, launch.LastLines(c.members[0].Log(), 10))
	}
	c.kill()
	if err := into.empty(ctx); err != nil {
		return err
	}
	x.r.Turns = append(x.r.Turns, got)
	return nil
}

// watch measures a crew until it has done its work.
func (x *stream) watch(ctx context.Context, c *crew, got *scaled) error {
	what := fmt.Sprintf("%s, %d partitions", got.name(), got.Partitions)
	bar := x.show.bar(what, x.cells)
	samples, err := c.watch(ctx, int64(x.cells), bar)
	bar.done()
	if err != nil {
		return err
	}
	got.window = windowOf(samples)
	got.Load = load()
	x.show.say("  " + got.String())
	return nil
}

// processConfiguration is that of a publisher or member, but for its sink and view.
const processConfiguration = `[source]
%s
[checkpoint]
path = %q

[http]
listen = %q

` + cellTable

// changelogView is a publisher's sink and view.
func changelogView(broker *servers.Server, topic string, partitions int) string {
	return fmt.Sprintf("[sinks.log]\ntype = \"kafka\"\nbrokers = [%q]\n\n[views.cells]\nfrom = \"cell\"\nsink = \"log\"\n"+
		"kind = \"changelog\"\ntopic = %q\ncreate = true\npartitions = %d\nreplication = 1\n", broker.Addr(), topic, partitions)
}
