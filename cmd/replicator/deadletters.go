package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"replicator"
	"replicator/config"
	"replicator/internal/remedy"
	"replicator/server"
	"replicator/service"
)

func deadLettersCommand(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "deadletters",
		Short: "List, show, retry or drop rows that could not be decoded or written",
		Long: `A dead letter is a row that could not be decoded, or whose contribution to a view could not be
written. The view lacks the row's cell and continues with the others. The letter stays until a newer
version of the cell applies, a retry succeeds, or you drop it. A dropped letter is no longer listed,
but the view still lacks the cell, and verify still counts it.`,
	}
	return groupOf(cmd, deadLettersList(o), deadLettersShow(o), deadLettersRetry(o), deadLettersDrop(o))
}

func deadLettersList(o *options) *cobra.Command {
	l := letterList{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List dead letters, grouped by kind or one by one",
		Long: `Lists dead letters by view, table and reason, with the most frequent kind first and the id of one
letter of each kind. With --all or --json, it lists each dead letter, the oldest first. --limit limits
their number, and --after starts after the letter with that id.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadViews(o, viewsNamed(l.view))
			if err != nil {
				return err
			}
			if l.limit < 0 {
				return usageError{fmt.Errorf("--limit: %d is negative", l.limit)}
			}
			if l.all || l.json || l.limit > 0 || l.after != "" {
				return l.each(cmd.Context(), cfg, cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			return l.groups(cmd.Context(), cfg, cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&l.json, "json", false, "list each dead letter, as one JSON object per line")
	cmd.Flags().BoolVar(&l.all, "all", false, "list each dead letter")
	cmd.Flags().IntVar(&l.limit, "limit", 0, "list at most `N` dead letters; 0: no limit")
	cmd.Flags().StringVar(&l.after, "after", "", "only dead letters after the one with this `ID`")
	cmd.Flags().StringVar(&l.view, "view", "", "only dead letters of this `view`")
	_ = cmd.RegisterFlagCompletionFunc("view", o.completeView)
	return cmd
}

// letterList has the flags of `deadletters list`.
type letterList struct {
	view, after string
	limit       int // most letters to print; 0: no limit
	all, json   bool
}

func (l letterList) groups(ctx context.Context, cfg *config.Config, out io.Writer) error {
	const most = 50
	groups, err := service.Groups(ctx, cfg, l.view)
	if err != nil {
		return err
	}
	var rows [][]string
	for _, g := range groups[:min(len(groups), most)] {
		keys := strings.Join(g.Keys, ", ")
		if g.Letters > len(g.Keys) {
			keys += ", …"
		}
		rows = append(rows, []string{strconv.Itoa(g.Letters), g.View, g.Table, keys, g.Example,
			g.Last.Format(time.RFC3339), g.Reason})
	}
	if err := printTable(out, []string{"count", "view", "table", "keys", "example", "last", "reason"},
		rows); err != nil || len(rows) == 0 {
		return err
	}
	if len(groups) > most {
		fmt.Fprintf(out, "and %s more. --all lists each dead letter\n", plural(len(groups)-most, "kind"))
	}
	_, err = fmt.Fprintln(out, "\n"+remedy.File(cfg.Path).In("`replicator deadletters show "+groups[0].Example+
		"` shows the row of one letter, `replicator deadletters list --all` lists each. Once the cause is fixed, "+
		"`replicator deadletters retry --all` retries them."))
	return err
}

var errLimit = errors.New("--limit is reached")

func (l letterList) each(ctx context.Context, cfg *config.Config, out, errOut io.Writer) error {
	var rows [][]string
	n, last, begun := 0, "", l.after == ""
	err := service.EachLetter(ctx, cfg, l.view, func(d replicator.DeadLetter) error {
		if !begun {
			begun = d.ID == l.after
			return nil
		}
		if n++; l.limit > 0 && n > l.limit {
			return errLimit
		}
		s := server.ShowLetter(d)
		if last = s.ID; l.json {
			return printJSON(out, []server.Letter{s})
		}
		rows = append(rows, []string{s.ID, s.View, s.Table, s.Key, s.Column,
			strconv.FormatInt(s.Version, 10), s.Position, s.Time.Format(time.RFC3339), s.Reason})
		return nil
	})
	limited := errors.Is(err, errLimit)
	if err != nil && !limited {
		return err
	}
	if !begun {
		return service.Missing([]string{l.after}, nil)
	}
	if !l.json {
		header := []string{"id", "view", "table", "key", "column", "version", "position", "time", "reason"}
		if err := printTable(out, header, rows); err != nil {
			return err
		}
	}
	if limited {
		fmt.Fprintf(errOut, "there are more. To continue, use --after %s\n", last)
	}
	return nil
}

