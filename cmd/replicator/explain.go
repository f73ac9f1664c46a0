package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"replicator/service"
)

func explainCommand(o *options) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "explain VIEW KEY",
		Short: "Show one entity: its cells, what the view should hold, what the sink holds, and why they differ",
		Long: `Shows one entity: the newest row of each of its cells in the source, what the view should hold of
it, what the sink holds instead, which version the sink applied last, and the entity's dead letters.
KEY is as listings show it: 32 hexadecimal digits or a UUID for 16 bytes; the parts of a key of
several columns are joined by ":".`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			setup, err := o.setup(args[0])
			if err != nil {
				return err
			}
			all, err := service.Explain(cmd.Context(), setup, setup.Config.View(args[0]), args[1])
			if asJSON {
				return errors.Join(err, printJSON(cmd.OutOrStdout(), all))
			}
			for _, e := range all {
				printExplanation(cmd.OutOrStdout(), e)
			}
			return err
		},
	}
	cmd.ValidArgsFunction = o.completeView
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object per line")
	return cmd
}

func printExplanation(out io.Writer, e service.Explanation) {
	number := func(n *int64) string {
		if n == nil {
			return "-"
		}
		return strconv.FormatInt(*n, 10)
	}
	name := e.Table
	if e.Column != "" {
		name += "." + e.Column
	}
	fmt.Fprintf(out, "cell      %s %s\n", name, e.Key)
	row := ""
	if e.Row != nil {
		row = ": " + string(e.Row)
	}
	fmt.Fprintf(out, "source    newest version %s%s\n", number(e.Version), row)
	if len(e.Refused) > 0 {
		printEntries(out, "view      "+e.View+" can't hold: ", e.Refused)
	} else {
		printEntries(out, "view      "+e.View+" should hold: ", e.Expected)
	}
	holds := e.Holds
	if len(e.Shards) > 0 {
		holds += " in shard " + strings.Join(e.Shards, " and in shard ")
	}
	fmt.Fprintf(out, "sink      %s; last applied version %s\n", holds, number(e.Applied))
	if e.Holds != service.AsExpected && e.Holds != service.Unknown {
		printEntries(out, "          it holds: ", e.Held)
	}
	for _, l := range e.Letters {
		fmt.Fprintf(out, "dead      %s at %s: %s\n", l.ID, l.Position, l.Reason)
	}
	fmt.Fprintf(out, "because   %s\n\n", e.Why)
}

// printEntries prints entries, each on a line of its own.
func printEntries(out io.Writer, title string, entries []json.RawMessage) {
	fmt.Fprint(out, title)
	if len(entries) == 0 {
		fmt.Fprintln(out, "nothing")
	}
	for i, x := range entries {
		if i > 0 {
			fmt.Fprint(out, strings.Repeat(" ", 10))
		}
		fmt.Fprintf(out, "%s\n", x)
	}
}
