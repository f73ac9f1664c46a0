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
		Short: "Stop writing to views until they are resumed",
		Long: `Stops writing to the named views until they are resumed or the program is restarted. The other views
continue. This command asks the running process (replicator run) to do it.`,
	})
}

func resumeCommand(o *options) *cobra.Command {
	return askingCommand(o, "resume", "resumed", server.Client.Resume, &cobra.Command{
		Short: "Continue paused views from where they stopped",
		Long: `Continues the named views at the position where they were paused, so they miss no changes. A view that
is not paused is not affected. This command asks the running process (replicator run) to do it.`,
	})
}

type pausedView struct {
	View string `json:"view"`
	Did  string `json:"did"`
}

// askingCommand sets cmd's name, arguments and function. The command calls ask for each of the named views, and prints
// did for each success.
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
			} else if err != nil { // this view failed: continue with the other views
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

// asked adds advice to err, the error of a request to pause or resume a view. name is the command's name.
func asked(name, view string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, server.ErrNotRunning):
		return fmt.Errorf("%w. %s needs the running process (`replicator run`)", err, name)
	case errors.Is(err, server.ErrUnknown):
		return fmt.Errorf("the running process: %w. Send it SIGHUP to reload the file; "+
			"if the process can't use the file, its log has the reason", err)
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
