package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"replicator"
	"replicator/config"
	"replicator/internal/human"
	"replicator/internal/nearest"
	"replicator/internal/remedy"
	"replicator/server"
	"replicator/service"
)

func statusCommand(o *options) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "status [VIEW…]",
		Short: "Print a row per view: state, position, lag, rate, dead letters",
		Long: `Asks the running process for the state of each view. Named views are shown in full, with the whole error
and what happens next. An error that several views share is shown once, below the table.
If no process runs, it prints the saved positions with the state "stopped" and the time of the last save,
and exits with 1. If the file can't be read while the program runs, it still asks the program, at the
address in the file's [http] section.
` + "`watch replicator status`" + ` prints it again every two seconds. The status page at [http] listen also shows
the last hour.`,
		RunE: func(cmd *cobra.Command, names []string) error {
			return status(cmd, o, names, asJSON)
		},
	}
	cmd.ValidArgsFunction = o.completeViews
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object per line")
	return cmd
}

func status(cmd *cobra.Command, o *options, names []string, asJSON bool) error {
	views, stopped, err := o.askStatus(cmd.Context(), cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if views, err = onlyNamed(views, names); err != nil {
		return err
	}
	t := newTerminal(cmd.OutOrStdout())
	columns, _ := t.size()
	switch {
	case asJSON:
		err = printJSON(t.out, views)
	case len(names) > 0:
		_, err = fmt.Fprintln(t.out, strings.Join(inFull(views, o.file, columns, t.colour), "\n"))
	default:
		_, err = fmt.Fprintln(t.out, strings.Join(statusLines(views, o.file, columns, t.colour), "\n"))
	}
	return errors.Join(err, stopped)
}

// askStatus returns the status of views from the running process. If no process runs, it reads the store, and stopped
// says since when no process has run. It asks the process even if the configuration file is invalid, because an
// operator may be editing the file.
func (o *options) askStatus(ctx context.Context, warnings io.Writer) (views []replicator.ViewStatus, stopped, err error) {
	cfg, wrong := o.loadToAsk()
	if wrong != nil {
		views, err = o.askDespite(ctx, wrong, warnings)
		return views, nil, err
	}
	views, err = service.Client(cfg).Status(ctx)
	if !errors.Is(err, server.ErrNotRunning) {
		return views, nil, err
	}
	if cfg.Checkpoint.Store == "mysql" { // reading the store in MySQL needs the file's secrets
		if cfg, wrong = o.load(); wrong != nil {
			return nil, nil, wrong
		}
	}
	if views, wrong = service.SavedStatus(ctx, cfg); wrong != nil {
		return nil, nil, wrong
	}
	return views, service.Stopped(ctx, cfg, err), nil
}

// askDespite asks the running process although the file is invalid, and prints the file's error as a warning. If the
// process can't be asked, it returns the file's error.
func (o *options) askDespite(ctx context.Context, wrong error, warnings io.Writer) ([]replicator.ViewStatus, error) {
	path, err := o.path()
	if err != nil {
		return nil, err
	}
	listens, err := config.LoadAddress(path, os.LookupEnv)
	if err != nil {
		return nil, wrong
	}
	views, err := service.Client(listens).Status(ctx)
	if err != nil {
		return nil, wrong
	}
	o.file = remedy.File(listens.Path)
	fmt.Fprintf(warnings, "replicator: the file can't be used, so the running process keeps the configuration that it "+
		"has:\n%v\n", wrong)
	return views, nil
}

// onlyNamed returns the status of the named views, or of all views if none is named.
func onlyNamed(views []replicator.ViewStatus, names []string) ([]replicator.ViewStatus, error) {
	if len(names) == 0 {
		return views, nil
	}
	var all []string
	for _, v := range views {
		if !slices.Contains(all, v.View) {
			all = append(all, v.View)
		}
	}
	for _, name := range names {
		if !slices.Contains(all, name) {
			return nil, usageError{fmt.Errorf("unknown view %q%s", name, nearest.Meant(name, all))}
		}
	}
	return slices.DeleteFunc(slices.Clone(views), func(v replicator.ViewStatus) bool {
		return !slices.Contains(names, v.View)
	}), nil
}

// statusLines returns the table of views, followed by each distinct error. On a terminal, each error is shortened to
// one line.
func statusLines(views []replicator.ViewStatus, file remedy.File, columns int, colour bool) []string {
	lines := statusTable(views).narrowed(columns, colour)
	causes := replicator.CausesOf(views)
	if len(causes) > 0 {
		lines = append(lines, "")
	}
	whole := ""
	for _, c := range causes {
		names := strings.Join(c.Views, ", ")
		if columns > 0 && columnsOf(names) > columns/3 && len(c.Views) > 1 {
			names = fmt.Sprintf("%s and %d more", c.Views[0], len(c.Views)-1)
		}
		text := visible(names + ": " + c.Error)
		if columns > 0 && columnsOf(text) > columns {
			whole = strings.Fields(c.Views[0])[0]
		}
		lines = append(lines, painted{cut(text, columns), stateColour(c.State)}.show(colour))
	}
	if whole != "" {
		for _, text := range wrapped(file.In("`replicator status "+whole+"` shows all of it"), columns) {
			lines = append(lines, painted{text, faint}.show(colour))
		}
	}
	if slices.ContainsFunc(views, func(v replicator.ViewStatus) bool { return v.DeadLetters > 0 }) {
		if len(causes) == 0 {
			lines = append(lines, "")
		}
		const text = "dead letters: `replicator deadletters list` shows which rows the views lack, and why"
		lines = append(lines, painted{cut(file.In(text), columns), yellow}.show(colour))
	}
	if len(causes) > 0 {
		lines = append(lines, painted{cut(seeManual, columns), faint}.show(colour))
	}
	lines = append(lines, comparedLines(views, columns)...)
	lines = append(lines, sharedLines(views, columns, colour)...)
	for _, v := range views {
		if v.Evicted > 0 {
			text := fmt.Sprintf("%s: the sink's server evicted %d keys. See docs/operating.md, \"A Redis that evicts\"",
				v.View, v.Evicted)
			lines = append(lines, painted{cut(text, columns), red}.show(colour))
		}
		if v.FanOut > 0 {
			text := fmt.Sprintf("%s: %d cells re-read so far, because joined rows changed", v.View, v.FanOut)
			lines = append(lines, cut(text, columns))
		}
	}
	return lines
}

// seeManual names the part of the manual that lists causes and remedies.
const seeManual = "docs/operating.md, At 3 a.m., lists remedies"

// sharedText is the warning that another replicator also writes a view.
const sharedText = "another replicator also writes these entries. They stay correct, but stop one of the two unless " +
	"you want both"

// sharedLines returns sharedText once, with the names of all views that another replicator also writes.
func sharedLines(views []replicator.ViewStatus, columns int, colour bool) []string {
	var names []string
	for _, v := range views {
		if v.Shared && !slices.Contains(names, v.View) {
			names = append(names, v.View)
		}
	}
	if len(names) == 0 {
		return nil
	}
	var lines []string
	for _, text := range wrapped(strings.Join(names, ", ")+": "+sharedText, columns) {
		lines = append(lines, painted{text, yellow}.show(colour))
	}
	return lines
}

// comparedLines returns lines that show which views are being compared with their source. Views with the same text
// share a line.
func comparedLines(views []replicator.ViewStatus, columns int) (lines []string) {
	for i, v := range views {
		text := v.Comparing()
		same := func(other replicator.ViewStatus) bool { return other.Comparing() == text }
		if text == "" || slices.ContainsFunc(views[:i], same) {
			continue
		}
		name := v.View
		more := 0
		for _, other := range views[i+1:] {
			if same(other) {
				more++
			}
		}
		if more > 0 {
			name += fmt.Sprintf(" and %d more", more)
		}
		lines = append(lines, cut(name+": "+text, columns))
	}
	return lines
}

func statusTable(views []replicator.ViewStatus) *grid {
	g := &grid{header: []string{"view", "sink", "kind", "state", "position", "lag", "rate", "dead letters"}}
	shards := slices.ContainsFunc(views, func(v replicator.ViewStatus) bool { return v.Source != "" })
	if shards {
		g.header = slices.Insert(g.header, 1, "source")
	}
	for _, v := range views {
		row := []painted{{v.View, plain}, {v.Sink, plain}, {v.Kind, plain}, {v.State, stateColour(v.State)},
			{v.Position, plain}, {shownLag(v), plain}, {shownRate(v), plain}, shownDead(v)}
		if shards {
			row = slices.Insert(row, 1, painted{v.Source, plain})
		}
		g.add(row)
	}
	return g
}

// narrowed returns the lines of a table of views. If the table is wider than the terminal, narrowed first omits the
// less important columns, then shortens the views' names.
func (g *grid) narrowed(columns int, colour bool) []string {
	for _, name := range []string{"position", "kind", "sink", "rate"} {
		if columns > 0 && g.width() > columns {
			g = g.without(name)
		}
	}
	if over := g.width() - columns; columns > 0 && over > 0 {
		const least = 8
		if view := g.widths()[0]; view-over >= least {
			for _, r := range g.rows {
				r.cells[0].text = cut(r.cells[0].text, view-over)
			}
		}
	}
	return g.lines(columns, colour)
}

func shownLag(v replicator.ViewStatus) string {
	if v.LagSeconds == nil {
		return "-"
	}
	return strconv.FormatFloat(*v.LagSeconds, 'f', 1, 64) + "s"
}

func shownRate(v replicator.ViewStatus) string { return strconv.FormatFloat(v.Rate, 'f', 1, 64) + "/s" }

// inFull returns lines with everything that is known about views, including what happens next.
func inFull(views []replicator.ViewStatus, file remedy.File, columns int, colour bool) (lines []string) {
	for i, v := range views {
		if i > 0 {
			lines = append(lines, "")
		}
		title := v.View
		if v.Source != "" {
			title += ", source " + v.Source
		}
		lines = append(lines, painted{visible(title), bold}.show(colour))
		say := func(name string, value painted) {
			if value.text == "" {
				return
			}
			const indent = "  %-14s"
			for k, text := range wrapped(visible(value.text), max(columns-16, min(columns, 20))) {
				if k > 0 {
					name = ""
				}
				lines = append(lines, painted{fmt.Sprintf(indent, name), faint}.show(colour)+painted{text, value.paint}.show(colour))
			}
		}
		say("state", painted{v.State, stateColour(v.State)})
		say("kept", painted{v.Kind + " in sink " + v.Sink, plain})
		say("position", painted{v.Position, plain})
		say("lag", painted{shownLag(v), plain})
		say("rate", painted{shownRate(v), plain})
		say("dead letters", shownDead(v))
		if v.Progress > 0 {
			say("filled", painted{fmt.Sprintf("%.0f %%, %d rows", 100*v.Progress, v.FilledRows), plain})
		}
		say("compared", painted{v.Comparing(), plain})
		if v.FanOut > 0 {
			text := fmt.Sprintf("%d cells re-read so far, because joined rows changed", v.FanOut)
			say("joined rows", painted{text, plain})
		}
		if v.Gone != nil && *v.Gone > 0 {
			text := fmt.Sprintf("states of %d deleted cells, for all views of the sink", *v.Gone)
			say("remembered", painted{text, plain})
		}
		if v.Evicted > 0 {
			text := fmt.Sprintf("the sink's server evicted %d keys. See docs/operating.md, \"A Redis that evicts\"",
				v.Evicted)
			say("evicted", painted{text, red})
		}
		if v.Shared {
			say("shared", painted{sharedText, yellow})
		}
		say("error", painted{v.Error, stateColour(v.State)})
		if !v.ErrorSince.IsZero() {
			say("since", painted{v.ErrorSince.UTC().Format(time.DateTime) + " UTC, " + human.Duration(time.Since(v.ErrorSince)), plain})
		}
		say("next", painted{v.Next(), plain})
		if v.DeadLetters > 0 {
			say("", painted{file.In("`replicator deadletters list --view " + v.View + "` lists the reasons"), plain})
		}
		if past := v.LastError; v.Error == "" && past != nil {
			say("last error", painted{fmt.Sprintf("%s, for %s: %s", past.Since.UTC().Format(time.DateTime)+" UTC",
				human.Duration(past.Until.Sub(past.Since)), past.Error), plain})
		}
	}
	return lines
}

func stateColour(state string) paint {
	switch state {
	case replicator.StateRunning:
		return green
	case replicator.StateFailed:
		return red
	case replicator.StateRetrying, replicator.StatePaused:
		return yellow
	case replicator.StateFilling, replicator.StateRebuilding, replicator.StateStarting:
		return blue
	}
	return faint
}

func shownDead(v replicator.ViewStatus) painted {
	if v.DeadLetters > 0 {
		return painted{strconv.Itoa(v.DeadLetters), red}
	}
	return painted{"0", plain}
}

func waitCommand(o *options) *cobra.Command {
	gtid, pos, source, timeout := "", "", "", 30*time.Second
	cmd := &cobra.Command{
		Use:   "wait (--gtid SET | --pos FILE:POS) [VIEW…]",
		Short: "Return once the views include a position: a read-your-writes fence",
		Long: `Returns once the named views (all, if none is named) include everything up to the GTID set or
FILE:POS. Take the position from the connection that wrote: from MySQL's @@gtid_executed or session
tracker, or from MariaDB's @@last_gtid. If the source is sharded, --source names the shard.`,
		RunE: func(cmd *cobra.Command, names []string) error {
			if (gtid == "") == (pos == "") {
				return usageError{errors.New("specify what to wait for: either --gtid SET or --pos FILE:POS")}
			}
			if timeout < 0 || timeout > server.MostWait {
				return usageError{fmt.Errorf("--timeout: expected a duration up to %s, such as 10s", server.MostWait)}
			}
			cfg, err := o.loadToAsk()
			if err != nil {
				return err
			}
			if err := hasViews(cfg, names); err != nil {
				return err
			}
			if !cfg.Partial {
				err = service.Define(cfg)
			}
			if err != nil {
				return err
			}
			if err := errors.Join(service.KnowsSource(cfg, source), service.IsFence(cfg, gtid+pos)); err != nil {
				return usageError{err}
			}
			err = service.Wait(cmd.Context(), cfg, server.Fence{At: gtid + pos, Source: source}, names, timeout)
			switch {
			case errors.Is(err, server.ErrNotRunning):
				return fmt.Errorf("%w. wait needs the running process (`replicator run`)", err)
			case errors.Is(err, server.ErrUnknown):
				return fmt.Errorf("%w. Send the running process SIGHUP to reload the file; "+
					"if the process can't use the file, its log has the reason", err)
			case errors.Is(err, server.ErrInvalid):
				return usageError{err}
			}
			return err
		},
	}
	cmd.ValidArgsFunction = o.completeViews
	cmd.Flags().StringVar(&gtid, "gtid", "", "GTID `set`")
	cmd.Flags().StringVar(&pos, "pos", "", "`FILE:POS` in the source's binlog")
	cmd.Flags().StringVar(&source, "source", "", "the `shard` of the source, if it is sharded")
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "fail after this time")
	return cmd
}
