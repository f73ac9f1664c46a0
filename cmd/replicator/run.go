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
		Long: `Runs all pipelines. Views without a checkpoint are filled first, while the tail goes on. A view that
can't run fails alone, as status shows, and the others go on; with --until-caught-up the exit status
is then 1, once the others have caught up. The first SIGINT or SIGTERM drains what is in flight and
saves. A second one stops at once, as killed by that signal (130 or 143 in a shell): nothing is
lost, and the next run repeats a little. SIGHUP reloads the configuration: new views are filled,
removed ones stop, and a file that can't be used changes nothing. A view whose definition changed is
rebuilt or refused, alone, as at a start (replicator plan says beforehand). Requests to the program
wait a moment longer meanwhile.

With [checkpoint] store = "mysql" several processes may run on one store: one does the work, the
others stand by, as status and /readyz say, and take over within seconds when it ends. With
--until-caught-up, and with store = "file", a second process fails at once.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), o, untilCaughtUp) },
	}
	cmd.Flags().BoolVar(&untilCaughtUp, "until-caught-up", false,
		"exit 0 once every view includes all that was committed when the command started")
	return cmd
}

// run runs the pipelines until stop is done. A SIGHUP makes it reload the file.
func run(stop context.Context, o *options, untilCaughtUp bool) error {
	// The signal is caught from here to the end. A SIGHUP must not kill the program while it reads its file or changes
	// its configuration.
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
