package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"replicator/server"
	"replicator/service"
)

func pauseCommand(o *options) *cobra.Command {
	return askingCommand(o, "pause", "paused", server.Client.Pause, &cobra.Command{
		Short: "Stop writing to views, until they are resumed",
		Long: `Stops the named views where they are: nothing is written to them until they are resumed, or the
program is started again. The other views go on. The running process does it (replicator run).`,
	})
}

func resumeCommand(o *options) *cobra.Command {
	return askingCommand(o, "resume", "resumed", server.Client.Resume, &cobra.Command{
		Short: "Let paused views go on from where they stopped",
		Long: `Lets the named views go on from where they were paused; nothing of what was written meanwhile is
missed. One that is not paused stays as it is. The running process does it (replicator run).`,
	})
}

// pausedView is the result of pause or resume for one view.
type pausedView struct {
	View string `json:"view"`
	Did  string `json:"did"`
}

// askingCommand turns cmd into a command that asks the running process to do something to each of the named views.
func askingCommand(o *options, name, did string, ask func(server.Client, context.Context, string) error,
	cmd *cobra.Command) *cobra.Command {
	asJSON := false
	cmd.Use, cmd.Args, cmd.ValidArgsFunction = name+" VIEW…", o.someViews, o.completeViews
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		cfg, err := o.loadToAsk()
		if err != nil {
			return err
		}
		if err := hasViews(cfg, names); err != nil {
			return err
		}
		var done []pausedView
		var failed error
		for _, view := range names {
			if err := asked(name, view, ask(service.Client(cfg), cmd.Context(), view)); errors.Is(err, server.ErrNotRunning) {
				return err
			} else if err != nil { // try the other views anyway
				failed = errors.Join(failed, err)
				continue
			}
			done = append(done, pausedView{view, did})
		}
		return errors.Join(printPaused(cmd.OutOrStdout(), done, asJSON), failed)
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object per line")
	return cmd
}

// asked adds advice to an error of the running process.
func asked(name, view string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, server.ErrNotRunning):
		return fmt.Errorf("%w: %s asks the running process (`replicator run`)", err, name)
	case errors.Is(err, server.ErrUnknown):
		return fmt.Errorf("the running process: %w: send it SIGHUP to reload the file; "+
			"if it can't use it, its log says why", err)
	}
	return fmt.Errorf("view %s: %w", view, err)
}

func printPaused(out io.Writer, done []pausedView, asJSON bool) error {
	if asJSON {
		return printJSON(out, done)
	}
	for _, d := range done {
		if _, err := fmt.Fprintf(out, "%s %s\n", d.View, d.Did); err != nil {
			return err
		}
	}
	return nil
}
