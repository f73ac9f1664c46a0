package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"replicator/internal/human"
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
with the rows that are to be scanned (the source's estimate) and how long that takes. The rate of rows
is --rate, or that of a fill into the same sink that is under way, or 20,000 a second; [rebuild] rate
where that is lower. What is assumed is said.
It starts nothing and writes nothing. What targets need, replicator check says.
A file that can't be read or used changes nothing either: every view of the running program is printed
as unchanged, with what is wrong with the file, and the exit status is 2.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if rate < 0 {
				return usageError{fmt.Errorf("--rate: %d is negative", rate)}
			}
			return plan(cmd, o, rate, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object per line")
	cmd.Flags().IntVar(&rate, "rate", 0, "`rows` a second that fills are assumed to write")
	return cmd
}

func plan(cmd *cobra.Command, o *options, rate int, asJSON bool) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	setup, err := o.setup()
	if err != nil {
		return planDespite(cmd, o, err, asJSON)
	}
	views, err := service.Plan(ctx, setup, rate)
	if err != nil {
		return err
	}
	for i := range views {
		views[i].Reason = o.file.In(views[i].Reason)
	}
	if asJSON {
		err = printJSON(out, views)
	} else {
		err = printPlan(out, views)
	}
	unknown := 0
	for _, v := range views {
		if v.Action == service.PlanUnknown {
			unknown++
		}
	}
	if err == nil && unknown > 0 {
		err = fmt.Errorf("what the file would do to %s is not known: `replicator check` says what is missing",
			plural(unknown, "view"))
	}
	return err
}

// planDespite prints the plan of an invalid file: the running program changes nothing. It returns the file's error.
func planDespite(cmd *cobra.Command, o *options, wrong error, asJSON bool) error {
	running, err := o.askDespite(cmd.Context(), wrong, io.Discard)
	if err != nil {
		return err
	}
	var views []service.PlannedView
	for _, v := range running {
		same := func(other service.PlannedView) bool { return other.View == v.View }
		if !slices.ContainsFunc(views, same) { // a view has a row for each source
			views = append(views, service.PlannedView{
				View: v.View, Sink: v.Sink, Kind: v.Kind, Action: service.PlanUnchanged,
				Reason: "the file can't be used: the program goes on with what it read before",
			})
		}
	}
	if asJSON {
		err = printJSON(cmd.OutOrStdout(), views)
	} else {
		err = printPlan(cmd.OutOrStdout(), views)
	}
	return errors.Join(err, wrong)
}

func printPlan(out io.Writer, views []service.PlannedView) error {
	var rows [][]string
	var rates []string
	for _, v := range views {
		scanned, took := "-", "-"
		if v.Scans() {
			scanned = strconv.FormatInt(v.Rows, 10)
			took = human.Duration(time.Duration(v.Seconds * float64(time.Second)))
			if said := saidRate(v); !slices.Contains(rates, said) {
				rates = append(rates, said)
			}
		}
		rows = append(rows, []string{v.View, v.Sink, v.Kind, v.Action, scanned, took, v.Reason})
	}
	err := printTable(out, []string{"view", "sink", "kind", "action", "rows", "time", "reason"}, rows)
	if err == nil && len(rates) > 0 {
		_, err = fmt.Fprintf(out, "\nRows are the source's estimate.\nThe time is at %s.\n",
			strings.Join(rates, ",\n  and at "))
	}
	return err
}

// saidRate returns the rate that a view's duration assumes, and where it comes from.
func saidRate(v service.PlannedView) string {
	why := map[string]string{
		service.RateAsked:   "as --rate says",
		service.RateLimit:   "as [rebuild] rate says",
		service.RateFill:    "which a fill into sink " + v.Sink + " does now",
		service.RateAssumed: "which is assumed: --rate says another",
	}
	return fmt.Sprintf("%d rows a second (%s)", v.Rate, why[v.RateFrom])
}