func deadLettersShow(o *options) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "show ID…",
		Short: "Show dead letters with the raw row",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, ids []string) error {
			cfg, err := o.load()
			if err != nil {
				return err
			}
			found := map[string]bool{}
			err = service.EachLetter(cmd.Context(), cfg, "", func(l replicator.DeadLetter) error {
				if !slices.Contains(ids, l.ID) {
					return nil
				}
				found[l.ID] = true
				return showLetter(cmd.OutOrStdout(), l, asJSON)
			})
			return errors.Join(err, service.Missing(ids, found))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object per line")
	return cmd
}

func showLetter(out io.Writer, l replicator.DeadLetter, asJSON bool) error {
	s := server.ShowRow(l, len(l.Raw))
	if asJSON {
		return printJSON(out, []server.Letter{s})
	}
	_, err := fmt.Fprintf(out, "id        %s\nview      %s\ncell      %s\nversion   %d\n"+
		"position  %s\ntime      %s\nreason    %s\nraw       %s%s\n\n",
		s.ID, s.View, l.Cell, s.Version, s.Position, s.Time.Format(time.RFC3339), s.Reason, s.Raw, s.RawBase64)
	return err
}

// viewsNamed returns a list with the single view, or nil if view is "".
func viewsNamed(view string) []string {
	if view == "" {
		return nil
	}
	return []string{view}
}

// selection converts the arguments of retry and drop. It returns an error unless exactly one of ids, --view and --all
// is given.
func selection(ids []string, view string, all bool) (server.Selection, error) {
	ways := 0
	for _, given := range []bool{len(ids) > 0, view != "", all} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return server.Selection{}, usageError{errors.New("select dead letters in one way: ids, --view VIEW or --all")}
	}
	return server.Selection{IDs: ids, View: view, All: all}, nil
}

func deadLettersRetry(o *options) *cobra.Command {
	return selecting(o, "retry", "Retry dead letters: read their cells from the source and write them again",
		func(cmd *cobra.Command, which server.Selection) error {
			cfg, err := loadViews(o, viewsNamed(which.View))
			if err != nil {
				return err
			}
			log, err := o.logger()
			if err != nil {
				return err
			}
			setup := service.Setup{Config: cfg, Log: log, OpenSink: openSink}
			tried, left, err := service.Retry(cmd.Context(), setup, which)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%d tried again, %d still dead\n", tried, left)
			if left > 0 {
				return errors.New(plural(left, "dead letter") + " left. `replicator deadletters list` shows why")
			}
			return nil
		})
}

func deadLettersDrop(o *options) *cobra.Command {
	return selecting(o, "drop", "Drop dead letters: the views lack these cells until a newer version comes",
		func(cmd *cobra.Command, which server.Selection) error {
			cfg, err := loadViews(o, viewsNamed(which.View))
			if err != nil {
				return err
			}
			n, err := service.Drop(cmd.Context(), cfg, which)
			if err == nil {
				fmt.Fprintf(cmd.OutOrStdout(), "%d dropped\n", n)
			}
			return err
		})
}

// selecting returns a command that calls do with the dead letters that its arguments select.
func selecting(o *options, name, short string, do func(*cobra.Command, server.Selection) error) *cobra.Command {
	view, all := "", false
	cmd := &cobra.Command{
		Use:   name + " (ID… | --view VIEW | --all)",
		Short: short,
		RunE: func(cmd *cobra.Command, ids []string) error {
			which, err := selection(ids, view, all)
			if err != nil {
				return err
			}
			return do(cmd, which)
		},
	}
	cmd.Flags().StringVar(&view, "view", "", "all dead letters of this `view`")
	_ = cmd.RegisterFlagCompletionFunc("view", o.completeView)
	cmd.Flags().BoolVar(&all, "all", false, "all dead letters")
	return cmd
}
