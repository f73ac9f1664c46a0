package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"replicator"
	"replicator/server"
	"replicator/service"
)

func statusCommand(o *options) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Print a row per view: state, position, lag, rate, dead letters",
		Long: `Asks the running process how far each view is. If none is running, it prints what is saved, with the
state "stopped". ` + "`watch replicator status`" + ` prints it again every two seconds; the status page at
[http] listen also shows the last hour.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return status(cmd.Context(), o, newTerminal(cmd.OutOrStdout()), asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object per line")
	return cmd
}

func status(ctx context.Context, o *options, t terminal, asJSON bool) error {
	views, err := askStatus(ctx, o)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(t.out, views)
	}
	columns, _ := t.size()
	_, err = fmt.Fprintln(t.out, strings.Join(statusTable(views).lines(columns, t.colour), "\n"))
	return err
}

// askStatus asks the running process, or the store if there is none.
func askStatus(ctx context.Context, o *options) ([]replicator.ViewStatus, error) {
	cfg, err := o.loadToAsk()
	if err != nil {
		return nil, err
	}
	views, err := service.Client(cfg).Status(ctx)
	if errors.Is(err, server.ErrNotRunning) {
		if cfg.Checkpoint.Store == "mysql" { // now a server is asked
			cfg, err = o.load()
		}
		if cfg != nil {
			views, err = service.SavedStatus(ctx, cfg)
		}
	}
	return views, err
}

// statusTable is a row for each view. On a terminal that is too narrow, errors stand below.
func statusTable(views []replicator.ViewStatus) *statusGrid {
	g := &statusGrid{grid{header: []string{"view", "sink", "kind", "state", "position", "lag", "rate", "dead letters"}}}
	shards := slices.ContainsFunc(views, func(v replicator.ViewStatus) bool { return v.Source != "" })
	if shards {
		g.header = slices.Insert(g.header, 1, "source")
	}
	for _, v := range views {
		lag := "-"
		if v.LagSeconds != nil {
			lag = strconv.FormatFloat(*v.LagSeconds, 'f', 1, 64) + "s"
		}
		rate := strconv.FormatFloat(v.Rate, 'f', 1, 64) + "/s"
		row := []painted{{v.View, plain}, {v.Sink, plain}, {v.Kind, plain}, {v.State, stateColour(v.State)},
			{v.Position, plain}, {lag, plain}, {rate, plain}, shownDead(v)}
		if shards {
			row = slices.Insert(row, 1, painted{v.Source, plain})
		}
		note := painted{v.Error, red}
		if v.Error == "" && v.FanOut > 0 {
			note = painted{fmt.Sprintf("joined rows changed: %d entries read again so far", v.FanOut), plain}
		}
		g.add(row, note)
	}
	return g
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

// statusGrid is a grid whose notes are its last column where there is room.
type statusGrid struct{ grid }

func (g *statusGrid) lines(columns int, colour bool) []string {
	wide := grid{header: append(slices.Clone(g.header), "error")}
	for _, r := range g.rows {
		note := painted{}
		if len(r.notes) > 0 {
			note = r.notes[0]
		}
		wide.rows = append(wide.rows, gridRow{cells: append(slices.Clone(r.cells), note)})
	}
	if columns == 0 || wide.width() <= columns {
		return wide.lines(columns, colour)
	}
	return g.grid.lines(columns, colour)
}

func waitCommand(o *options) *cobra.Command {
	gtid, pos, source, timeout := "", "", "", 30*time.Second
	cmd := &cobra.Command{
		Use:   "wait (--gtid SET | --pos FILE:POS) [VIEW…]",
		Short: "Return once the views include a position: a read-your-writes fence",
		Long: `Returns once the named views (all, if none is named) include everything that the GTID set, or
FILE:POS, names. Take the fence from the connection that wrote: MySQL's @@gtid_executed or session
tracker, MariaDB's @@last_gtid. If the source is sharded, --source names the shard.`,
		RunE: func(cmd *cobra.Command, names []string) error {
			if (gtid == "") == (pos == "") {
				return usageError{errors.New("say what to wait for: either --gtid SET or --pos FILE:POS")}
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
				return fmt.Errorf("%w: wait asks the running process (`replicator run`)", err)
			case errors.Is(err, server.ErrUnknown):
				return fmt.Errorf("the running process: %w: send it SIGHUP to reload the file; "+
					"if it can't use it, its log says why", err)
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
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "give up after this long")
	return cmd
}
