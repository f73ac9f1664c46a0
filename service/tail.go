package service

import (
	"bufio"
	"context"
	"errors"
	"io"
	"time"

	"replicator"
	"replicator/canal"
)

// Where a Tail may begin.
const (
	Latest   = "latest"
	Earliest = "earliest"
)

// Tail prints the changes of one source as JSON lines. It implements replicator.Handler.
type Tail struct {
	Setup
	View  *replicator.View // what it would be given is printed; nil: the changes
	From  string           // Latest or Earliest
	Limit int              // of lines; 0: none

	out       *bufio.Writer
	reader    replicator.Reader
	evaluator replicator.Evaluator // nil: print bodies
	bodies    bodies
	lines     int
}

// errEnough ends a tail that has printed as many lines as it was asked for.
var errEnough = errors.New("enough")

// Run prints changes from latest or earliest on, until ctx is done or there were as many as asked for.
func (t *Tail) Run(ctx context.Context, out io.Writer) (err error) {
	if err := readsTables(t.Config, "tail"); err != nil {
		return err
	}
	t.out = bufio.NewWriterSize(out, 64<<10)
	if len(t.Config.Source.Shards) > 1 {
		return InvalidError{errors.New("tail reads one source, and this configuration has shards: " +
			"use a configuration with the dsn of one shard")}
	}
	source, err := t.source()
	if err != nil {
		return err
	}
	begin := source.Latest
	if t.From == Earliest {
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

// source is the one that is read: of the tables that feed the view, or of all with all that they hold.
func (t *Tail) source() (*canal.Source, error) {
	shard := t.Config.Source.Shards[0]
	if t.View == nil {
		tables := t.Config.ShardTables(shard)
		if err := t.wholeRows(tables); err != nil {
			return nil, err
		}
		return t.Setup.source(shard, tables)
	}
	views := []*replicator.View{t.View}
	tables, err := tablesOf(t.Config, shard, views)
	if err != nil {
		return nil, err
	}
	if t.evaluator, err = compile(t.Config, views, tables); err != nil {
		return nil, InvalidError{err}
	}
	return t.Setup.source(shard, tables)
}

// Unlogged says that changes are missing from what is printed, and goes on: nothing is kept that would be wrong without
// them.
func (t *Tail) Unlogged(_ string, _ int64, err error) error {
	t.Log.Warn("changes are missing here", "error", err)
	return nil
}

// wholeRows asks for everything that the tables hold.
func (t *Tail) wholeRows(tables []replicator.Table) (err error) {
	for i := range tables {
		if tables[i].Body == "" {
			tables[i].Columns = []string{"*"}
		}
	}
	t.bodies, err = newBodies(tables)
	return err
}

// Change prints one line.
func (t *Tail) Change(_ context.Context, c *replicator.Change) error {
	line := map[string]any{
		"table": c.Cell.Table, "op": c.Kind.String(), "key": c.Cell.Key.String(), "version": c.Version,
		"position": t.reader.Locate(c.Order), "time": c.Time.UTC().Format(time.RFC3339Nano),
	}
	if c.Cell.Column != "" {
		line["column"] = c.Cell.Column
	}
	if t.evaluator != nil {
		if !t.View.Feeds(c.Cell) {
			return nil
		}
		t.given(line, c)
	} else if c.Row != nil {
		t.bodies.show(line, c.Row)
	}
	if _, err := t.out.Write(append(replicator.AppendJSON(nil, line), '\n')); err != nil {
		return err
	}
	if t.lines++; t.Limit > 0 && t.lines >= t.Limit {
		return errEnough
	}
	return nil
}

// given adds what the view would be given.
func (t *Tail) given(line map[string]any, c *replicator.Change) {
	line["view"] = t.View.Name
	for _, v := range t.evaluator.Evaluate(c.Cell, c.Row) {
		if v.Err != nil {
			line["error"] = v.Err.Error()
		}
		entries := make([]any, len(v.Entries))
		for i, e := range v.Entries {
			entries[i] = entryMembers(t.View, e)
		}
		line["entries"] = entries
	}
}

// Commit lets the lines of a transaction be seen at its end.
func (t *Tail) Commit(int64, time.Time) {
	if t.out.Buffered() > 0 {
		_ = t.out.Flush() // the next write says the same
	}
}
