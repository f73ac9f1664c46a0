// Command replicator keeps views of the tables of a MySQL or MariaDB server in MySQL, Redis, Elasticsearch and Kafka.
// It follows the server's binlog. Each command has its own file, which parses arguments and prints results. Package
// service does the work. sink.go opens the sinks.
//
// The exit status is 0 if the command succeeded, and 1 if it failed at run time. It is 2 after a usage or configuration
// error; nothing was started then. It is 3 if verify found dead letters, or differences that remain.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"replicator/internal/cores"
	"replicator/internal/heap"
	"replicator/internal/nearest"
	"replicator/service"
)

const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
	exitDiffer = 3
)

// usageError is a mistake in the command line or the configuration. Nothing was started.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func main() {
	if os.Getenv("GOGC") == "" {
		heap.Pace()
	}
	cores.Pace()
	os.Exit(profiled(func() int { return execute(os.Args[1:]) }))
}

// execute runs one command line and returns its exit status. The first SIGINT or SIGTERM ends ctx, and the command
// decides how it stops. A second signal ends the program at once.
func execute(args []string) int {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	context.AfterFunc(ctx, cancel) // stops catching signals, so that a second signal kills the program
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
It follows the binlog, decodes each body, and maintains indexes and views of the newest cells in MySQL, Redis and
Elasticsearch. Writes are version-checked and idempotent, and a new view is filled while the site runs.

  replicator demo                 watch it work, with a temporary server and a writer
  replicator init --source DSN    read your tables, and print a starter configuration
  replicator check -c app.toml    check everything that a run needs
  replicator schema -c app.toml   print the DDL of missing target tables
  replicator run -c app.toml      run until SIGINT or SIGTERM
  replicator status -c app.toml   show each view's state, lag and errors`

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "replicator COMMAND [-c FILE]",
		Short:         "Maintains indexes and views of schemaless cells, from the binlog",
		Long:          longHelp,
		Version:       versionText(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          unknownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; see `%s --help`", err, cmd.CommandPath())}
	})
	root.SetVersionTemplate("{{.Version}}\n")
	o := &options{}
	root.PersistentFlags().StringVarP(&o.config, "config", "c", "",
		"configuration `file` (default: $REPLICATOR_CONFIG, then replicator.toml)")
	root.PersistentFlags().StringVar(&o.logFormat, "log-format", "", "human or json (default: human on a terminal)")
	root.PersistentFlags().StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	for _, add := range []func(*options) *cobra.Command{
		initCommand, runCommand, checkCommand, planCommand, statusCommand, healthCommand, waitCommand,
		schemaCommand, tailCommand, deadLettersCommand, checkpointCommand,
		rebuildCommand, pauseCommand, resumeCommand, verifyCommand, explainCommand, demoCommand, versionCommand,
	} {
		root.AddCommand(add(o))
	}
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		refuseUnknown(cmd)
		wrapArgs(cmd)
		o.complete(cmd)
	}
	return root
}

// complete makes cmd and its subcommands add "-c FILE" to the `replicator` commands that their errors recommend.
func (o *options) complete(cmd *cobra.Command) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error { return o.file.Err(run(cmd, args)) }
	}
	for _, sub := range cmd.Commands() {
		o.complete(sub)
	}
}

// refuseUnknown makes a command with subcommands, and help, return an error for an unknown subcommand. By default,
// Cobra would print the parent command's help and exit with 0.
func refuseUnknown(cmd *cobra.Command) {
	if cmd.HasSubCommands() {
		cmd.Args = unknownCommand
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	if cmd.Name() == "help" {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err != nil {
				return err
			}
			return unknownCommand(found, rest)
		}
	}
}

// wrapArgs makes cmd and its subcommands return a usageError if their arguments are wrong.
func wrapArgs(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			if usage := (usageError{}); err == nil || errors.As(err, &usage) {
				return err
			}
			return usageError{fmt.Errorf("%w; see `%s --help`", err, cmd.CommandPath())}
		}
	}
	for _, sub := range cmd.Commands() {
		wrapArgs(sub)
	}
}

// unknownCommand returns an error if there are args, because they are not a subcommand of cmd. The error suggests the
// nearest subcommand.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	err := fmt.Errorf("unknown command %q", args[0])
	near, distance := nearest.Word(args[0], names)
	for _, name := range names {
		if strings.HasPrefix(name, args[0]) && args[0] != "" {
			near, distance = name, 0
		}
	}
	switch {
	case near != "" && distance <= len(near)/2:
		err = fmt.Errorf("%w: did you mean %q?", err, near)
	case near != "":
		err = fmt.Errorf("%w: use one of %s", err, strings.Join(names, ", "))
	}
	return usageError{fmt.Errorf("%w; see `%s --help`", err, cmd.CommandPath())}
}
