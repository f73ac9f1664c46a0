package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"

	driver "github.com/go-sql-driver/mysql"

	"replicator"
	"replicator/canal"
	"replicator/codec"
	"replicator/config"
	"replicator/pipeline"
	"replicator/server"
	"replicator/sinks/mysql"
	"replicator/sinks/redis"
	"replicator/verify"
	"replicator/view"
)

// app is the program, wired: one pipeline for each sink and each shard of the source.
type app struct {
	cfg       *config.Config
	log       *slog.Logger
	store     replicator.Store
	metrics   *server.Metrics
	sources   []*canal.Source
	sinks     map[string]replicator.Sink
	pipelines []*pipeline.Pipeline
	rounds    *verify.Rounds // nil: views are verified only when asked
}

// newApp wires the program. It connects to nothing but the checkpoint store; what is wrong with the configuration is a
// usage error. metrics is nil where nobody asks for any.
func newApp(ctx context.Context, cfg *config.Config, log *slog.Logger, metrics *server.Metrics) (*app, error) {
	if metrics == nil {
		metrics = server.NewMetrics()
	}
	a := &app{cfg: cfg, log: log, metrics: metrics, sinks: map[string]replicator.Sink{}}
	if err := fingerprint(cfg); err != nil {
		return nil, err
	}
	var err error
	if a.store, err = openStore(ctx, cfg); err != nil {
		return nil, err
	}
	for i := range cfg.Sinks {
		if err := a.wire(&cfg.Sinks[i]); err != nil {
			return nil, errors.Join(err, a.close())
		}
	}
	a.rounds = a.newRounds()
	return a, nil
}

// sourceStats is what metrics show of the sources: one for each pipeline, which reads by itself.
func (a *app) sourceStats(ctx context.Context) []server.SourceStats {
	all := make([]server.SourceStats, len(a.sources))
	for i, s := range a.sources {
		read := s.Stats()
		all[i] = server.SourceStats{Events: read.Events, Bytes: read.Bytes}
		var oldest replicator.Position
		for _, v := range a.pipelines[i].Status(nil) {
			if !v.Applied.IsZero() && (oldest.IsZero() || v.Applied.Order < oldest.Order) {
				oldest = v.Applied
			}
			if v.ReadLag != nil && (all[i].PositionAge == nil || *v.ReadLag > *all[i].PositionAge) {
				all[i].PositionAge = v.ReadLag
			}
		}
		if oldest.IsZero() {
			continue
		}
		left, err := s.Retention(ctx, oldest)
		seconds := left.Seconds()
		switch {
		case errors.Is(err, replicator.ErrLost):
			seconds = 0
		case err != nil:
			continue
		case left == canal.Forever:
			seconds = math.Inf(1)
		}
		all[i].Retention = &seconds
	}
	return all
}

// fingerprint fills in what each view's definition comes to, and checks that all views compile.
func fingerprint(cfg *config.Config) error {
	if _, err := compile(cfg, cfg.Views, cfg.Tables); err != nil {
		var at *view.KeyError
		if errors.As(err, &at) {
			err = &config.Problem{File: cfg.File, Line: cfg.Line(at.View, at.Key), Key: "views." + at.View + "." + at.Key, Text: at.Err.Error()}
		} else {
			err = fmt.Errorf("%s: %w", cfg.File, err)
		}
		return usageError{err}
	}
	for _, v := range cfg.Views {
		v.Fingerprint = view.Fingerprint(v, cfg.Tables)
	}
	return nil
}

// compile makes the evaluator of some views; bodies are decoded by each table's codec.
func compile(cfg *config.Config, views []*replicator.View, tables []replicator.Table) (replicator.Evaluator, error) {
	return view.Compile(views, tables, view.Codecs{
		JSON: codec.JSON,
		Body: func(table string, names []string) (view.Decoder, error) {
			c, err := codec.New(cfg.Table(table).Codec)
			if err != nil {
				return nil, err
			}
			return c.Decoder(names), nil
		},
	})
}

// wire opens a sink and makes its pipelines.
func (a *app) wire(sink *config.Sink) error {
	views := viewsOf(a.cfg, sink.Name)
	if len(views) == 0 {
		a.log.Warn("no view uses the sink", "sink", sink.Name)
		return nil
	}
	s, err := openSink(a.cfg, sink, a.log)
	if err != nil {
		return err
	}
	a.sinks[sink.Name] = s
	for _, shard := range a.cfg.Source.Shards {
		tables, err := tablesOf(a.cfg, shard, views)
		if err != nil {
			return err
		}
		log := a.log
		if shard.Name != "" {
			log = log.With("source", shard.Name)
		}
		source, err := newSource(shard, tables, log, a.serverID())
		if err != nil {
			return err
		}
		a.sources = append(a.sources, source)
		a.pipelines = append(a.pipelines, &pipeline.Pipeline{
			Name: sink.Name, Source: source, Sink: s, Views: clones(views), Store: a.store,
			Compile:  func(vs []*replicator.View) (replicator.Evaluator, error) { return compile(a.cfg, vs, tables) },
			StartAt:  a.cfg.Source.Start,
			OnLost:   a.cfg.Source.OnLost,
			OnSwap:   a.cfg.Source.OnSwap,
			Observer: a.metrics, Log: log,
			Memory:    a.cfg.Limits.Memory,
			Interval:  a.cfg.Checkpoint.Interval,
			Rate:      a.cfg.Rebuild.Rate,
			SavesIdle: a.cfg.Checkpoint.Store != "mysql",
		})
	}
	return nil
}

