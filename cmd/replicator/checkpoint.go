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
	"replicator/config"
	"replicator/service"
)

func checkpointCommand(o *options) *cobra.Command {
	cmd := &cobra.Command{Use: "checkpoint", Short: "Show, set, reset or forget the positions of views"}
	return groupOf(cmd, checkpointShow(o), checkpointSet(o), checkpointReset(o), checkpointForget(o))
}

// groupOf adds subcommands to cmd and returns cmd, which itself only prints its help.
func groupOf(cmd *cobra.Command, all ...*cobra.Command) *cobra.Command {
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(all...)
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
			saved, err := service.Checkpoints(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			return showCheckpoints(cmd.OutOrStdout(), saved, names, asJSON)
		},
	}
	cmd.ValidArgsFunction = o.completeViews
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object per line")
	return cmd
}

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
		s.Position, s.GTID = service.Place(c.Position)
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
	yes, pos, source := false, "", ""
	cmd := &cobra.Command{
		Use:   "set --pos FILE:POS [VIEW…]",
		Short: "Continue from another position in the binlog",
		Long: `Sets the position of the named views (all, if none is named). A later position skips all changes
before it. Rebuild the views afterwards, unless you know that none of their rows changed there. An
earlier position is harmless. If the source is sharded, --source names the shard whose binlog the
position belongs to.
The program must not be running.`,
		RunE: func(cmd *cobra.Command, names []string) error {
			if pos == "" {
				return usageError{errors.New("--pos FILE:POS is missing. See `replicator checkpoint set --help`")}
			}
			question := "Set the position of %s to " + strings.ReplaceAll(pos, "%", "%%") + "?"
			return withPositions(cmd, o, names, yes, question, func(p *service.Positions, ctx context.Context) error {
				return p.Set(ctx, source, pos)
			})
		},
	}
	cmd.Flags().StringVar(&pos, "pos", "", "`FILE:POS` of the source's binlog, between two transactions")
	cmd.Flags().StringVar(&source, "source", "", "the `shard` of the source, if it is sharded")
	cmd.ValidArgsFunction = o.completeViews
	cmd.Flags().BoolVar(&yes, "yes", false, "don't ask")
	return cmd
}

func checkpointReset(o *options) *cobra.Command {
	yes := false
	cmd := &cobra.Command{
		Use:   "reset [VIEW…]",
		Short: "Forget the positions of views, so that the next run starts as [source] start says",
		Long: `Forgets the position of the named views (all, if none is named) in the checkpoint store and in the
sinks. [source] start decides how the views start at the next run: with a fill from offset zero, or at
the earliest or the latest position of the binlog. The views keep their data, and the sinks still know
the versions of their cells. So a fill corrects the cells in place, repeated older versions change
nothing, and readers never see older data.
The program must not be running.`,
		RunE: func(cmd *cobra.Command, names []string) error {
			const question = "Forget the position of %s, so that the next run starts as [source] start says?"
			return withPositions(cmd, o, names, yes, question, (*service.Positions).Reset)
		},
	}
	cmd.ValidArgsFunction = o.completeViews
	cmd.Flags().BoolVar(&yes, "yes", false, "don't ask")
	return cmd
}

func checkpointForget(o *options) *cobra.Command {
	yes, data := false, false
	cmd := &cobra.Command{
		Use:   "forget VIEW…",
		Short: "Forget everything about views: their positions and their cells' versions in the sinks",
		Long: `Forgets the position of the named views and the versions of their cells in the sinks, as if the views
had never existed. The views' data stays until it is written again. [source] start decides how the
views start at the next run. Until they have caught up, readers may see older data. With
start = "earliest", they see everything that the binlog has from its beginning, including deleted rows,
and counters start at zero.
To correct a view, use reset. Use forget for views of an old version or configuration that must leave
no trace.
--data also removes what a view left in its sink, after showing it to you. The view need not be in the
file. In MySQL it removes only tables that the program created, in Redis the keys that the program's
records name, and in Elasticsearch the view's indexes. A Kafka topic stays.
The program must not be running.`,
		Args: o.someViews,
		RunE: func(cmd *cobra.Command, names []string) error {
			if data {
				return forgetData(cmd, o, names, yes)
			}
			const question = "Forget everything about %s? Readers may see older data during the next run."
			return withPositions(cmd, o, names, yes, question, (*service.Positions).Forget)
		},
	}
	cmd.ValidArgsFunction = o.completeViews
	cmd.Flags().BoolVar(&data, "data", false, "also remove what the views left in their sinks")
	cmd.Flags().BoolVar(&yes, "yes", false, "don't ask")
	return cmd
}

// forgetData shows the data that views left in their sinks. After the operator has confirmed, it removes the data and
// forgets the views.
func forgetData(cmd *cobra.Command, o *options, names []string, yes bool) (err error) {
	setup, err := o.setup()
	if err != nil {
		return err
	}
	p, err := service.OpenPositions(cmd.Context(), setup, names)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	left, err := p.Leftovers(cmd.Context())
	if err != nil {
		return err
	}
	for _, l := range left {
		fmt.Fprintf(cmd.OutOrStdout(), "sink %s has data of view %s: %s, %d %s\n", l.Sink, l.View, l.What, l.Count,
			l.Of)
	}
	question := "Remove this, and forget everything about " + namesOrAll(names) + "?"
	if len(left) == 0 {
		fmt.Fprintf(cmd.OutOrStdout(), "no data of %s was found in the sinks\n", namesOrAll(names))
		question = "Forget everything about " + namesOrAll(names) + "?"
	}
	if err := confirm(cmd, yes, question); err != nil {
		return err
	}
	return p.Discard(cmd.Context())
}

// withPositions asks the operator to confirm, and then calls do to change the views' positions.
func withPositions(cmd *cobra.Command, o *options, names []string, yes bool, question string,
	do func(*service.Positions, context.Context) error) error {
	setup, err := o.setup(names...)
	if err != nil {
		return err
	}
	if err := confirm(cmd, yes, fmt.Sprintf(question, namesOrAll(names))); err != nil {
		return err
	}
	p, err := service.OpenPositions(cmd.Context(), setup, names)
	if err != nil {
		return err
	}
	return errors.Join(do(p, cmd.Context()), p.Close())
}

func loadViews(o *options, names []string) (*config.Config, error) {
	cfg, err := o.load()
	if err != nil {
		return nil, err
	}
	return cfg, hasViews(cfg, names)
}

func hasViews(cfg *config.Config, names []string) error {
	for _, n := range names {
		if cfg.View(n) == nil {
			return usageError{fmt.Errorf("%s has no view %q, only %s", cfg.File, n, strings.Join(viewNames(cfg), ", "))}
		}
	}
	return nil
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

// confirm asks the operator the question and returns an error unless the answer is yes. With yes set, it doesn't ask.
// Without a terminal, it returns an error.
func confirm(cmd *cobra.Command, yes bool, question string) error {
	if yes {
		return nil
	}
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return usageError{fmt.Errorf("%s There is no terminal to ask on, so confirm with --yes", question)}
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s [y/N] ", question)
	answer, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return errors.New("not confirmed, so nothing was changed")
	}
	return nil
}
