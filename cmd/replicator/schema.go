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

// schemer is a sink that can return DDL for targets that don't exist yet.
type schemer interface {
	Schema(ctx context.Context, views []*replicator.View) ([]string, error)
}

func schemaCommand(o *options) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Print the DDL of missing target tables",
		Long: `Prints CREATE TABLE statements for target tables that the configured views need and that don't exist yet.
It creates nothing. Review and adapt the statements, then run them yourself, or set create = true on a view.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return schema(cmd.Context(), o, cmd.OutOrStdout(), asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object per line")
	return cmd
}

type missingTarget struct {
	Sink string `json:"sink"`
	DDL  string `json:"ddl"`
}

func schema(ctx context.Context, o *options, out io.Writer, asJSON bool) error {
	setup, err := o.setup()
	if err != nil {
		return err
	}
	cfg := setup.Config
	var missing []missingTarget // printed only when complete, so that the operator doesn't run half of the DDL
	for i := range cfg.Sinks {
		sink, err := openSink(cfg, &cfg.Sinks[i], setup.Log)
		if err != nil {
			return err
		}
		if s, ok := sink.(schemer); ok {
			statements, err := s.Schema(ctx, service.ViewsOf(cfg, cfg.Sinks[i].Name))
			if replicator.IsOfSource(err) {
				err = fmt.Errorf("%w. The columns' types come from the source; `replicator check` shows what is "+
					"wrong with the source", err)
			}
			if err != nil {
				return errors.Join(fmt.Errorf("sink %s: %w", cfg.Sinks[i].Name, err), sink.Close())
			}
			for _, statement := range statements {
				missing = append(missing, missingTarget{cfg.Sinks[i].Name, statement})
			}
		}
		if err := sink.Close(); err != nil {
			return err
		}
	}
	if asJSON {
		return printJSON(out, missing)
	}
	for _, m := range missing {
		if _, err := fmt.Fprintf(out, "%s;\n\n", m.DDL); err != nil {
			return err
		}
	}
	return nil
}
