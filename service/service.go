package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"replicator"
	"replicator/canal"
	"replicator/config"
	"replicator/kafka"
	"replicator/pipeline"
	"replicator/server"
)

// Service runs one configuration: one pipeline for each sink and each shard of the source.
type Service struct {
	Setup
	store   replicator.Store
	metrics *server.Metrics
	sinks   []replicator.Sink
	lines   lineup
	gone    *gone

	cluster   *kafka.Cluster // nil if the source is not in Kafka
	consumers []*consumer    // the topics' consumers, one for each sink
}

// lineup has the running pipelines. With a source in Kafka, they come and go with the assigned partitions.
type lineup struct {
	mu      sync.Mutex // guards running
	running []line
}

func (l *lineup) all() []line {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.running)
}

func (l *lineup) add(one line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = append(l.running, one)
}

func (l *lineup) remove(one line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = slices.DeleteFunc(l.running, func(other line) bool { return other.engine == one.engine })
}

// line is a pipeline with its own reader of the source.
type line struct {
	engine
	sink   string
	opened replicator.Sink
	source source
	views  []*replicator.View
	ended  <-chan struct{} // closed once another group member may read the partition; nil: the source is not in Kafka

	reread func(context.Context) error // re-reads dead letters that other processes saved; nil: others can't save any
}

// engine is the part of a pipeline that this package uses.
type engine interface {
	Run(ctx, stop context.Context) error
	Keeps(view string) bool
	Status(deadLetters map[string]int) []replicator.ViewStatus
	Wait(ctx context.Context, fence string, views []string) error
	Renew(ctx context.Context, views ...string) error
	Look(ctx context.Context, view string, cells []replicator.Cell) error
	Rebuild(ctx context.Context, views []string, mode pipeline.RebuildMode, from string) error
	Pause(ctx context.Context, view string) error
	Resume(ctx context.Context, view string) error
	Swapped() map[string]int64
	Compared(view string, at int64)
	Shown() map[string]time.Time
}

// source is a pipeline's source, with more methods for the status and for checks.
type source interface {
	replicator.Source
	Stats() canal.Stats
	Retention(ctx context.Context, p replicator.Position) (time.Duration, error)
	CheckOffset(ctx context.Context, table, text string) error
	Close() error
}

// New creates the pipelines of a configuration. It connects only to the checkpoint store. It returns an InvalidError if
// the configuration is wrong. metrics may be nil.
func New(ctx context.Context, setup Setup, metrics *server.Metrics) (*Service, error) {
	if metrics == nil {
		metrics = server.NewMetrics()
	}
	if err := Define(setup.Config); err != nil {
		return nil, err
	}
	store, err := openStore(ctx, setup.Config)
	if err != nil {
		return nil, err
	}
	return newOn(store, setup, metrics)
}

