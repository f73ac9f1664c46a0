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

func checkCommand(o *options) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check configuration, connections, grants, binlog settings, retention and target tables",
		Long: `Checks everything that a run needs and prints a line for each check, with a fix for each failure.
It tries a few hundred rows of each table: whether their bodies can be decoded, whether they have the
properties and columns that the views name, and whether values of bodies fit the columns of MySQL tables.
Exit status: 0 if a run would start, 1 if not, 2 if the configuration itself is wrong.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return check(cmd.Context(), o, cmd.OutOrStdout(), asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object per line")
	return cmd
}

func check(ctx context.Context, o *options, out io.Writer, asJSON bool) error {
	setup, err := o.setup()
	if err != nil {
		return err
	}
	cfg := setup.Config
	findings := []replicator.Finding{{What: "configuration", Level: replicator.OK, Detail: cfg.File + ": " +
		plural(len(cfg.Tables), "table") + ", " + plural(len(cfg.Sinks), "sink") + ", " + plural(len(cfg.Views), "view")}}
	more, err := service.Check(ctx, setup)
	if err != nil {
		return err
	}
	findings = append(findings, more...)
	for i := range findings {
		f := &findings[i]
		f.Detail, f.Fix = o.file.In(f.Detail), o.file.In(f.Fix)
	}
	return report(out, findings, asJSON)
}

// report prints findings. It returns an error if any finding is a failure.
func report(out io.Writer, findings []replicator.Finding, asJSON bool) error {
	failed := 0
	type line struct {
		What   string `json:"what"`
		Level  string `json:"level"`
		Detail string `json:"detail"`
		Fix    string `json:"fix,omitempty"`
	}
	var lines []line
	for _, f := range findings {
		if f.Level == replicator.Fail {
			failed++
		}
		lines = append(lines, line{f.What, string(f.Level), f.Detail, f.Fix})
	}
	if asJSON {
		if err := printJSON(out, lines); err != nil {
			return err
		}
	} else {
		colour := newTerminal(out).colour
		for _, l := range lines {
			level := painted{fmt.Sprintf("%-4s", l.Level), levelColour(replicator.Level(l.Level))}
			fmt.Fprintf(out, "%s  %s: %s\n", level.show(colour), l.What, l.Detail)
			if l.Fix != "" {
				fmt.Fprintf(out, "      → %s\n", l.Fix)
			}
		}
	}
	if failed > 0 {
		return errors.New(plural(failed, "check") + " failed")
	}
	return nil
}

func levelColour(l replicator.Level) paint {
	switch l {
	case replicator.OK:
		return green
	case replicator.Warn:
		return yellow
	}
	return red
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
