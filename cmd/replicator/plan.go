package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"replicator/service"
)

func planCommand(o *options) *cobra.Command {
	asJSON, rate := false, 0
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Print what a changed file would do to the running program: fill, rebuild, refuse, end",
		Long: `Prints for each view what the file would do once the running program reloads it (SIGHUP), or,
if none runs, once it is started:
  fill       it is new, or its sink lost it: it is filled from offset zero
  start      it is new, and [source] start is earliest or latest: it begins there in the binlog
  rebuild    its definition changed, and it says on_change = "rebuild"
  refused    it does not run, and the others go on; why, and what to do
  resume     it was in the file before: it goes on from where it stood
  end        it is not in the file any more: its writes stop, and what is stored stays
  unchanged  it goes on
with the rows that are to be scanned (the source's estimate) and how long that takes at a rate:
--rate, or [rebuild] rate, or 20,000 rows a second.
It starts nothing and writes nothing. What targets need, replicator check says.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if rate < 0 {
				return usageError{fmt.Errorf("--rate: %d is negative", rate)}
			}
			return plan(cmd.Context(), o, rate, cmd.OutOrStdout(), asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object per line")
	cmd.Flags().IntVar(&rate, "rate", 0, "`rows` a second that fills are taken to write")
	return cmd
}

func plan(ctx context.Context, o *options, rate int, out io.Writer, asJSON bool) error {
	setup, err := o.setup()
	if err != nil {
		return err
	}
	rate = service.PlannedRate(setup.Config, rate)
	views, err := service.Plan(ctx, setup, rate)
	if err != nil {
		return err
	}
	if asJSON {
		err = printJSON(out, views)
	} else {
		err = printPlan(out, views, rate)
	}
	unknown := 0
	for _, v := range views {
		if v.Action == service.PlanUnknown {
			unknown++
		}
	}
	if err == nil && unknown > 0 {
		err = fmt.Errorf("what becomes of %s is not known: `replicator check` says what is missing", plural(unknown, "view"))
	}
	return err
}

func printPlan(out io.Writer, views []service.PlannedView, rate int) error {
	var rows [][]string
	scans := false
	for _, v := range views {
		scanned, took := "-", "-"
		if v.Scans() {
			scans = true
			scanned = strconv.FormatInt(v.Rows, 10)
			took = time.Duration(v.Seconds * float64(time.Second)).Round(time.Second).String()
		}
		rows = append(rows, []string{v.View, v.Sink, v.Kind, v.Action, scanned, took, v.Reason})
	}
	err := printTable(out, []string{"view", "sink", "kind", "action", "rows", "time", "reason"}, rows)
	if err == nil && scans {
		_, err = fmt.Fprintf(out,
			"\nRows are the source's estimate, the time is at %d rows a second; --rate says another.\n", rate)
	}
	return err
}
