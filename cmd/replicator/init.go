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

  # the password not in the list of processes, and only two tables looked at
  replicator init --source 'replicator:${DB_PASSWORD}@tcp(127.0.0.1:3306)/app' --table cell --table entities`

func initCommand(*options) *cobra.Command {
	var i initialization
	cmd := &cobra.Command{
		Use:   "init --source DSN",
		Short: "Look at a source and print a commented starter configuration",
		Long: `Looks at the tables of a database and at a few hundred rows of each, finds out which of them hold
cells, events or plain rows, how bodies are written and which properties they have, and prints a
configuration that works as it stands: each table's roles, likely views, and more of them as comments.

Views are kept in the source's own database, or in the servers that --sink names: a Redis
(redis://HOST:PORT/NUMBER), an Elasticsearch (http://HOST:PORT), a MySQL server (a DSN).

The DSN has the form USER:PASSWORD@tcp(HOST:PORT)/DATABASE; SELECT is enough. ${NAME} in place of
the password takes it from the environment. No password is printed: the configuration has
${DB_PASSWORD}, ${REDIS_PASSWORD}, ${ELASTIC_PASSWORD}, ${SINK_PASSWORD}, or the ${NAME} that was given.`,
		Example: initExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return i.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&i.source, "source", "", "the `DSN` of the source: USER:PASSWORD@tcp(HOST:PORT)/DATABASE")
	cmd.Flags().StringArrayVar(&i.sinks, "sink", nil,
		"keep views in the server of this `URL|DSN`; may be repeated, once for each type of server")
	cmd.Flags().StringArrayVar(&i.tables, "table", nil, "look at this `table` only; may be repeated")
	return cmd
}

// initialization holds the flags of init.
type initialization struct {
	source string
	sinks  []string
	tables []string
}

func (i *initialization) run(ctx context.Context, out, errOut io.Writer) error {
	if i.source == "" {
		return usageError{errors.New("say which database to look at: replicator init --source " +
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
	fmt.Fprintf(errOut, "looked at %s of %s; nothing was changed\n", looked, db.Name)
	return nil
}

// parseTargets parses the values of --sink.
func parseTargets(sinks []string) (targets []survey.Target, err error) {
	for _, text := range sinks {
		t, err := survey.ParseTarget(text)
		if err != nil {
			return nil, usageError{fmt.Errorf("--sink: %w", err)}
		}
		if slices.ContainsFunc(targets, func(other survey.Target) bool { return other.Type == t.Type }) {
			return nil, usageError{fmt.Errorf("--sink: two servers are of type %s: name one of each type, and "+
				"add others to the file", t.Type)}
		}
		targets = append(targets, t)
	}
	return targets, nil
}

// lookAtTargets reads the databases of MySQL sinks that are not the source itself. A view must not use a table with
// other content.
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

// variablePassword matches a DSN with an environment variable instead of the password.
var variablePassword = regexp.MustCompile(`^[^:@/]*:(\$\{([A-Za-z_][A-Za-z0-9_]*)\})@`)

// withPassword replaces the variable in a DSN by the password, and returns the variable's name. If the DSN contains the
// password itself, the name is the one that the configuration will use.
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

// codecStages returns the codecs to try for bodies: first those with at most one compression, then those with two.
func codecStages() ([][]survey.Codec, error) {
	layers := codec.Compressions()
	stages := make([][]survey.Codec, 2)
	for _, format := range codec.Formats() {
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
