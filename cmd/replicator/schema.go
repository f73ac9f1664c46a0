package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"github.com/spf13/cobra"

	"replicator"
	"replicator/config"
	"replicator/service"
	"replicator/sinks/mysql"
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
	setup, err := o.setup()
	if err != nil {
		return err
	}
	cfg := setup.Config
	for i := range cfg.Sinks {
		sink, err := openSink(cfg, &cfg.Sinks[i], setup.Log)
		if err != nil {
			return err
		}
		if s, ok := sink.(schemer); ok {
			statements, err := s.Schema(ctx, service.ViewsOf(cfg, cfg.Sinks[i].Name))
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

// sourceColumns asks a shard of the source (the first if none is named: they are alike) for the columns of a table, for
// the targets that have to tell apart what these do. It connects when it is asked.
func sourceColumns(cfg *config.Config, log *slog.Logger) func(ctx context.Context, source, table string) ([]mysql.SourceColumn, error) {
	return func(ctx context.Context, source, table string) ([]mysql.SourceColumn, error) {
		shard := cfg.Source.Shards[0]
		if i := slices.IndexFunc(cfg.Source.Shards, func(s config.Shard) bool { return s.Name == source }); i >= 0 {
			shard = cfg.Source.Shards[i]
		}
		from, err := service.NewSource(shard, cfg.ShardTables(shard), log, 0)
		if err != nil {
			return nil, err
		}
		found, err := from.Columns(ctx, table)
		columns := make([]mysql.SourceColumn, len(found))
		for i, c := range found {
			columns[i] = mysql.SourceColumn{Name: c.Name, Type: c.Type, Charset: c.Charset, Collation: c.Collation}
		}
		return columns, errors.Join(err, from.Close())
	}
}
