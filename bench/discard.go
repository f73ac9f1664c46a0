package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"

	"replicator"
	"replicator/config"
	"replicator/internal/heap"
	"replicator/server"
	"replicator/service"
	"replicator/sinks"
)

// memberCommand runs this binary as the program, with one more type of sink: "discard" costs nothing, so what is left
// is what reading, decoding and evaluating take.
const memberCommand = "member"

// runMember is `replicator run` with the configuration file that is its argument.
func runMember(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New(memberCommand + " takes the path of a configuration: the bench itself starts it")
	}
	defer heap.Pace()()
	load := func() (*config.Config, error) {
		return config.Load(args[0], os.LookupEnv, append(sinks.Types(), discardType()))
	}
	cfg, err := load()
	if err != nil {
		return err
	}
	setup := service.Setup{Config: cfg, Log: slog.New(slog.NewJSONHandler(os.Stderr, nil)),
		OpenSink: func(_ *config.Config, sink *config.Sink, _ *slog.Logger) (replicator.Sink, error) {
			return sink.Open(config.Opening{})
		}}
	if err := service.Define(cfg); err != nil {
		return err
	}
	reread := make(chan os.Signal, 1)
	signal.Notify(reread, syscall.SIGHUP)
	defer signal.Stop(reread)
	r := service.Runner{Setup: setup, Metrics: server.NewMetrics(), Reread: reread, Load: load}
	return r.Run(ctx)
}

// discardType is the type of sink that costs nothing. Its views are described as hashes are.
func discardType() config.SinkType {
	return config.SinkType{
		Name: discardSink,
		Kinds: []config.Kind{{Name: "hash", Need: []config.Key{{Name: "key", Example: config.TemplateExample},
			{Name: "fields", Example: config.FieldsExample}}}},
		Read: func(*config.Section) any { return nil },
		ReadView: func(s *config.ViewSection) config.Target {
			s.View.Key = s.Template("key")
			return config.Target{Key: "key", Places: []string{s.View.Key}}
		},
		Open: func(config.Opening) (replicator.Sink, error) {
			return &discard{marks: map[string][]replicator.Mark{}}, nil
		},
	}
}

// discard takes everything and keeps only marks, in memory: it is empty when its process begins.
type discard struct {
	mu    sync.Mutex
	marks map[string][]replicator.Mark // by source
}

// Open implements replicator.Sink.
func (d *discard) Open(_ context.Context, source string, views []*replicator.View) (replicator.Target, error) {
	t := &discardTarget{sink: d, source: source, views: views}
	never := replicator.Standing{Fill: map[string]replicator.Progress{}}
	for _, v := range views {
		t.keep(v, never, false)
	}
	return t, nil
}

// Marks implements replicator.Sink.
func (d *discard) Marks(_ context.Context, source string) ([]replicator.Mark, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.marks[source]), nil
}

// Forget implements replicator.Sink.
func (d *discard) Forget(_ context.Context, view string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for source, marks := range d.marks {
		d.marks[source] = slices.DeleteFunc(marks, func(m replicator.Mark) bool { return m.View == view })
	}
	return nil
}

// Close implements replicator.Sink.
func (d *discard) Close() error { return nil }

// discardTarget is the views of one run.
type discardTarget struct {
	sink   *discard
	source string
	views  []*replicator.View
}

// keep keeps a view's mark; one that is there only if it is to be replaced.
func (t *discardTarget) keep(v *replicator.View, at replicator.Standing, replace bool) {
	t.sink.mu.Lock()
	defer t.sink.mu.Unlock()
	m := replicator.Mark{View: v.Name, Fingerprint: v.Fingerprint, Standing: at}
	marks := t.sink.marks[t.source]
	switch i := slices.IndexFunc(marks, func(m replicator.Mark) bool { return m.View == v.Name }); {
	case i < 0:
		t.sink.marks[t.source] = append(marks, m)
	case replace:
		marks[i] = m
	}
}

// Apply implements replicator.Target.
func (t *discardTarget) Apply(context.Context, []replicator.Op) (replicator.Applied, error) {
	return replicator.Applied{}, nil
}

// Versions implements replicator.Target.
func (t *discardTarget) Versions(_ context.Context, cells []replicator.Cell) ([]replicator.Span, error) {
	versions := make([]replicator.Span, len(cells))
	for i := range versions {
		versions[i] = replicator.Span{Lowest: replicator.NoVersion, Highest: replicator.NoVersion}
	}
	return versions, nil
}

// Mark implements replicator.Target.
func (t *discardTarget) Mark(_ context.Context, at replicator.Standing) error {
	for _, v := range t.views {
		t.keep(v, at, true)
	}
	return nil
}

// Outdated implements replicator.Target.
func (t *discardTarget) Outdated(context.Context, int64, string, int) ([]replicator.Cell, string, error) {
	return nil, "", nil
}

// Dead implements replicator.Target.
func (t *discardTarget) Dead(context.Context, int, string, int) ([]replicator.Cell, string, error) {
	return nil, "", nil
}

// Compare implements replicator.Target.
func (t *discardTarget) Compare(context.Context, []replicator.Op) ([]replicator.Difference, error) {
	return nil, errors.New("a sink that discards has nothing to compare")
}

// Held implements replicator.Target.
func (t *discardTarget) Held(context.Context, int, string, int) ([]replicator.Cell, string, error) {
	return nil, "", nil
}
