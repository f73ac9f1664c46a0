package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"replicator"
	"replicator/codec"
	"replicator/config"
)

func tailCommand(o *options) *cobra.Command {
	t := &tail{}
	viewName := ""
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Print decoded changes as JSON lines",
		Long: `Prints every change of the configured tables as a JSON line: table, op, key, column, version, position, time, body.
It needs no sink and saves nothing. With --view it prints what that view would be given.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			t.out = bufio.NewWriterSize(cmd.OutOrStdout(), 64<<10)
			return t.run(cmd.Context(), o, viewName)
		},
	}
	cmd.Flags().StringVar(&viewName, "view", "", "print what this `view` would be given")
	_ = cmd.RegisterFlagCompletionFunc("view", o.completeView)
	cmd.Flags().StringVar(&t.from, "from", "latest", "where to begin: latest or earliest")
	cmd.Flags().IntVar(&t.limit, "limit", 0, "stop after this many lines (0: when interrupted)")
	return cmd
}

// tail prints changes. It implements replicator.Handler.
type tail struct {
	from  string
	limit int

	log       *slog.Logger
	out       *bufio.Writer
	cfg       *config.Config
	reader    replicator.Reader
	view      *replicator.View
	evaluator replicator.Evaluator // nil: print bodies
	bodies    bodies
	lines     int
}

// errEnough ends a tail that has printed as many lines as it was asked for.
var errEnough = errors.New("enough")

func (t *tail) run(ctx context.Context, o *options, viewName string) error {
	var err error
	if t.cfg, err = o.load(); err != nil {
		return err
	}
	if t.from != "latest" && t.from != "earliest" {
		return usageError{fmt.Errorf("--from is latest or earliest, not %q", t.from)}
	}
	if t.log, err = o.logger(); err != nil {
		return err
	}
	if len(t.cfg.Source.Shards) > 1 {
		return usageError{errors.New("tail reads one source, and this configuration has shards: use a configuration with the dsn of one shard")}
	}
	if err := fingerprint(t.cfg); err != nil {
		return err
	}
	shard := t.cfg.Source.Shards[0]
	tables := t.cfg.ShardTables(shard)
	if viewName != "" {
		if t.view = t.cfg.View(viewName); t.view == nil {
			return usageError{fmt.Errorf("%s has no view %q", t.cfg.File, viewName)}
		}
		views := []*replicator.View{t.view}
		if tables, err = tablesOf(t.cfg, shard, views); err != nil {
			return err
		}
		if t.evaluator, err = compile(t.cfg, views, tables); err != nil {
			return usageError{err}
		}
	} else if err := t.wholeRows(tables); err != nil {
		return err
	}
	source, err := newSource(shard, tables, t.log, 0)
	if err != nil {
		return err
	}
	begin := source.Latest
	if t.from == "earliest" {
		begin = source.Oldest
	}
	at, err := begin(ctx, nil)
	if err == nil {
		t.reader, err = source.Open(ctx, []replicator.Position{at})
	}
	if err != nil {
		return errors.Join(err, source.Close())
	}
	err = t.reader.Read(ctx, t)
	if ctx.Err() != nil || errors.Is(err, errEnough) {
		err = nil
	}
	return errors.Join(err, t.out.Flush(), t.reader.Close(), source.Close())
}

// Unlogged says that changes are missing from what is printed, and goes on: nothing is kept that would be wrong without
// them.
func (t *tail) Unlogged(_ string, _ int64, err error) error {
	t.log.Warn("changes are missing here", "error", err)
	return nil
}

// wholeRows asks for everything that the tables hold.
func (t *tail) wholeRows(tables []replicator.Table) (err error) {
	for i := range tables {
		if tables[i].Body == "" {
			tables[i].Columns = []string{"*"}
		}
	}
	t.bodies, err = newBodies(tables)
	return err
}

// Change prints one line.
func (t *tail) Change(_ context.Context, c *replicator.Change) error {
	line := map[string]any{
		"table": c.Cell.Table, "op": c.Kind.String(), "key": c.Cell.Key.String(), "version": c.Version,
		"position": t.reader.Locate(c.Order), "time": c.Time.UTC().Format(time.RFC3339Nano),
	}
	if c.Cell.Column != "" {
		line["column"] = c.Cell.Column
	}
	if t.evaluator != nil {
		if !t.view.Feeds(c.Cell) {
			return nil
		}
		t.given(line, c)
	} else if c.Row != nil {
		t.bodies.show(line, c.Row)
	}
	if _, err := t.out.Write(append(codec.AppendJSON(nil, line), '\n')); err != nil {
		return err
	}
	if t.lines++; t.limit > 0 && t.lines >= t.limit {
		return errEnough
	}
	return nil
}

// given adds what the view would be given.
func (t *tail) given(line map[string]any, c *replicator.Change) {
	line["view"] = t.view.Name
	for _, v := range t.evaluator.Evaluate(c.Cell, c.Row) {
		if v.Err != nil {
			line["error"] = v.Err.Error()
		}
		entries := make([]any, len(v.Entries))
		for i, e := range v.Entries {
			entries[i] = entryMembers(t.view, e)
		}
		line["entries"] = entries
	}
}

// Commit lets the lines of a transaction be seen at its end.
func (t *tail) Commit(int64, time.Time) {
	if t.out.Buffered() > 0 {
		_ = t.out.Flush() // the next write says the same
	}
}
