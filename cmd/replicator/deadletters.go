package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"replicator"
	"replicator/config"
	"replicator/server"
)

func deadLettersCommand(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "deadletters",
		Short: "List, show, retry or drop what could not be decoded or written",
		Long: `A dead letter is a row that could not be decoded, or whose contribution to a view could not be written. The view goes on
without it. It is kept until a newer version of the cell applies, or until it is retried or dropped. A dropped one is no longer
listed, but the view still lacks the cell, and verify continues to count it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(deadLettersList(o), deadLettersShow(o), deadLettersRetry(o), deadLettersDrop(o))
	return cmd
}

// shownLetter is a dead letter as it is printed.
type shownLetter struct {
	ID       string `json:"id"`
	View     string `json:"view"`
	Source   string `json:"source,omitempty"`
	Table    string `json:"table"`
	Key      string `json:"key"`
	Column   string `json:"column"`
	Version  int64  `json:"version"`
	Position string `json:"position"`
	Reason   string `json:"reason"`
	Time     string `json:"time"`
	Raw      string `json:"raw,omitempty"`        // text
	RawBytes string `json:"raw_base64,omitempty"` // what is no text
}

func shown(l replicator.DeadLetter) shownLetter {
	return shownLetter{ID: l.ID, View: l.View, Source: l.Source, Table: l.Cell.Table, Key: l.Cell.Key.String(), Column: l.Cell.Column,
		Version: l.Version, Position: l.Position, Reason: l.Reason, Time: l.Time.UTC().Format(time.RFC3339)}
}

func deadLettersList(o *options) *cobra.Command {
	asJSON, view := false, ""
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List dead letters, oldest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadViews(o, viewsNamed(view))
			if err != nil {
				return err
			}
			var rows [][]string
			err = eachLetter(cmd.Context(), cfg, view, func(l replicator.DeadLetter) error {
				s := shown(l)
				if asJSON {
					return printJSON(cmd.OutOrStdout(), []shownLetter{s})
				}
				rows = append(rows, []string{s.ID, s.View, s.Table, s.Key, s.Column, strconv.FormatInt(s.Version, 10), s.Position, s.Time, s.Reason})
				return nil
			})
			if err != nil || asJSON {
				return err
			}
			return printTable(cmd.OutOrStdout(), []string{"id", "view", "table", "key", "column", "version", "position", "time", "reason"}, rows)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object per line")
	cmd.Flags().StringVar(&view, "view", "", "only those of this `view`")
	_ = cmd.RegisterFlagCompletionFunc("view", o.completeView)
	return cmd
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
			err = eachLetter(cmd.Context(), cfg, "", func(l replicator.DeadLetter) error {
				if !slices.Contains(ids, l.ID) {
					return nil
				}
				found[l.ID] = true
				return showLetter(cmd.OutOrStdout(), l, asJSON)
			})
			return errors.Join(err, missing(ids, found))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object per line")
	return cmd
}

func showLetter(out io.Writer, l replicator.DeadLetter, asJSON bool) error {
	s := shown(l)
	if utf8.Valid(l.Raw) {
		s.Raw = string(l.Raw)
	} else {
		s.RawBytes = base64.StdEncoding.EncodeToString(l.Raw)
	}
	if asJSON {
		return printJSON(out, []shownLetter{s})
	}
	_, err := fmt.Fprintf(out, "id        %s\nview      %s\ncell      %s\nversion   %d\nposition  %s\ntime      %s\nreason    %s\nraw       %s%s\n\n",
		s.ID, s.View, l.Cell, s.Version, s.Position, s.Time, s.Reason, s.Raw, s.RawBytes)
	return err
}

// viewsNamed is a view that may be named.
func viewsNamed(view string) []string {
	if view == "" {
		return nil
	}
	return []string{view}
}

// selection is what retry and drop are given: ids, --view or --all, just one of them.
func selection(ids []string, view string, all bool) (server.Selection, error) {
	ways := 0
	for _, given := range []bool{len(ids) > 0, view != "", all} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return server.Selection{}, usageError{errors.New("say which: ids, or --view VIEW, or --all")}
	}
	return server.Selection{IDs: ids, View: view, All: all}, nil
}

func deadLettersRetry(o *options) *cobra.Command {
	return selecting("retry", "Try dead letters again: their cells are read from the source and written again",
		func(cmd *cobra.Command, cfg *config.Config, which server.Selection) error {
			tried, left, err := client(cfg).Retry(cmd.Context(), which)
			if errors.Is(err, server.ErrNotRunning) {
				tried, left, err = retryAlone(cmd.Context(), o, cfg, which)
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%d tried again, %d still dead\n", tried, left)
			if left > 0 {
				return errors.New(plural(left, "dead letter") + " left: `replicator deadletters list` says why")
			}
			return nil
		}, o)
}

func deadLettersDrop(o *options) *cobra.Command {
	return selecting("drop", "Drop dead letters: the views stay without these cells until a newer version comes",
		func(cmd *cobra.Command, cfg *config.Config, which server.Selection) error {
			n, err := client(cfg).Drop(cmd.Context(), which)
			if errors.Is(err, server.ErrNotRunning) {
				n, err = dropAlone(cmd.Context(), cfg, which)
			}
			if err == nil {
				fmt.Fprintf(cmd.OutOrStdout(), "%d dropped\n", n)
			}
			return err
		}, o)
}

// selecting makes a command that works on selected dead letters.
func selecting(name, short string, do func(*cobra.Command, *config.Config, server.Selection) error, o *options) *cobra.Command {
	view, all := "", false
	cmd := &cobra.Command{
		Use:   name + " (ID… | --view VIEW | --all)",
		Short: short,
		RunE: func(cmd *cobra.Command, ids []string) error {
			which, err := selection(ids, view, all)
			if err != nil {
				return err
			}
			cfg, err := o.load()
			if err != nil {
				return err
			}
			if view != "" && cfg.View(view) == nil {
				return usageError{fmt.Errorf("%s has no view %q", cfg.File, view)}
			}
			return do(cmd, cfg, which)
		},
	}
	cmd.Flags().StringVar(&view, "view", "", "those of this `view`")
	_ = cmd.RegisterFlagCompletionFunc("view", o.completeView)
	cmd.Flags().BoolVar(&all, "all", false, "all of them")
	return cmd
}

func dropAlone(ctx context.Context, cfg *config.Config, which server.Selection) (int, error) {
	store, err := openStore(ctx, cfg)
	if err != nil {
		return 0, err
	}
	n, err := drop(ctx, store, which)
	return n, errors.Join(err, store.Close())
}

// retryAlone runs the program for as long as the retry takes.
func retryAlone(ctx context.Context, o *options, cfg *config.Config, which server.Selection) (tried, left int, err error) {
	log, err := o.logger()
	if err != nil {
		return 0, 0, err
	}
	a, err := newApp(ctx, cfg, log, nil)
	if err != nil {
		return 0, 0, err
	}
	stop, stopNow := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- a.run(ctx, stop) }()
	if err = a.catchUp(ctx); err == nil {
		tried, left, err = control{a}.Retry(ctx, which)
	}
	stopNow()
	return tried, left, errors.Join(err, <-done, a.close())
}
