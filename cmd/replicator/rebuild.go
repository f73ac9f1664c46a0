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
		Short: "Make views again from offset zero, while the tail goes on",
		Long: `Makes the named views again from offset zero, all in one scan of their tables, and returns when that
is done. A MySQL or Elasticsearch view is filled beside the live one and swapped in atomically, so
that no reader ever sees it half done. In Redis, with a sharded sink or source, and with --in-place,
every row is written to the live view, and what the source does not confirm is removed.
If a process is running, it does the work; otherwise this command does. An interrupted rebuild
continues at the next start. If a rebuild of the view is under way, the command follows it.`,
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
		"begin at this `offset`, in place, instead of at zero: the value of the offset column; several are joined by :")
	cmd.Flags().BoolVar(&how.InPlace, "in-place", false, "rewrite the live view instead of filling one beside it")
	return cmd
}
