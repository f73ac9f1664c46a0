package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"replicator/config"
	"replicator/internal/remedy"
	"replicator/service"
	"replicator/sinks"
)

// options has the flags that all commands share.
type options struct {
	config    string
	logFormat string
	logLevel  string

	file remedy.File // the configuration file that was loaded; "" before loading
}

func (o *options) load() (*config.Config, error) { return o.loadBy(config.Load) }

// loadToAsk loads the configuration for a command that only asks the running process. Such a command doesn't need the
// file's secrets.
func (o *options) loadToAsk() (*config.Config, error) { return o.loadBy(config.LoadToAsk) }

func (o *options) loadBy(load func(string, func(string) (string, bool), []config.SinkType) (*config.Config,
	error)) (*config.Config, error) {
	path, err := o.path()
	if err != nil {
		return nil, err
	}
	c, err := load(path, os.LookupEnv, sinks.Types())
	if err != nil {
		return nil, usageError{err}
	}
	o.file = remedy.File(c.Path)
	return c, nil
}

// path returns the configuration file's path: -c, then $REPLICATOR_CONFIG, then replicator.toml.
func (o *options) path() (string, error) {
	path := o.config
	if path == "" {
		path = os.Getenv("REPLICATOR_CONFIG")
	}
	if path == "" {
		path = "replicator.toml"
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return "", usageError{errors.New("no replicator.toml exists here, and $REPLICATOR_CONFIG is not set. " +
				"Name a file with -c, or write one with `replicator init --source DSN > replicator.toml`")}
		}
	}
	return path, nil
}

// someViews returns an error if names is empty. It is for commands that need at least one view.
func (o *options) someViews(cmd *cobra.Command, names []string) error {
	if len(names) > 0 {
		return nil
	}
	cfg, err := o.loadToAsk()
	if err != nil {
		return err
	}
	return usageError{fmt.Errorf("name one or more views to %s. %s has %s", cmd.Name(), cfg.File,
		strings.Join(viewNames(cfg), ", "))}
}

// completeViews completes the names of configured views. It omits views that the command line already has.
func (o *options) completeViews(
	_ *cobra.Command, words []string, _ string,
) ([]string, cobra.ShellCompDirective) {
	cfg, err := o.loadToAsk()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	left := slices.DeleteFunc(viewNames(cfg), func(name string) bool { return slices.Contains(words, name) })
	return left, cobra.ShellCompDirectiveNoFileComp
}

func (o *options) completeView(
	cmd *cobra.Command, words []string, begun string,
) ([]string, cobra.ShellCompDirective) {
	if len(words) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return o.completeViews(cmd, words, begun)
}

// setup returns the configuration, which must have the named views, and a logger.
func (o *options) setup(views ...string) (service.Setup, error) {
	cfg, err := loadViews(o, views)
	if err != nil {
		return service.Setup{}, err
	}
	log, err := o.logger()
	if err != nil {
		return service.Setup{}, err
	}
	return service.Setup{Config: cfg, Log: log, OpenSink: openSink}, service.Define(cfg)
}

// logger returns a logger on standard error. Its default format is text on a terminal and JSON otherwise.
func (o *options) logger() (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.logLevel)); err != nil {
		return nil, usageError{fmt.Errorf("--log-level must be debug, info, warn or error, not %q", o.logLevel)}
	}
	opts := &slog.HandlerOptions{Level: level, ReplaceAttr: o.readable}
	format := o.logFormat
	if format == "" {
		format = "json"
		if term.IsTerminal(int(os.Stderr.Fd())) {
			format = "human"
		}
	}
	switch format {
	case "human":
		return slog.New(slog.NewTextHandler(os.Stderr, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(os.Stderr, opts)), nil
	}
	return nil, usageError{fmt.Errorf("--log-format must be human or json, not %q", o.logFormat)}
}

// readable formats durations as text, because JSON would show nanoseconds. It also adds "-c FILE" to the `replicator`
// commands in log lines.
func (o *options) readable(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindDuration:
		a.Value = slog.StringValue(a.Value.Duration().String())
	case slog.KindString:
		a.Value = slog.StringValue(o.file.In(a.Value.String()))
	case slog.KindAny:
		if err, ok := a.Value.Any().(error); ok {
			a.Value = slog.StringValue(o.file.In(err.Error()))
		}
	}
	return a
}
