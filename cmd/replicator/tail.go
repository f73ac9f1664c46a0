package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"replicator/service"
)

func tailCommand(o *options) *cobra.Command {
	t := service.Tail{}
	viewName := ""
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Print decoded changes as JSON lines",
		Long: `Prints every change of the configured tables as a JSON line: table, op, key, column, version,
position, time, body; of a source of several servers, also source. It needs no sink and saves
nothing. With --view it prints what that view would be given. The version and the body of a row
are null where the binlog does not hold all of it (binlog_row_image, for example): the program
reads such rows from the source.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if t.From != service.Latest && t.From != service.Earliest {
				return usageError{fmt.Errorf("--from is latest or earliest, not %q", t.From)}
			}
			if t.Limit < 0 {
				return usageError{fmt.Errorf("--limit: %d is negative", t.Limit)}
			}
			if t.Setup, err = o.setup(viewsNamed(viewName)...); err != nil {
				return err
			}
			t.View = t.Config.View(viewName)
			return t.Run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&viewName, "view", "", "print what this `view` would be given")
	_ = cmd.RegisterFlagCompletionFunc("view", o.completeView)
	cmd.Flags().Bool("json", true, "JSON lines, which it always prints")
	cmd.Flags().StringVar(&t.From, "from", service.Latest, "where to begin: latest or earliest")
	cmd.Flags().IntVar(&t.Limit, "limit", 0, "stop after this many lines (0: when interrupted)")
	return cmd
}
