package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"replicator"
	"replicator/codec"
	"replicator/survey"
)

const initExample = `  replicator init --source 'replicator:SECRET@tcp(127.0.0.1:3306)/app' > replicator.toml
  export DB_PASSWORD='SECRET'
  replicator check
  replicator run

  # views in a Redis and an Elasticsearch instead of the source's own database
  replicator init --source 'replicator:SECRET@tcp(127.0.0.1:3306)/app' \
    --sink redis://127.0.0.1:6379/0 --sink http://127.0.0.1:9200 > replicator.toml

  # keep the password out of the list of processes, and read only two tables
  replicator init --source 'replicator:${DB_PASSWORD}@tcp(127.0.0.1:3306)/app' --table cell --table entities`

func initCommand(*options) *cobra.Command {
	var i initialization
	cmd := &cobra.Command{
		Use:   "init --source DSN",
		Short: "Read a source's tables and print a commented starter configuration",
		Long: `Reads the tables of a database and a few hundred rows of each. It finds out which tables have cells,
events or plain rows, how bodies are encoded, and which properties they have. Then it prints a
configuration that works without changes: each table's roles, likely views, and more views as comments.

Views are kept in the source's own database, or in the servers that --sink names: a Redis
(redis://HOST:PORT/NUMBER), an Elasticsearch (http://HOST:PORT), a MySQL server (a DSN).

The DSN has the form USER:PASSWORD@tcp(HOST:PORT)/DATABASE. The user needs only SELECT. To take the
password from the environment, write ${NAME} instead of it. No password is printed: the configuration has
${DB_PASSWORD}, ${REDIS_PASSWORD}, ${ELASTIC_PASSWORD}, ${SINK_PASSWORD}, or the given ${NAME}.`,
		Example: initExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return i.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&i.source, "source", "", "the `DSN` of the source: USER:PASSWORD@tcp(HOST:PORT)/DATABASE")
	cmd.Flags().StringArrayVar(&i.sinks, "sink", nil,
		"keep views in the server at this `URL|DSN`; repeat the flag for other types of servers")
	cmd.Flags().StringArrayVar(&i.tables, "table", nil, "read only this `table`; repeat the flag for more")
	return cmd
}

// initialization has the flags of init.
type initialization struct {
	source string
	sinks  []string
	tables []string
}

func (i *initialization) run(ctx context.Context, out, errOut io.Writer) error {
	if i.source == "" {
		return usageError{errors.New("the database is missing. Use replicator init --source " +
			"'USER:PASSWORD@tcp(HOST:PORT)/DATABASE'")}
	}
	dsn, variable, err := withPassword("--source", i.source, os.LookupEnv)
	if err != nil {
		return usageError{err}
	}
	targets, err := parseTargets(i.sinks)
	if err != nil {
		return err
	}
	db, err := survey.Read(ctx, dsn, i.tables)
	if err != nil {
		err = fmt.Errorf("--source: %w", err)
		if errors.Is(err, survey.ErrDSN) || errors.Is(err, survey.ErrNoDatabase) {
			return usageError{err}
		}
		return err
	}
	db.DSN = survey.HidePassword(dsn, variable)
	if db.Targets, err = lookAtTargets(ctx, targets, dsn); err != nil {
		return err
	}
	stages, err := codecStages()
	if err != nil {
		return err
	}
	if err := survey.Write(out, db, stages); err != nil {
		return err
	}
	looked := plural(db.Looked(), "table")
	if db.Beyond > 0 {
		looked = fmt.Sprintf("%d of %d tables", db.Looked(), db.Looked()+db.Beyond)
	}
	fmt.Fprintf(errOut, "read %s of %s; nothing was changed\n", looked, db.Name)
	return nil
}

func parseTargets(sinks []string) (targets []survey.Target, err error) {
	for _, text := range sinks {
		t, err := survey.ParseTarget(text)
		if err != nil {
			return nil, usageError{fmt.Errorf("--sink: %w", err)}
		}
		if slices.ContainsFunc(targets, func(other survey.Target) bool { return other.Type == t.Type }) {
			return nil, usageError{fmt.Errorf("--sink: two servers have type %s. Give one of each type, and "+
				"add others to the file", t.Type)}
		}
		targets = append(targets, t)
	}
	return targets, nil
}

// lookAtTargets adds to targets the tables that MySQL sinks already have, because a view must not use a table with
// other content. It skips a sink that is the source's database.
func lookAtTargets(ctx context.Context, targets []survey.Target, source string) ([]survey.Target, error) {
	for i := range targets {
		t := &targets[i]
		if t.Type != "mysql" || survey.SameDatabase(t.DSN, source) {
			continue
		}
		dsn, _, err := withPassword("--sink", t.DSN, os.LookupEnv)
		if err != nil {
			return nil, usageError{err}
		}
		if t.Database, err = survey.ReadSink(ctx, dsn); err != nil && !errors.Is(err, survey.ErrNoTables) {
			return nil, fmt.Errorf("--sink: %w", err)
		}
	}
	return targets, nil
}

// variablePassword matches a DSN that has an environment variable in place of the password.
var variablePassword = regexp.MustCompile(`^[^:@/]*:(\$\{([A-Za-z_][A-Za-z0-9_]*)\})@`)

// withPassword replaces ${NAME} in a DSN by the variable's value, and returns the name, too. For a DSN with the
// password itself, the name is that of the variable that the printed configuration will use.
func withPassword(flag, dsn string, env func(string) (string, bool)) (full, variable string, err error) {
	at := variablePassword.FindStringSubmatch(dsn)
	if at == nil {
		return dsn, "DB_PASSWORD", nil
	}
	password, set := env(at[2])
	if !set {
		return "", "", fmt.Errorf("%s: the environment variable %s is not set", flag, at[2])
	}
	return strings.Replace(dsn, at[1], password, 1), at[2], nil
}

// codecStages returns the codecs to try for bodies. The first stage has at most one compression, the second has two.
func codecStages() ([][]survey.Codec, error) {
	layers := replicator.Compressions()
	stages := make([][]survey.Codec, 2)
	for _, format := range replicator.Formats() {
		names := [2][]string{{format}, nil}
		for _, outer := range layers {
			names[0] = append(names[0], outer+"+"+format)
			for _, inner := range layers {
				names[1] = append(names[1], outer+"+"+inner+"+"+format)
			}
		}
		for stage := range names {
			for _, name := range names[stage] {
				c, err := codec.New(name)
				if err != nil {
					return nil, err
				}
				stages[stage] = append(stages[stage], survey.Codec{Name: name, Decode: c.Document})
			}
		}
	}
	return stages, nil
}
