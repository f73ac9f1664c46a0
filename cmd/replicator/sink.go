package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"replicator"
	"replicator/config"
	"replicator/service"
	"replicator/view"
)

// openSink makes a sink of its configured type.
func openSink(cfg *config.Config, sink *config.Sink, log *slog.Logger) (replicator.Sink, error) {
	views := service.ViewsOf(cfg, sink.Name)
	wrong := func(err error) error {
		if err == nil {
			return nil
		}
		return usageError{fmt.Errorf("%s: %w", cfg.File, err)}
	}
	o := config.Opening{
		Views: views, Tables: cfg.Tables, Log: log, Columns: sourceColumns(cfg, log),
		Names: func(stored func(*replicator.View) string) (config.Names, error) {
			names, err := view.NewNames(views, cfg.Tables, stored)
			return names, wrong(err)
		},
		Entities: func() (func(*replicator.View, replicator.Cell) (key, member string, err error), error) {
			entities, err := view.Entities(views, cfg.Tables)
			return entities, wrong(err)
		},
	}
	for _, shard := range cfg.Source.Shards {
		o.Sources = append(o.Sources, shard.Name)
	}
	return sink.Open(o)
}

// sourceColumns asks a shard of the source (the first if none is named: they are alike) for the columns of a table, for
// the targets that have to tell apart what these do. It connects when it is asked.
func sourceColumns(cfg *config.Config, log *slog.Logger) func(ctx context.Context, source,
	table string) ([]config.Column, error) {
	return func(ctx context.Context, source, table string) ([]config.Column, error) {
		shard := cfg.Source.Shards[0]
		if i := slices.IndexFunc(cfg.Source.Shards, func(s config.Shard) bool { return s.Name == source }); i >= 0 {
			shard = cfg.Source.Shards[i]
		}
		from, err := service.NewSource(shard, cfg.ShardTables(shard), log, 0)
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
