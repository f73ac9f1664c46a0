// Command replicator keeps indexes and views of schemaless cells in MySQL, Redis and Elasticsearch, from the binlog of
// the MySQL or MariaDB server that the cells are written to. Each command stands in a file of its own, which parses and
// prints; what it does is package service's. app.go opens the sinks.
//
// Exit status: 0 done; 1 failed at run time; 2 usage or configuration error, nothing was started; 3 verify found
// differences that remain.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"replicator/internal/heap"
	"replicator/service"
)

// Exit statuses.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
	exitDiffer = 3
)

// usageError is a mistake in the command line or the configuration: nothing was started.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func main() {
	if os.Getenv("GOGC") == "" {
		heap.Pace()
	}
	os.Exit(execute(os.Args[1:]))
}

// execute runs one command line. The first SIGINT or SIGTERM ends ctx; what a command does then is its own; a second
// one ends the program at once.
func execute(args []string) int {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	context.AfterFunc(ctx, cancel) // gives the signals back: the second one does what it does without us
	root := newRoot()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	fmt.Fprintln(os.Stderr, "replicator:", err)
	var usage usageError
	var invalid service.InvalidError
	if errors.As(err, &usage) || errors.As(err, &invalid) {
		return exitUsage
	}
	var differ differencesError
	if errors.As(err, &differ) {
		return exitDiffer
	}
	return exitFailed
}

const longHelp = `replicator runs beside an application that writes schemaless cells (or plain rows) to MySQL or MariaDB.
It follows the binlog, decodes each body, and keeps indexes and views of the newest cells in MySQL, Redis and
Elasticsearch: version-checked, idempotent, and able to fill a new view while the site runs.

  replicator demo                 see it work: throwaway servers, a writer, indexes being kept
  replicator init --source DSN    look at your tables, and print a configuration to begin with
  replicator check -c app.toml    is everything there that it needs?
  replicator schema -c app.toml   the DDL of target tables that are missing
  replicator run -c app.toml      run, until SIGINT or SIGTERM
  replicator status -c app.toml   how far is each view, and what is wrong?`

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "replicator COMMAND [-c FILE]",
		Short:         "Keeps indexes and views of schemaless cells, from the binlog",
		Long:          longHelp,
		Version:       versionText(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          func(cmd *cobra.Command, args []string) error { return unknownCommand(cmd, args) },
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; see `%s --help`", err, cmd.CommandPath())}
	})
	root.SetVersionTemplate("{{.Version}}\n")
	root.SuggestionsMinimumDistance = 2
	o := &options{}
	root.PersistentFlags().StringVarP(&o.config, "config", "c", "",
		"configuration `file` (default: $REPLICATOR_CONFIG, then replicator.toml)")
	root.PersistentFlags().StringVar(&o.logFormat, "log-format", "", "human or json (default: human on a terminal)")
	root.PersistentFlags().StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	for _, add := range []func(*options) *cobra.Command{
		initCommand, runCommand, checkCommand, planCommand, statusCommand, topCommand, healthCommand, waitCommand,
		schemaCommand, tailCommand, deadLettersCommand, checkpointCommand,
		rebuildCommand, pauseCommand, resumeCommand, verifyCommand, explainCommand, demoCommand, versionCommand,
	} {
		cmd := add(o)
		wrapArgs(cmd)
		root.AddCommand(cmd)
	}
	return root
}

// wrapArgs makes mistakes in arguments usage errors.
func wrapArgs(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return usageError{fmt.Errorf("%w; see `%s --help`", err, cmd.CommandPath())}
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		wrapArgs(sub)
	}
}

// unknownCommand refuses words that are no command, with the nearest one.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("unknown command %q", args[0])
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		err = fmt.Errorf("%w: did you mean %q?", err, near[0])
	}
	return usageError{fmt.Errorf("%w; see `replicator --help`", err)}
}
