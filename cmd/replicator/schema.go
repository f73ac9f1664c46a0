package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"replicator"
	"replicator/config"
)

// schemer is a sink that can say the DDL of targets that are missing.
type schemer interface {
	Schema(ctx context.Context, views []*replicator.View) ([]string, error)
}

func schemaCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the DDL of target tables that are missing",
		Long: `Prints CREATE TABLE statements for the target tables that the configured views need and that are not there yet.
Nothing is created: read them, adapt them, and run them yourself (or set create = true on a view).`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return schema(cmd.Context(), o, cmd.OutOrStdout()) },
	}
}

func schema(ctx context.Context, o *options, out io.Writer) error {
	cfg, err := o.load()
	if err != nil {
		return err
	}
	log, err := o.logger()
	if err != nil {
		return err
	}
	if err := fingerprint(cfg); err != nil {
		return err
	}
	for i := range cfg.Sinks {
		sink, err := openSink(cfg, &cfg.Sinks[i], log)
		if err != nil {
			return err
		}
		if s, ok := sink.(schemer); ok {
			statements, err := s.Schema(ctx, viewsOf(cfg, cfg.Sinks[i].Name))
			if err != nil {
				return errors.Join(fmt.Errorf("sink %s: %w", cfg.Sinks[i].Name, err), sink.Close())
			}
			for _, statement := range statements {
				fmt.Fprintf(out, "%s;\n\n", statement)
			}
		}
		if err := sink.Close(); err != nil {
			return err
		}
	}
	return nil
}

// columnTypes asks the source (of several shards the first: they are alike) for the types of its columns, for the DDL of
// targets. It connects when it is asked.
func columnTypes(cfg *config.Config, log *slog.Logger) func(ctx context.Context, table, column string) (string, error) {
	return func(ctx context.Context, table, column string) (string, error) {
		shard := cfg.Source.Shards[0]
		source, err := newSource(shard, cfg.ShardTables(shard), log, 0)
		if err != nil {
			return "", err
		}
		typ, err := source.ColumnType(ctx, table, column)
		return typ, errors.Join(err, source.Close())
	}
}
