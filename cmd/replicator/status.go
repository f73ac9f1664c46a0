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
	"replicator/config"
	"replicator/internal/pause"
	"replicator/server"
)

func statusCommand(o *options) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Print a row per view: state, position, lag, rate, dead letters",
		Long:  `Asks the running process how far each view is. If none is running, it prints what is saved, with the state "stopped".`,
		Args:  cobra.NoArgs,
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
	views, err := client(cfg).Status(ctx)
	if errors.Is(err, server.ErrNotRunning) {
		if cfg, err = o.load(); err == nil { // now the store is asked
			views, err = savedStatus(ctx, cfg)
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
		row := []string{v.View, v.Sink, v.Kind, v.State, v.Position, lag, strconv.FormatFloat(v.Rate, 'f', 1, 64) + "/s", strconv.Itoa(v.DeadLetters)}
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

// client talks to the running process.
func client(cfg *config.Config) server.Client {
	return server.Client{Address: cfg.HTTP.Listen, Token: cfg.HTTP.Token.Reveal()}
}

// savedStatus is the status of views while nothing runs: what the store holds.
func savedStatus(ctx context.Context, cfg *config.Config) ([]replicator.ViewStatus, error) {
	saved, err := readCheckpoints(ctx, cfg)
	if err != nil {
		return nil, err
	}
	counts, err := countLetters(ctx, cfg)
	if err != nil {
		return nil, err
	}
	var views []replicator.ViewStatus
	for _, v := range cfg.Views {
		for _, shard := range cfg.Source.Shards {
			st := replicator.ViewStatus{View: v.Name, Sink: v.Sink, Source: shard.Name, Kind: v.Kind, State: "stopped", DeadLetters: counts[v.Name]}
			for _, c := range saved {
				if c.View == v.Name && c.Source == shard.Name {
					st.Applied = c.Position
					st.Position, _ = place(c.Position)
				}
			}
			views = append(views, st)
		}
	}
	return views, nil
}

// wait waits for a fence. A view that stands in the file, and that the running process doesn't know so, was just added
// or changed: until the process has read the file again, the view does not include the fence.
func wait(ctx context.Context, cfg *config.Config, fence server.Fence, views []string, timeout time.Duration) error {
	c := client(cfg)
	for deadline := time.Now().Add(timeout); ; {
		err := runsAsWritten(ctx, c, cfg, views)
		if err == nil {
			err = c.Wait(ctx, fence, views, max(time.Until(deadline), time.Millisecond))
		}
		if !errors.Is(err, server.ErrUnknown) || time.Now().After(deadline) {
			return err
		}
		if err := pause.For(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// runsAsWritten returns an error that wraps server.ErrUnknown if the running process has another definition of a view.
func runsAsWritten(ctx context.Context, c server.Client, cfg *config.Config, views []string) error {
	if len(views) == 0 || cfg.Partial { // what a definition comes to is only known of the whole file
		return nil
	}
	running, err := c.Status(ctx)
	if err != nil {
		return err
	}
	for _, v := range running {
		if slices.Contains(views, v.View) && !replicator.SameDefinition(v.Definition, cfg.View(v.View).Fingerprint) {
			return fmt.Errorf("view %q as the file defines it: %w", v.View, server.ErrUnknown)
		}
	}
	return nil
}

func waitCommand(o *options) *cobra.Command {
	gtid, pos, source, timeout := "", "", "", 30*time.Second
	cmd := &cobra.Command{
		Use:   "wait (--gtid SET | --pos FILE:POS) [VIEW…]",
		Short: "Return once the views include a position: a read-your-writes fence",
		Long: `Returns once the named views (all, if none is named) include everything that the GTID set, or FILE:POS, names.
Take the fence from the connection that wrote: MySQL's @@gtid_executed or session tracker, MariaDB's @@last_gtid. If the
source is sharded, --source names the shard.`,
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
				err = fingerprint(cfg)
			}
			if err != nil {
				return err
			}
			if err := knowsSource(cfg, source); err != nil {
				return usageError{err}
			}
			err = wait(cmd.Context(), cfg, server.Fence{At: gtid + pos, Source: source}, names, timeout)
			switch {
			case errors.Is(err, server.ErrNotRunning):
				return fmt.Errorf("%w: wait asks the running process (`replicator run`)", err)
			case errors.Is(err, server.ErrUnknown):
				return fmt.Errorf("the running process: %w: send it SIGHUP to reload the file; if it can't use it, its log says why", err)
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
