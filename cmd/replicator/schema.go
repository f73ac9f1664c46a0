package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"replicator"
	"replicator/service"
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
