package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"replicator"
	"replicator/canal"
	"replicator/codec"
	"replicator/config"
	"replicator/internal/mysqldsn"
	"replicator/kafka"
	"replicator/view"
)

// Setup is what every operation of this package needs: a configuration, a logger, and the function that opens sinks.
type Setup struct {
	Config   *config.Config
	Log      *slog.Logger
	OpenSink func(cfg *config.Config, sink *config.Sink, log *slog.Logger) (replicator.Sink, error)

	before map[string]handedOn // by source or consumer group; nil: no configuration ran before
}

// handedOn is the unsaved state that a new configuration takes over from the previous one.
type handedOn struct {
	shown  map[string]time.Time // by view: the time up to which the view was complete
	paused []string
}

// InvalidError means that a configuration or a request is invalid. Nothing was started or changed.
type InvalidError struct{ Err error }

func (e InvalidError) Error() string { return e.Err.Error() }
func (e InvalidError) Unwrap() error { return e.Err }

// Define checks that the views compile, and sets their fingerprints. If a view doesn't compile, it returns an
// InvalidError.
func Define(cfg *config.Config) error {
	if _, err := compile(cfg, cfg.Views, cfg.Tables); err != nil {
		var at *view.KeyError
		if errors.As(err, &at) {
			key := "views." + at.View + "." + at.Key
			err = &config.Problem{File: cfg.File, Line: cfg.Line(at.View, at.Key), Key: key, Text: at.Err.Error()}
		} else {
			err = fmt.Errorf("%s: %w", cfg.File, err)
		}
		return InvalidError{err}
	}
	for _, v := range cfg.Views {
		v.Fingerprint = view.Fingerprint(v, cfg.Tables)
	}
	return nil
}

// compile creates the evaluator, which computes the contents of views from rows. It decodes bodies with each table's
// codec.
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
		Document: func(table string) (func([]byte) (replicator.Object, error), error) {
			c, err := codec.New(cfg.Table(table).Codec)
			if err != nil || c.String() == "json" {
				return nil, err
			}
			return c.Document, nil
		},
	})
}

func (s Setup) sink(name string) (replicator.Sink, error) {
	return s.OpenSink(s.Config, s.Config.Sink(name), s.Log)
}

func (s Setup) source(shard config.Shard, tables []replicator.Table) (*canal.Source, error) {
	return NewSource(shard, tables, nil, s.Log, 0)
}

// NewSource returns the source of one shard. If the DSN has a readTimeout, it also limits how long the binlog
// connection may be silent. serverID is the replica id of the source's first reader, and further readers count up from
// it; 0 means random ids. layouts may be nil if no position of the source is saved.
func NewSource(shard config.Shard, tables []replicator.Table, layouts replicator.Layouts, log *slog.Logger,
	serverID uint32) (*canal.Source, error) {
	c := canal.Config{Name: shard.Name, DSN: shard.DSN.Reveal(), Tables: tables, Layouts: layouts, ServerID: serverID,
		Logger: log}
	dsn, err := mysqldsn.Parse(c.DSN)
	if err != nil {
		return nil, fmt.Errorf("source %s: can't parse its dsn", shard.Name) // err may contain the DSN
	}
	if dsn.ReadTimeout > 0 {
		c.ReadTimeout, c.Heartbeat = dsn.ReadTimeout, dsn.ReadTimeout/3
	}
	return canal.New(c)
}

func ViewsOf(cfg *config.Config, sink string) []*replicator.View {
	var views []*replicator.View
	for _, v := range cfg.Views {
		if v.Sink == sink {
			views = append(views, v)
		}
	}
	return views
}

// Feeds returns a function that reports whether the named source feeds the views: a configured shard, or a
// partition of a configured topic.
func Feeds(cfg *config.Config) func(source string) bool {
	if from := cfg.Source.Kafka; from != nil {
		return func(source string) bool { return slices.Contains(from.Topics, kafka.TopicOf(source)) }
	}
	names := cfg.Source.ShardNames()
	return func(source string) bool { return slices.Contains(names, source) }
}

