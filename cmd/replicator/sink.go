package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"replicator"
	"replicator/config"
	"replicator/internal/seen"
	"replicator/service"
	"replicator/view"
)

func openSink(cfg *config.Config, sink *config.Sink, log *slog.Logger) (replicator.Sink, error) {
	views := service.ViewsOf(cfg, sink.Name)
	wrong := func(err error) error {
		if err == nil {
			return nil
		}
		return usageError{fmt.Errorf("%s: %w", cfg.File, err)}
	}
	o := config.Opening{
		Views: views, Tables: cfg.Tables, Log: log, Columns: sourceColumns(cfg, log), Feeds: service.Feeds(cfg),
		InPlace: cfg.Source.Kafka != nil || sourceShard(cfg, "").Name != "",
		Samples: func(ctx context.Context, source string, v *replicator.View) ([]seen.Values, error) {
			return service.Samples(ctx, cfg, sourceShard(cfg, source), v)
		},
		Names: func() (config.Names, error) {
			names, err := view.NewNames(views, cfg.Tables)
			return names, wrong(err)
		},
		Entities: func() (func(*replicator.View, replicator.Cell) (key, member string, err error), error) {
			entities, err := view.Entities(views, cfg.Tables)
			return entities, wrong(err)
		},
	}
	if len(cfg.Source.Shards) == 0 { // the source is Kafka, and the file names no MySQL server to ask
		o.Samples = nil
		o.Columns = func(context.Context, string, string) ([]config.Column, error) { return nil, nil }
	}
	if cfg.Source.Kafka == nil { // with Kafka, the views' sources are topics, not shards
		o.Sources = cfg.Source.ShardNames()
	} else if len(cfg.Source.Kafka.Topics) > 1 {
		o.Partitions = service.Partitions(cfg)
	}
	return sink.Open(o)
}

// sourceShard returns the source's shard of that name. If no shard has the name, it returns the first shard, because
// all shards have the same tables.
func sourceShard(cfg *config.Config, name string) config.Shard {
	i := slices.IndexFunc(cfg.Source.Shards, func(s config.Shard) bool { return s.Name == name })
	return cfg.Source.Shards[max(i, 0)]
}

// sourceColumns returns a function that reads the columns of a table from a shard of the source. Sinks need the types
// and collations, because a target must distinguish all values that the source distinguishes. The function opens its
// own connection each time.
func sourceColumns(cfg *config.Config, log *slog.Logger) func(ctx context.Context, source,
	table string) ([]config.Column, error) {
	return func(ctx context.Context, source, table string) ([]config.Column, error) {
		shard := sourceShard(cfg, source)
		from, err := service.NewSource(shard, cfg.ShardTables(shard), nil, log, 0)
		if err != nil {
			return nil, err
		}
		found, err := from.Columns(ctx, table)
		columns := make([]config.Column, len(found))
		for i, c := range found {
			columns[i] = config.Column{Name: c.Name, Type: c.Type, Charset: c.Charset, Collation: c.Collation}
		}
		return columns, errors.Join(err, from.Close())
	}
}