// newOn creates the pipelines of a configuration with an open store. Define must have succeeded for the configuration.
func newOn(store replicator.Store, setup Setup, metrics *server.Metrics) (*Service, error) {
	s := &Service{Setup: setup, metrics: metrics, store: store, gone: newGone(setup.before)}
	if err := s.connect(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	for i := range s.Config.Sinks {
		if err := s.add(&s.Config.Sinks[i]); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

func (s *Service) add(sink *config.Sink) error {
	views := ViewsOf(s.Config, sink.Name)
	if len(views) == 0 {
		s.Log.Warn("no view uses the sink", "sink", sink.Name)
		return nil
	}
	opened, err := s.sink(sink.Name)
	if err != nil {
		return err
	}
	s.sinks = append(s.sinks, opened)
	if s.cluster != nil {
		return s.consume(sink, opened, views)
	}
	for _, shard := range s.Config.Source.Shards {
		tables, err := tablesOf(s.Config, shard, views)
		if err != nil {
			return err
		}
		log := s.Log
		if shard.Name != "" {
			log = log.With("source", shard.Name)
		}
		from, err := NewSource(shard, tables, s.store, log, s.serverID())
		if err != nil {
			return err
		}
		s.lines.add(s.line(sink.Name, opened, from, s.store, views, tables, s.before[from.Name()].paused, nil, log))
	}
	return nil
}

func (s *Service) line(sink string, opened replicator.Sink, from source, store replicator.Store,
	views []*replicator.View, tables []replicator.Table, paused []string, starters *pipeline.Starters,
	log *slog.Logger) line {
	own := clones(views)
	var sourceOf func([]*replicator.View) (replicator.Source, error)
	if mysql, is := from.(*canal.Source); is { // with Kafka, a source can't read fewer columns: records have whole rows
		sourceOf = func(vs []*replicator.View) (replicator.Source, error) { return narrowed(mysql, tables, vs) }
	}
	return line{sink: sink, opened: opened, source: from, views: own, engine: pipeline.New(pipeline.Config{
		Name: sink, Source: from, Sink: opened, Views: own, Store: store, Feeds: Feeds(s.Config),
		Compile:    func(vs []*replicator.View) (replicator.Evaluator, error) { return compile(s.Config, vs, tables) },
		SourceOf:   sourceOf,
		StartAt:    s.Config.Source.Start,
		OnLost:     s.Config.Source.OnLost,
		OnUnlogged: s.Config.Source.OnUnlogged,
		Observer:   s.metrics, Log: log,
		Memory:    s.Config.Limits.Memory,
		Interval:  s.Config.Checkpoint.Interval,
		Rate:      s.Config.Rebuild.Rate,
		Deleted:   s.Config.Limits.Deleted,
		SavesIdle: s.Config.Checkpoint.Store != "mysql" || s.cluster != nil,
		LastShown: s.gone.of(from.Name()),
		Paused:    paused,
		Starters:  starters,
	})}
}

// serverID returns the replica id for the next source; 0 means random ids. The ids are far apart, because a source uses
// several, and MariaDB disconnects the older of two replicas with the same id.
func (s *Service) serverID() uint32 {
	if s.Config.Source.ServerID == 0 {
		return 0
	}
	const apart = 10_000 // more than the number of readers that a source ever opens
	return s.Config.Source.ServerID + apart*uint32(len(s.lines.all()))
}

// Run runs every pipeline until stop is done and all have drained. Without views, Run also waits for stop, because the
// next configuration may have views.
func (s *Service) Run(ctx, stop context.Context) error {
	lines := s.lines.all()
	errs := make([]error, len(lines))
	var wg sync.WaitGroup
	for i, l := range lines {
		wg.Go(func() { errs[i] = l.Run(ctx, stop) })
	}
	for _, c := range s.consumers {
		wg.Go(func() { c.run(ctx, stop) })
	}
	if len(lines)+len(s.consumers) == 0 {
		select {
		case <-stop.Done():
		case <-ctx.Done():
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

// CatchUp returns nil once the named views (all, if none is named) include everything that was committed at the time of
// the call. It also waits for their pending comparisons with the source. If a view has failed, CatchUp returns an error
// once the others are complete.
func (s *Service) CatchUp(ctx context.Context, views ...string) error {
	if s.cluster != nil {
		return s.catchUpInGroups(ctx, views)
	}
	type fence struct {
		line
		at    string
		views []string
	}
	var fences []fence
	for _, l := range s.lines.all() {
		f := fence{line: l}
		for _, v := range l.views {
			if len(views) == 0 || slices.Contains(views, v.Name) {
				f.views = append(f.views, v.Name)
			}
		}
		if len(f.views) == 0 {
			continue
		}
		var err error
		if f.at, err = latest(ctx, l.source); err != nil && ctx.Err() == nil {
			return fmt.Errorf("source%s: asking for its position: %w. `replicator check` shows what is missing",
				inShard(l.source), err)
		}
		fences = append(fences, f)
	}
	var failed []string
	for _, f := range fences {
		for _, v := range f.views {
			err := f.Wait(ctx, f.at, []string{v})
			if err == nil {
				err = f.compared(ctx, []string{v})
			}
			if err != nil {
				failed = append(failed, fmt.Sprintf("sink %s%s: %v", f.sink, inShard(f.source), err))
			}
		}
	}
	switch {
	case ctx.Err() != nil:
		return errors.New("stopped before every view had caught up")
	case len(failed) > 0: // if several views in a row have the same error, report the error once
		return errors.New(strings.Join(slices.Compact(failed), "\n"))
	}
	return nil
}

// handOn returns what the service of the next configuration takes over, by source or consumer group. Call it after Run
// has returned.
func (s *Service) handOn() map[string]handedOn {
	all := map[string]handedOn{}
	for _, l := range s.lines.all() {
		s.gone.remember(l.source.Name(), l.Shown())
		of := all[l.source.Name()]
		for _, v := range l.Status(nil) {
			if v.State == replicator.StatePaused {
				of.paused = append(of.paused, v.View)
			}
		}
		all[l.source.Name()] = of
	}
	for _, c := range s.consumers {
		all[c.group] = handedOn{paused: c.arePaused()}
	}
	for _, source := range s.gone.sources() {
		of := all[source]
		of.shown = s.gone.of(source)
		all[source] = of
	}
	return all
}

// SourceStats returns the sources' stats, one for each pipeline, because each pipeline has its own reader.
func (s *Service) SourceStats(ctx context.Context) []server.SourceStats {
	lines := s.lines.all()
	all := make([]server.SourceStats, len(lines))
	for i, l := range lines {
		all[i] = l.stats(ctx)
	}
	return all
}

func (l line) stats(ctx context.Context) server.SourceStats {
	read := l.source.Stats()
	stats := server.SourceStats{Sink: l.sink, Source: l.source.Name(), Events: read.Events, Bytes: read.Bytes,
		Format: read.Format}
	var oldest replicator.Position
	for _, v := range l.Status(nil) {
		if !v.Applied.IsZero() && (oldest.IsZero() || v.Applied.Order < oldest.Order) {
			oldest = v.Applied
		}
		if v.ReadLag != nil && (stats.PositionAge == nil || *v.ReadLag > *stats.PositionAge) {
			stats.PositionAge = v.ReadLag
		}
	}
	if oldest.IsZero() {
		return stats
	}
	stats.Position, stats.GTID = Place(oldest)
	left, err := l.source.Retention(ctx, oldest)
	seconds := left.Seconds()
	switch {
	case errors.Is(err, replicator.ErrLost):
		seconds = 0
	case err != nil:
		return stats
	case left == canal.Forever:
		seconds = math.Inf(1)
	}
	stats.Retention = &seconds
	return stats
}

// undrained returns the views that were retrying after an error when they were stopped. Their changes in flight may not
// be applied and saved. Views that had not started had no changes in flight.
func (s *Service) undrained() (views []string) {
	for _, l := range s.lines.all() {
		for _, v := range l.Status(nil) {
			if v.State == replicator.StateRetrying && !v.Applied.IsZero() && !slices.Contains(views, v.View) {
				views = append(views, v.View)
			}
		}
	}
	return views
}

// Close closes what the service opened. Call it after Run has returned.
func (s *Service) Close() error {
	var errs []error
	for _, sink := range s.sinks {
		errs = append(errs, sink.Close())
	}
	for _, l := range s.lines.all() {
		errs = append(errs, l.source.Close())
	}
	if s.cluster != nil {
		s.cluster.Close()
	}
	if s.store != nil {
		errs = append(errs, s.store.Close())
	}
	return errors.Join(errs...)
}
