package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"replicator"
	"replicator/service"
)

func explainCommand(o *options) *cobra.Command {
	asJSON := false
	var values, group []string
	cmd := &cobra.Command{
		Use:   "explain VIEW {KEY | --value VALUE | --group VALUE}",
		Short: "Show one entity, a value's entities, or a sum's cells, and why the view differs",
		Long: `Shows one entity: the newest row of each of its cells in the source, the rows that are joined with
it, the entries that the view should have, the entries that it has instead, the version that the sink
applied last, and the entity's dead letters.
KEY has the form that listings show: 32 hexadecimal digits or a UUID for 16 bytes. If the key has
several columns, join its parts with ":".

For an index, --value shows the entities that are listed under a value. For a counter or a ranking,
--group shows the cells that make up a sum, with their amounts. At most 50 cells are shown, each with
its state in the source. If an index has several fields, or a group several columns, repeat the flag, or
join the values with ":" as in keys. In Redis the values are those of the key's template and, for a
ranking, also those of its member. For --group, the program searches all states in the sink.`,
		Args: func(cmd *cobra.Command, args []string) error {
			listed := len(values)+len(group) > 0
			switch {
			case len(values) > 0 && len(group) > 0:
				return usageError{errors.New("--value is for an index, --group is for a counter or a ranking. " +
					"Use only one of them")}
			case len(args) == 1 && !listed:
				return usageError{errors.New("a KEY is missing after the view. " +
					"For an index use --value, for a counter or a ranking --group")}
			case listed:
				return cobra.ExactArgs(1)(cmd, args)
			}
			return cobra.ExactArgs(2)(cmd, args)
		},
		Example: `  replicator explain users 71f0c4d2-2918-44cc-a2df-6f486e96e37c
  replicator explain index_users_email --value ada@example.com
  replicator explain favorite_counter --group 12`,
		RunE: func(cmd *cobra.Command, args []string) error {
			setup, err := o.setup(args[0])
			if err != nil {
				return err
			}
			view, out := setup.Config.View(args[0]), cmd.OutOrStdout()
			by, at := service.ByValue, values
			if len(group) > 0 {
				by, at = service.ByGroup, group
			}
			if len(at) > 0 {
				found, all, err := service.List(cmd.Context(), setup, view, by, at)
				if err != nil {
					return err
				}
				if asJSON {
					return errors.Join(printJSON(out, []service.Listing{found}), printJSON(out, all))
				}
				return printListing(out, found, all)
			}
			all, err := service.Explain(cmd.Context(), setup, view, args[1])
			if asJSON {
				return errors.Join(err, printJSON(out, all))
			}
			for _, e := range all {
				printExplanation(out, e)
			}
			return err
		},
	}
	cmd.ValidArgsFunction = o.completeView
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object per line; listings begin with a summary")
	cmd.Flags().StringArrayVar(&values, string(service.ByValue), nil,
		"for an index: show the entities that are listed under this value")
	cmd.Flags().StringArrayVar(&group, string(service.ByGroup), nil,
		"for a counter or a ranking: show the cells that make up this group's sum")
	return cmd
}

