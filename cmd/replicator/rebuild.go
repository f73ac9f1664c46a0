package main

import (
	"github.com/spf13/cobra"

	"replicator/server"
	"replicator/service"
)

func rebuildCommand(o *options) *cobra.Command {
	how := server.Rebuild{}
	cmd := &cobra.Command{
		Use:   "rebuild VIEW…",
		Short: "Rebuild views from offset zero, while the tail continues",
		Long: `Rebuilds the named views from offset zero, with one scan of their tables, and returns when that is
done. In MySQL and Elasticsearch, it fills a new view next to the live one and swaps them atomically, so
readers never see an incomplete view. In Redis, with a sharded sink or source, or with --in-place, it
writes every row to the live view and then removes what the source doesn't have.
If a process is running, that process rebuilds the views. Otherwise this command does. An interrupted
rebuild continues at the next start. If a rebuild of the view is already running, the command follows it.`,
		Args: o.someViews,
		RunE: func(cmd *cobra.Command, names []string) error {
			setup, err := o.setup(names...)
			if err != nil {
				return err
			}
			p := newProgress(cmd.ErrOrStderr())
			defer p.end()
			return service.Rebuild(cmd.Context(), setup, names, how, p)
		},
	}
	cmd.ValidArgsFunction = o.completeViews
	cmd.Flags().StringVar(&how.From, "from", "",
		"scan from this `offset` instead of from zero, in place: the offset column's value, several joined by \":\"")
	cmd.Flags().BoolVar(&how.InPlace, "in-place", false, "rewrite the live view instead of filling a new one")
	return cmd
}
