package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"replicator/server"
	"replicator/service"
)

func runCommand(o *options) *cobra.Command {
	untilCaughtUp := false
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run all pipelines until SIGINT or SIGTERM",
		Long: `Runs all pipelines. Views without a checkpoint are filled first, while the tail continues. If a view
can't run, only that view fails, and status shows the reason. With --until-caught-up, the exit status is
then 1 once the others have caught up. The first SIGINT or SIGTERM applies and saves the changes in
flight before the program ends. A second signal ends the program at once (130 or 143 in a shell).
Nothing is lost then, and the next run repeats a few changes. SIGHUP reloads the configuration: new
views are filled, removed ones stop, and a file that can't be used changes nothing. A view whose
definition changed is rebuilt or refused, as at a start, without affecting other views; replicator plan
shows this in advance. During a reload, requests to the program wait a moment longer.

With [checkpoint] store = "mysql", several processes may use one store. One process runs the pipelines.
The others are on standby, as status and /readyz show, and take over within seconds when it ends. With
--until-caught-up, or with store = "file", a second process fails at once.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), o, untilCaughtUp) },
	}
	cmd.Flags().BoolVar(&untilCaughtUp, "until-caught-up", false,
		"exit with 0 once every view includes everything that was committed when the command started")
	return cmd
}

// run runs the pipelines until stop is done. A SIGHUP makes run reload the configuration file.
func run(stop context.Context, o *options, untilCaughtUp bool) error {
	// Catch SIGHUP from here to the end, so that it doesn't kill the program while the program loads the file or
	// changes its configuration.
	reread := make(chan os.Signal, 1)
	signal.Notify(reread, syscall.SIGHUP)
	defer signal.Stop(reread)
	setup, err := o.setup()
	if err != nil {
		return err
	}
	metrics := server.NewMetrics()
	metrics.Build(release(), revision())
	r := service.Runner{Setup: setup, Metrics: metrics, Reread: reread, Load: o.load, UntilCaughtUp: untilCaughtUp}
	return r.Run(stop)
}