// printListing prints a summary, a table of the cells, and an explanation of each cell that differs.
func printListing(out io.Writer, found service.Listing, all []service.Explanation) error {
	fmt.Fprintf(out, "view   %s, %s\n", found.View, found.Place)
	if found.Shown != "" {
		fmt.Fprintf(out, "shows  %s\n", found.Shown)
	}
	listed := "listed"
	if found.Sum != nil {
		listed = "add up to " + string(found.Sum)
	}
	fmt.Fprintf(out, "cells  %d, %s\n", found.Cells, listed)
	for _, name := range found.Orphans {
		fmt.Fprintf(out, "orphan %s\n", name)
	}
	if found.Why != "" {
		fmt.Fprintf(out, "why    %s\n", found.Why)
	}
	if len(all) == 0 {
		return nil
	}
	header := []string{"cell", "key", "version", "sink", "source"}
	if found.Sum != nil {
		header = append([]string{"amount"}, header...)
	}
	var rows [][]string
	for _, e := range all {
		rows = append(rows, listedRow(e, found.Sum != nil))
	}
	fmt.Fprintln(out)
	if err := printTable(out, header, rows); err != nil {
		return err
	}
	if found.Cells > len(all) {
		fmt.Fprintf(out, "… there are more; the first %d are shown\n", len(all))
	}
	for _, e := range all {
		if e.Holds != service.AsExpected {
			fmt.Fprintf(out, "\n%s %s: %s", cellName(e), e.Key, e.Why)
		}
	}
	fmt.Fprintln(out)
	return nil
}

// listedRow returns a cell's row in a listing. Its last column has the entries that the view should have, according to
// the source.
func listedRow(e service.Explanation, sums bool) (row []string) {
	should := make([]string, len(e.Expected))
	for i, x := range e.Expected {
		should[i] = string(x)
	}
	said := strings.Join(should, " ")
	switch {
	case !e.Exists:
		said = "no such cell"
	case said == "":
		said = "no entry in the view"
	}
	if sums {
		row = append(row, string(e.Amount))
	}
	return append(row, cellName(e), e.Key, numberOr(e.Version), e.Holds, said)
}

func cellName(e service.Explanation) string {
	if e.Column == "" {
		return e.Table
	}
	return e.Table + "." + e.Column
}

func numberOr(n *int64) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatInt(*n, 10)
}

func printExplanation(out io.Writer, e service.Explanation) {
	fmt.Fprintf(out, "cell      %s %s\n", cellName(e), e.Key)
	row := ""
	if e.Row != nil {
		row = ": " + string(e.Row)
	}
	fmt.Fprintf(out, "source    newest version %s%s\n", numberOr(e.Version), row)
	printJoins(out, e.Joins)
	if len(e.Refused) > 0 {
		printEntries(out, "view      "+e.View+" can't hold: ", e.Refused)
	} else {
		printEntries(out, "view      "+e.View+" should hold: ", e.Expected)
	}
	holds := e.Holds
	if len(e.Shards) > 0 {
		holds += " in shard " + strings.Join(e.Shards, " and in shard ")
	}
	fmt.Fprintf(out, "sink      %s; last applied version %s\n", holds, numberOr(e.Applied))
	if e.Holds != service.AsExpected && e.Holds != service.Unknown {
		printEntries(out, "          it holds: ", e.Held)
	}
	for _, l := range e.Letters {
		fmt.Fprintf(out, "dead      %s at %s: %s\n", l.ID, l.Position, l.Reason)
	}
	fmt.Fprintf(out, "because   %s\n\n", e.Why)
}

// printJoins prints the rows that an entity is joined with, and the condition of each join.
func printJoins(out io.Writer, joins []service.ExplainedJoin) {
	for _, j := range joins {
		where := ""
		if j.Where != "" {
			where = ", only rows where " + j.Where
		}
		fmt.Fprintf(out, "join      %s: %s%s\n", j.Join, j.Condition, where)
		for _, r := range j.Rows {
			name := r.Table
			if r.Column != "" {
				name += "." + r.Column
			}
			fmt.Fprintf(out, "          %s %s, newest version %d: %s\n", name, r.Key, r.Version, r.Row)
		}
		switch {
		case j.Found == 0:
			fmt.Fprintln(out, "          no row")
		case j.Found > replicator.MaxJoined:
			fmt.Fprintf(out, "          … more than %d rows in total, the first %d are shown\n", replicator.MaxJoined,
				len(j.Rows))
		case j.Found > len(j.Rows):
			fmt.Fprintf(out, "          … the first %d of %d rows are shown\n", len(j.Rows), j.Found)
		}
	}
}

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