// openSink makes a sink of its configured type.
func openSink(cfg *config.Config, sink *config.Sink, log *slog.Logger) (replicator.Sink, error) {
	switch sink.Type {
	case "mysql":
		return openMySQL(cfg, sink, log)
	case "redis":
		return openRedis(cfg, sink, log)
	case "elastic":
		return openElastic(cfg, sink, log)
	}
	return nil, usageError{fmt.Errorf("%s: sink %s: this version keeps no views in sinks of type %q", cfg.File, sink.Name, sink.Type)}
}

// openMySQL makes a MySQL sink: one of several shards if there are several.
func openMySQL(cfg *config.Config, sink *config.Sink, log *slog.Logger) (replicator.Sink, error) {
	c := mysql.Config{Name: sink.Name, Tables: cfg.Tables, Logger: log, Columns: sourceColumns(cfg, log), Timeout: sink.Timeout}
	if len(sink.Shards) == 1 {
		c.DSN = sink.Shards[0].DSN.Reveal()
		return mysql.New(c)
	}
	var shards []mysql.Shard
	for _, s := range sink.Shards {
		shards = append(shards, mysql.Shard{Name: s.Name, DSN: s.DSN.Reveal()})
	}
	return mysql.NewSharded(c, shards, viewsOf(cfg, sink.Name))
}

// openRedis makes a Redis sink.
func openRedis(cfg *config.Config, sink *config.Sink, log *slog.Logger) (replicator.Sink, error) {
	c := redisConfig(sink, log)
	var err error
	if c.Names, err = view.NewNames(viewsOf(cfg, sink.Name), cfg.Tables); err != nil {
		return nil, usageError{fmt.Errorf("%s: %w", cfg.File, err)}
	}
	return redis.New(c)
}

func redisConfig(sink *config.Sink, log *slog.Logger) redis.Config {
	c := redis.Config{Name: sink.Name, Cluster: sink.Cluster, Sentinel: sink.Sentinel, Username: sink.Username, Password: sink.Password.Reveal(),
		CACert: sink.TLS.CACert, Cert: sink.TLS.Cert, Key: sink.TLS.Key, ServerName: sink.TLS.ServerName, Timeout: sink.Timeout, Logger: log}
	for _, u := range sink.URLs {
		c.URLs = append(c.URLs, u.Reveal())
	}
	return c
}

// newSource makes the source of one shard, which delivers the given tables. The DSN's readTimeout is how long the
// binlog's connection may be silent, too; heartbeats come often enough for it. serverID is the replica id of its first
// reader, further ones count up; 0: random.
func newSource(shard config.Shard, tables []replicator.Table, log *slog.Logger, serverID uint32) (*canal.Source, error) {
	c := canal.Config{Name: shard.Name, DSN: shard.DSN.Reveal(), Tables: tables, ServerID: serverID, Logger: log}
	dsn, err := driver.ParseDSN(c.DSN)
	if err != nil {
		return nil, fmt.Errorf("source %s: its dsn can't be read", shard.Name) // err may quote it
	}
	if dsn.ReadTimeout > 0 {
		c.ReadTimeout, c.Heartbeat = dsn.ReadTimeout, dsn.ReadTimeout/3
	}
	return canal.New(c)
}

// serverID is the replica id for the next source: the configured one and then others far from it, since of two replicas
// with one id MariaDB ends the older.
func (a *app) serverID() uint32 {
	if a.cfg.Source.ServerID == 0 {
		return 0
	}
	const apart = 10_000 // more than the readers that one source ever has
	return a.cfg.Source.ServerID + apart*uint32(len(a.sources))
}

// viewsOf are the views of one sink.
func viewsOf(cfg *config.Config, sink string) []*replicator.View {
	var views []*replicator.View
	for _, v := range cfg.Views {
		if v.Sink == sink {
			views = append(views, v)
		}
	}
	return views
}

// clones are views of a pipeline's own, which gives them the fingerprints that they have with its source's tables.
func clones(views []*replicator.View) []*replicator.View {
	own := make([]*replicator.View, len(views))
	for i, v := range views {
		c := *v
		own[i] = &c
	}
	return own
}

// tablesOf are the tables of a shard that feed the views, with the columns that they need.
func tablesOf(cfg *config.Config, shard config.Shard, views []*replicator.View) ([]replicator.Table, error) {
	var tables []replicator.Table
	var err error
	for _, t := range cfg.ShardTables(shard) {
		fed := slices.ContainsFunc(views, func(v *replicator.View) bool {
			return slices.ContainsFunc(v.From, func(f replicator.Feed) bool { return f.Table == t.Name })
		})
		if fed {
			if t.Columns, err = view.Columns(views, t); err != nil {
				return nil, usageError{fmt.Errorf("%s: %w", cfg.File, err)}
			}
			t.Values = valuesOf(cfg.Views, t.Name)
			tables = append(tables, t)
		}
	}
	return tables, nil
}

// valuesOf are the values of a table's column role that views name.
func valuesOf(views []*replicator.View, table string) (values []string) {
	for _, v := range views {
		for _, f := range v.From {
			if f.Table == table && f.Column != "" && !slices.Contains(values, f.Column) {
				values = append(values, f.Column)
			}
		}
	}
	return values
}

// close closes what is open.
func (a *app) close() error {
	var errs []error
	for _, s := range a.sinks {
		errs = append(errs, s.Close())
	}
	for _, s := range a.sources {
		errs = append(errs, s.Close())
	}
	if a.store != nil {
		errs = append(errs, a.store.Close())
	}
	return errors.Join(errs...)
}
