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
		Short: "Print what a changed file will do to each view: fill, rebuild, refuse, end",
		Long: `Prints for each view what the file will do once the running program reloads it (SIGHUP). If the program
isn't running, it prints what will happen at the next start:
  fill       the view is new, or its sink lost it: it is filled from offset zero
  start      the view is new, and [source] start is earliest or latest: it starts there in the binlog
  rebuild    the view's definition changed, and the view has on_change = "rebuild"
  refused    the view will not run, but the others will; with the reason and a fix
  resume     the view was in the file before: it continues from its last position
  end        the view is no longer in the file: the program stops writing it, and its data stays
  unchanged  the view continues
It also prints the source's estimate of the rows to scan, and how long the scan takes. The assumed rate is
--rate, or the rate of a running fill into the same sink, or 20,000 rows a second, but at most
[rebuild] rate. The output names the assumed rate.
The command starts nothing and writes nothing. To check what the views' targets need, use replicator check.
A file that can't be read or used changes nothing. In this case, every view of the running program is
printed as unchanged, with the file's error, and the exit status is 2.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if rate < 0 {
				return usageError{fmt.Errorf("--rate: %d is negative", rate)}
			}
			return plan(cmd, o, rate, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object per line")
	cmd.Flags().IntVar(&rate, "rate", 0, "the assumed rate of fills, in `rows` a second")
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
		err = fmt.Errorf("%s could not be planned, for the reasons above. `replicator check` shows what is missing",
			plural(unknown, "view"))
	}
	return err
}

// planDespite prints the plan of a file that can't be used: the running program leaves every view unchanged. It returns
// the file's error.
func planDespite(cmd *cobra.Command, o *options, wrong error, asJSON bool) error {
	running, err := o.askDespite(cmd.Context(), wrong, io.Discard)
	if err != nil {
		return err
	}
	var views []service.PlannedView
	for _, v := range running {
		same := func(other service.PlannedView) bool { return other.View == v.View }
		if !slices.ContainsFunc(views, same) { // a view has one status per source, but is planned once
			views = append(views, service.PlannedView{
				View: v.View, Sink: v.Sink, Kind: v.Kind, Action: service.PlanUnchanged,
				Reason: "the file can't be used, so the running process keeps the configuration that it has",
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
		_, err = fmt.Fprintf(out, "\nRows are estimated by the source.\nTimes assume that a fill scans %s.\n",
			strings.Join(rates, ",\n  and "))
	}
	return err
}

// saidRate returns the rate that the duration of a view's fill assumes, and where the rate comes from, as text.
func saidRate(v service.PlannedView) string {
	why := map[string]string{
		service.RateAsked:   "from --rate",
		service.RateLimit:   "from [rebuild] rate",
		service.RateFill:    "the rate of the fill into sink " + v.Sink + " that runs now",
		service.RateAssumed: "a default; change it with --rate",
	}
	return fmt.Sprintf("%d rows a second (%s)", v.Rate, why[v.RateFrom])
}
