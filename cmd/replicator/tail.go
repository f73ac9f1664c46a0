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
		Long: `Prints every change of the configured tables as a JSON line with table, op, key, column, version,
position, time and body. If the source has several servers, the line also has the source. The command
needs no sink and saves nothing. With --view, it prints the entries that the view would get. If the
binlog doesn't have the whole row, for example because of binlog_row_image, version and body are null;
"replicator run" reads such rows from the source.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if t.From != service.Latest && t.From != service.Earliest {
				return usageError{fmt.Errorf("--from must be latest or earliest, not %q", t.From)}
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
	cmd.Flags().StringVar(&viewName, "view", "", "print the entries that this `view` would get")
	_ = cmd.RegisterFlagCompletionFunc("view", o.completeView)
	cmd.Flags().Bool("json", true, "has no effect: tail always prints JSON lines")
	cmd.Flags().StringVar(&t.From, "from", service.Latest, "where to start: latest or earliest")
	cmd.Flags().IntVar(&t.Limit, "limit", 0, "stop after this many lines; 0: no limit")
	return cmd
}
