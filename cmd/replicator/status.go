package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
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
state "stopped".`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return status(cmd.Context(), o, cmd.OutOrStdout(), asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object per line")
	return cmd
}

func status(ctx context.Context, o *options, out io.Writer, asJSON bool) error {
	cfg, err := o.loadToAsk()
	if err != nil {
		return err
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
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(out, views)
	}
	names := []string{"view", "sink", "kind", "state", "position", "lag", "rate", "dead letters", "error"}
	verified := slices.ContainsFunc(views, func(v replicator.ViewStatus) bool { return v.Verified != nil })
	if verified {
		names = slices.Insert(names, len(names)-1, "verified")
	}
	shards := slices.ContainsFunc(views, func(v replicator.ViewStatus) bool { return v.Source != "" })
	if shards {
		names = slices.Insert(names, 1, "source")
	}
	var rows [][]string
	for _, v := range views {
		lag := "-"
		if v.LagSeconds != nil {
			lag = strconv.FormatFloat(*v.LagSeconds, 'f', 1, 64) + "s"
		}
		rate := strconv.FormatFloat(v.Rate, 'f', 1, 64) + "/s"
		row := []string{v.View, v.Sink, v.Kind, v.State, v.Position, lag, rate, strconv.Itoa(v.DeadLetters)}
		if shards {
			row = slices.Insert(row, 1, v.Source)
		}
		if verified {
			row = append(row, v.Verified.Summary())
		}
		if v.Error == "" && v.Verified != nil && v.Verified.Error != "" {
			v.Error = "verify: " + v.Verified.Error
		}
		rows = append(rows, append(row, v.Error))
	}
	return printTable(out, names, rows)
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
			if err := service.KnowsSource(cfg, source); err != nil {
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
