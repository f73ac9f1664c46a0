package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"replicator"
	"replicator/canal"
	"replicator/config"
)

func checkpointCommand(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "checkpoint",
		Short: "Show, set or reset how far views have come",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(checkpointShow(o), checkpointSet(o), checkpointReset(o))
	return cmd
}

func checkpointShow(o *options) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "show [VIEW…]",
		Short: "Print the saved position of each view",
		RunE: func(cmd *cobra.Command, names []string) error {
			cfg, err := loadViews(o, names)
			if err != nil {
				return err
			}
			saved, err := readCheckpoints(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			return showCheckpoints(cmd.OutOrStdout(), saved, names, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object a line")
	return cmd
}

// shownCheckpoint is a checkpoint as it is printed.
type shownCheckpoint struct {
	View     string                         `json:"view"`
	Source   string                         `json:"source,omitempty"`
	State    string                         `json:"state"`
	Position string                         `json:"position"`
	GTID     string                         `json:"gtid,omitempty"`
	Fill     map[string]replicator.Progress `json:"fill,omitempty"`
}

func showCheckpoints(out io.Writer, saved []replicator.Checkpoint, names []string, asJSON bool) error {
	var shown []shownCheckpoint
	for _, c := range saved {
		if len(names) > 0 && !slices.Contains(names, c.View) {
			continue
		}
		s := shownCheckpoint{View: c.View, Source: c.Source, State: "filled", Fill: c.Fill}
		if c.Filling() {
			s.State = "filling"
		}
		s.Position, s.GTID = place(c.Position)
		shown = append(shown, s)
	}
	if asJSON {
		return printJSON(out, shown)
	}
	var rows [][]string
	for _, s := range shown {
		rows = append(rows, []string{s.View, s.Source, s.State, s.Position, s.GTID})
	}
	return printTable(out, []string{"view", "source", "state", "position", "gtid"}, rows)
}

func checkpointSet(o *options) *cobra.Command {
	yes, pos := false, ""
	cmd := &cobra.Command{
		Use:   "set --pos FILE:POS [VIEW…]",
		Short: "Go on from another place in the binlog",
		Long: `Sets the position of the named views (all, if none is named). Everything between the old position and a later new one
is skipped: rebuild the views afterwards, or know that nothing of theirs changed there. An earlier position is harmless.
The program must not be running.`,
		RunE: func(cmd *cobra.Command, names []string) error {
			if pos == "" {
				return usageError{errors.New("--pos FILE:POS is missing; see `replicator checkpoint set --help`")}
			}
			cfg, err := loadViews(o, names)
			if err != nil {
				return err
			}
			if err := confirm(cmd, yes, fmt.Sprintf("Set the position of %s to %s?", namesOrAll(names), pos)); err != nil {
				return err
			}
			return setCheckpoints(cmd.Context(), o, cfg, names, pos)
		},
	}
	cmd.Flags().StringVar(&pos, "pos", "", "`FILE:POS` of the source's binlog, between two transactions")
	cmd.Flags().BoolVar(&yes, "yes", false, "don't ask")
	return cmd
}

func checkpointReset(o *options) *cobra.Command {
	yes := false
	cmd := &cobra.Command{
		Use:   "reset [VIEW…]",
		Short: "Forget how far views have come: they are filled anew at the next run",
		Long: `Forgets the position of the named views (all, if none is named) in the checkpoint store and in the sinks. At the next
run they begin as views that are new: filled from offset zero, unless [source] start says otherwise. What they hold stays, and
is put right by the fill.
The program must not be running.`,
		RunE: func(cmd *cobra.Command, names []string) error {
			cfg, err := loadViews(o, names)
			if err != nil {
				return err
			}
			if err := confirm(cmd, yes, fmt.Sprintf("Forget the position of %s and fill anew at the next run?", namesOrAll(names))); err != nil {
				return err
			}
			return resetCheckpoints(cmd.Context(), o, cfg, names)
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "don't ask")
	return cmd
}

func resetCheckpoints(ctx context.Context, o *options, cfg *config.Config, names []string) error {
	log, err := o.logger()
	if err != nil {
		return err
	}
	store, err := openStore(ctx, cfg)
	if err != nil {
		return err
	}
	for i := range cfg.Sinks {
		if err == nil {
			err = resetSink(ctx, cfg, &cfg.Sinks[i], names, store, func() (replicator.Sink, error) {
				return openSink(cfg, &cfg.Sinks[i], log)
			})
		}
	}
	return errors.Join(err, store.Close())
}

func resetSink(ctx context.Context, cfg *config.Config, sink *config.Sink, names []string, store replicator.Store, open func() (replicator.Sink, error)) (err error) {
	var s replicator.Sink
	for _, v := range viewsOf(cfg, sink.Name) {
		if len(names) > 0 && !slices.Contains(names, v.Name) {
			continue
		}
		if s == nil {
			if s, err = open(); err != nil {
				return err
			}
			defer func() { err = errors.Join(err, s.Close()) }()
		}
		// The sink first: a view with a checkpoint and no mark says that the sink lost it, one with a mark and no checkpoint
		// would go on from the mark.
		if err := s.Forget(ctx, v.Name); err != nil {
			return fmt.Errorf("sink %s: forgetting view %s: %w", sink.Name, v.Name, err)
		}
		if err := store.Forget(ctx, v.Name); err != nil {
			return err
		}
	}
	return nil
}

// loadViews loads the configuration and checks that it has the named views.
func loadViews(o *options, names []string) (*config.Config, error) {
	cfg, err := o.load()
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		if cfg.View(n) == nil {
			return nil, usageError{fmt.Errorf("%s has no view %q; it has %s", cfg.File, n, strings.Join(viewNames(cfg), ", "))}
		}
	}
	return cfg, nil
}

func viewNames(cfg *config.Config) []string {
	names := make([]string, len(cfg.Views))
	for i, v := range cfg.Views {
		names[i] = v.Name
	}
	return names
}

func namesOrAll(names []string) string {
	if len(names) == 0 {
		return "all views"
	}
	return strings.Join(names, ", ")
}

// confirm asks a person, unless told not to. Without a terminal there is nobody to ask.
func confirm(cmd *cobra.Command, yes bool, question string) error {
	if yes {
		return nil
	}
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return usageError{fmt.Errorf("%s Say --yes: there is no terminal to ask on", question)}
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s [y/N] ", question)
	answer, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return errors.New("not confirmed: nothing was changed")
	}
	return nil
}

// place shows a position: FILE:POS, and the GTIDs if there are any.
func place(p replicator.Position) (pos, gtid string) {
	pos, gtid, _ = strings.Cut(canal.Describe(p.Token), " ")
	return pos, gtid
}
