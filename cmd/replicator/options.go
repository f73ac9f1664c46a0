package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"golang.org/x/term"

	"replicator/config"
)

// options are the flags that every command has.
type options struct {
	config    string
	logFormat string
	logLevel  string
}

// load reads the configuration: -c, then $REPLICATOR_CONFIG, then replicator.toml.
func (o *options) load() (*config.Config, error) {
	path := o.config
	if path == "" {
		path = os.Getenv("REPLICATOR_CONFIG")
	}
	if path == "" {
		path = "replicator.toml"
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, usageError{errors.New("no configuration: there is no replicator.toml here and $REPLICATOR_CONFIG is not set; " +
				"name the file with -c, or write one with `replicator init --source DSN > replicator.toml`")}
		}
	}
	c, err := config.Load(path, os.LookupEnv)
	if err != nil {
		return nil, usageError{err}
	}
	return c, nil
}

// logger writes to standard error: for people on a terminal, JSON otherwise, or as asked.
func (o *options) logger() (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.logLevel)); err != nil {
		return nil, usageError{fmt.Errorf("--log-level is debug, info, warn or error, not %q", o.logLevel)}
	}
	opts := &slog.HandlerOptions{Level: level}
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
	return nil, usageError{fmt.Errorf("--log-format is human or json, not %q", o.logFormat)}
}
