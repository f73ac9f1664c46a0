package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"replicator/config"
	"replicator/service"
	"replicator/verify"
)

// differencesError means that verify found dead letters, or differences that remain.
type differencesError struct {
	n, dead int64
	newer   []string // views that a repair can't fix, because the sink has newer versions than the source
	beyond  []string // views that were repaired and still differ
}

func (e differencesError) Error() string {
	var left []string
	switch {
	case len(e.newer) > 0:
		left = append(left, plural(int(e.n), "difference")+" left that the repair could not fix. The sink "+
			"has applied newer versions of these cells than the source has. Use `replicator rebuild "+
			strings.Join(e.newer, " ")+"`")
	case len(e.beyond) > 0:
		left = append(left, plural(int(e.n), "difference")+" left after the repair. Repair again, or use "+
			"`replicator rebuild "+strings.Join(e.beyond, " ")+"`")
	case e.n > 0:
		left = append(left, plural(int(e.n), "difference")+" left. `replicator verify --repair` fixes them")
	}
	if e.dead > 0 {
		left = append(left, plural(int(e.dead), "dead letter")+", which a repair can't fix. "+
			"`replicator deadletters list` shows the reasons. Write newer versions, or fix the cause and then use "+
			"`replicator deadletters retry --all`")
	}
	return strings.Join(left, "; ")
}

func verifyCommand(o *options) *cobra.Command {
	v := service.Verification{}
	asJSON, all, sample := false, false, ""
	cmd := &cobra.Command{
		Use:   "verify [VIEW…]",
		Short: "Compare views with the source; --repair fixes differences",
		Long: `Compares the named views (all, if none is named) with the newest cells of the source. It counts
differences as missing, stale, extra or dead. A dead cell is absent because it can't be decoded,
computed or stored. --repair fixes the other three, in all views of the sink that are kept up, so that
these views still agree. The command can run while the program and the application run: it re-reads a
cell that differs after the view has had time to include it. It lists 20 differences of each view,
or all of them with --all. The exit status is 3 if differences remain, including dead cells.`,
		RunE: func(cmd *cobra.Command, names []string) (err error) {
			if v.Setup, err = o.setup(names...); err != nil {
				return err
			}
			if sample != "" {
				if v.Sample, err = config.Share(sample); err != nil {
					return usageError{fmt.Errorf("--sample: %q is %w", sample, err)}
				}
			}
			if v.Rate < 0 {
				return usageError{fmt.Errorf("--rate: %d is negative", v.Rate)}
			}
			if len(names) == 0 {
				names = viewNames(v.Config)
			}
			if all {
				v.Listed = math.MaxInt
			}
			bars := &bars{out: cmd.ErrOrStderr()}
			v.Say = func(text string) {
				bars.end()
				fmt.Fprintln(cmd.ErrOrStderr(), "replicator:", o.file.In(text))
			}
			v.Progress = bars.verifying
			results, err := v.Run(cmd.Context(), names)
			bars.end()
			return reportVerified(cmd.OutOrStdout(), results, err, v.Repair, asJSON)
		},
	}
	cmd.ValidArgsFunction = o.completeViews
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object per line")
	cmd.Flags().BoolVar(&all, "all", false, "list all differences, not the first 20 of each view")
	cmd.Flags().BoolVar(&v.Repair, "repair", false, "fix the differences")
	cmd.Flags().StringVar(&sample, "sample", "", "compare only this `share` of the entities, such as 1%")
	cmd.Flags().IntVar(&v.Rate, "rate", 0, "cells per second; 0: no limit")
	return cmd
}

// reportVerified prints the results of the views that were verified. It returns an error if views could not be verified
// or if differences or dead letters remain.
func reportVerified(out io.Writer, results []verify.Result, failed error, repaired, asJSON bool) error {
	remaining := differencesError{}
	for _, r := range results {
		n := r.Remaining() - r.Dead
		if remaining.n += n; n > 0 && repaired {
			remaining.beyond = append(remaining.beyond, r.View)
		}
		if r.Newer > 0 {
			remaining.newer = append(remaining.newer, r.View)
		}
		remaining.dead += r.Dead
	}
	if len(results) > 0 {
		failed = errors.Join(failed, showResults(out, results, asJSON))
	}
	if failed == nil && remaining.n+remaining.dead > 0 {
		return remaining
	}
	return failed
}

func showResults(out io.Writer, results []verify.Result, asJSON bool) error {
	if asJSON {
		return printJSON(out, results)
	}
	count := func(n int64) string { return strconv.FormatInt(n, 10) }
	var rows, cells [][]string
	hidden := int64(0)
	for _, r := range results {
		hidden += r.Missing + r.Stale + r.Extra + r.Dead - int64(len(r.Differences))
		rows = append(rows, []string{r.View, count(r.Checked),
			count(r.Missing), count(r.Stale), count(r.Extra), count(r.Dead), count(r.Repaired)})
		for _, d := range r.Differences {
			difference := string(d.Kind)
			if d.Reason != "" {
				difference += ": " + d.Reason
			}
			cells = append(cells, []string{r.View, d.Key, d.Column, difference})
		}
	}
	header := []string{"view", "checked", "missing", "stale", "extra", "dead", "repaired"}
	if err := printTable(out, header, rows); err != nil || len(cells) == 0 {
		return err
	}
	fmt.Fprintln(out)
	if err := printTable(out, []string{"view", "key", "column", "difference"}, cells); err != nil {
		return err
	}
	if hidden > 0 {
		fmt.Fprintf(out, "and %d more. --all lists them\n", hidden)
	}
	return nil
}

// bars shows the progress of several verifications, one after the other. Without a terminal, it shows only
// verifications that take long.
type bars struct {
	out   io.Writer
	view  string
	shown time.Time // when progress was last shown; before that, when the first verification began
	*progress
}

// quietFor is the interval between lines of progress if the output is not a terminal.
const quietFor = 5 * time.Second

func (b *bars) verifying(view string, at verify.Progress) {
	if b.progress == nil || b.view != view {
		b.end()
		b.view, b.progress = view, newProgress(b.out)
	}
	ratio := 0.0
	if at.Estimate > 0 {
		ratio = min(1, float64(at.Cells)/float64(at.Estimate))
	}
	if b.shown.IsZero() {
		b.shown = time.Now()
	}
	if b.file != nil || time.Since(b.shown) >= quietFor {
		b.shown = time.Now()
		b.Progress("verifying "+view+": "+at.Doing, at.Cells, ratio)
	}
}

func (b *bars) end() {
	if b.progress != nil {
		b.progress.end()
	}
}