// Partitions returns a function that lists the partitions of all configured topics. It asks the brokers until the
// publisher of every topic has recorded the topic's number of partitions, which never changes.
func Partitions(cfg *config.Config) func(ctx context.Context) ([]string, error) {
	var mu sync.Mutex
	var known []string
	return func(ctx context.Context) ([]string, error) {
		mu.Lock()
		defer mu.Unlock()
		if known != nil {
			return known, nil
		}
		cluster, err := Setup{Config: cfg}.cluster()
		if err != nil {
			return nil, err
		}
		defer cluster.Close()
		found, err := cluster.Partitions(ctx, cfg.Source.Kafka.Topics...)
		if err == nil && !slices.ContainsFunc(cfg.Source.Kafka.Topics, func(topic string) bool {
			return !slices.ContainsFunc(found, func(source string) bool { return kafka.TopicOf(source) == topic })
		}) {
			known = found
		}
		return found, err
	}
}

// clones returns copies of views for one pipeline. The pipeline changes the copies: a view's Fingerprint also depends
// on the tables of the pipeline's source.
func clones(views []*replicator.View) []*replicator.View {
	own := make([]*replicator.View, len(views))
	for i, v := range views {
		c := *v
		own[i] = &c
	}
	return own
}

// tablesOf returns the tables of a shard that the views read, with the columns that they need.
func tablesOf(cfg *config.Config, shard config.Shard, views []*replicator.View) ([]replicator.Table, error) {
	tables := slices.DeleteFunc(cfg.ShardTables(shard), func(t replicator.Table) bool {
		return !slices.Contains(replicator.TablesOf(views), t.Name)
	})
	for i := range tables {
		t := &tables[i]
		if err := readBy(t, tables, views); err != nil {
			return nil, InvalidError{fmt.Errorf("%s: %w", cfg.File, err)}
		}
		t.Values = valuesOf(cfg.Views, t.Name)
	}
	return tables, nil
}

// readBy sets what the source of a table must know of the views: the columns that they need, which views read which
// column, and how to read rows of other tables that the views join.
func readBy(t *replicator.Table, tables []replicator.Table, views []*replicator.View) (err error) {
	if t.Columns, t.Optional, err = view.Columns(views, tables, t.Name); err != nil {
		return err
	}
	t.Lookups, t.Joiners = lookupsOf(views, t.Name)
	t.Readers = map[string][]string{}
	for _, v := range views {
		needed, optional, err := view.Columns([]*replicator.View{v}, tables, t.Name)
		if err != nil {
			return err
		}
		optional = slices.DeleteFunc(optional, func(name string) bool { return !slices.Contains(t.Optional, name) })
		for _, name := range slices.Concat(needed, optional) {
			t.Readers[name] = append(t.Readers[name], v.Name)
		}
	}
	return nil
}

// fedBy reports whether the table feeds the view. A table that is only joined doesn't feed it.
func fedBy(v *replicator.View, table string) bool {
	return slices.ContainsFunc(v.From, func(f replicator.Feed) bool { return f.Table == table })
}

// lookupsOf returns the distinct lookups (joins with rows of other tables) of the views that a table feeds. joiners has
// the views of each lookup, by the lookup's ID.
func lookupsOf(views []*replicator.View, table string) (lookups []replicator.Lookup, joiners map[string][]string) {
	joiners = map[string][]string{}
	for _, v := range views {
		if !fedBy(v, table) {
			continue
		}
		own, _ := v.Lookups()
		for _, l := range own {
			if len(joiners[l.ID]) == 0 {
				lookups = append(lookups, l)
			}
			if !slices.Contains(joiners[l.ID], v.Name) {
				joiners[l.ID] = append(joiners[l.ID], v.Name)
			}
		}
	}
	return lookups, joiners
}

// narrowed returns a source of the same server and tables that reads only the columns that the views need.
func narrowed(server *canal.Source, tables []replicator.Table, views []*replicator.View) (replicator.Source, error) {
	tables = slices.Clone(tables)
	for i := range tables {
		if err := readBy(&tables[i], tables, views); err != nil {
			return nil, err
		}
	}
	return server.For(tables)
}

// valuesOf returns the values that the views name in `from` for a table's column with the role `column`.
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
