package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"replicator/codec"
	"replicator/survey"
)

const initExample = `  replicator init --source 'replicator:SECRET@tcp(127.0.0.1:3306)/app' > replicator.toml
  export DB_PASSWORD='SECRET'
  replicator check
  replicator run

  # the password not in the list of processes, and only two tables looked at
  replicator init --source 'replicator:${DB_PASSWORD}@tcp(127.0.0.1:3306)/app' --table cell --table entities`

func initCommand(*options) *cobra.Command {
	var source string
	var tables []string
	cmd := &cobra.Command{
		Use:   "init --source DSN",
		Short: "Look at a source and print a commented starter configuration",
		Long: `Looks at the tables of a database and at a few hundred rows of each, finds out which of them hold
cells, events or plain rows, how bodies are written and which properties they have, and prints a
configuration that works as it stands: each table's roles, an index of a likely property, and more
views as comments.

The DSN has the form USER:PASSWORD@tcp(HOST:PORT)/DATABASE; SELECT is enough. ${NAME} in place of
the password takes it from the environment. The password is not printed: the configuration has
${DB_PASSWORD}, or the ${NAME} that was given.`,
		Example: initExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return initConfig(cmd.Context(), source, tables, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&source, "source", "", "the `DSN` of the source: USER:PASSWORD@tcp(HOST:PORT)/DATABASE")
	cmd.Flags().StringArrayVar(&tables, "table", nil, "look at this `table` only; may be repeated")
	return cmd
}

func initConfig(ctx context.Context, source string, tables []string, out, errOut io.Writer) error {
	if source == "" {
		return usageError{errors.New("say which database to look at: replicator init --source 'USER:PASSWORD@tcp(HOST:PORT)/DATABASE'")}
	}
	dsn, variable, err := withPassword(source, os.LookupEnv)
	if err != nil {
		return usageError{err}
	}
	db, err := survey.Read(ctx, dsn, tables)
	if err != nil {
		err = fmt.Errorf("--source: %w", err)
		if errors.Is(err, survey.ErrDSN) || errors.Is(err, survey.ErrNoDatabase) {
			return usageError{err}
		}
		return err
	}
	db.DSN = survey.HidePassword(dsn, variable)
	stages, err := codecStages()
	if err != nil {
		return err
	}
	if err := survey.Write(out, db, stages); err != nil {
		return err
	}
	fmt.Fprintf(errOut, "looked at %s of %s; nothing was changed\n", plural(len(db.Tables), "table"), db.Name)
	return nil
}

// variablePassword is a variable in place of a DSN's password.
var variablePassword = regexp.MustCompile(`^[^:@/]*:(\$\{([A-Za-z_][A-Za-z0-9_]*)\})@`)

// withPassword puts the password into a DSN that names a variable in its place, and returns the variable's name; one
// that the configuration is to have if the DSN holds a password itself.
func withPassword(dsn string, env func(string) (string, bool)) (full, variable string, err error) {
	at := variablePassword.FindStringSubmatch(dsn)
	if at == nil {
		return dsn, "DB_PASSWORD", nil
	}
	password, set := env(at[2])
	if !set {
		return "", "", fmt.Errorf("--source: the environment variable %s is not set", at[2])
	}
	return strings.Replace(dsn, at[1], password, 1), at[2], nil
}

// codecStages are the codecs that bodies may be written in: those of one compression or none, then those of two.
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
