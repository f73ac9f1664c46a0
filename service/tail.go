package service

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"replicator"
	"replicator/canal"
	"replicator/config"
)

// The positions where a Tail can start.
const (
	Latest   = "latest"
	Earliest = "earliest"
)

// Tail prints changes of the sources as JSON lines while it reads them. With several sources, their lines are
// interleaved and each line has the source's name.
type Tail struct {
	Setup
	View  *replicator.View // print the entries that this view would get; nil: print the changes themselves
	From  string           // Latest or Earliest
	Limit int              // the maximum number of lines; 0: no limit

	mu    sync.Mutex // guards the fields below
	out   *bufio.Writer
	lines int
}

// tailing reads one source of a Tail. It implements replicator.Handler.
type tailing struct {
	*Tail
	shard     config.Shard
	reader    replicator.Reader
	evaluator replicator.Evaluator // evaluates Tail.View; nil: there is no view, so print bodies
	bodies    bodies
	missing   absences
}

// errEnough ends a tail that has printed the requested number of lines.
var errEnough = errors.New("enough")

// Run prints changes, starting at the latest or the earliest position. It returns when ctx is done or Limit lines are
// printed.
func (t *Tail) Run(ctx context.Context, out io.Writer) error {
	if err := readsTables(t.Config, "tail"); err != nil {
		return err
	}
	t.out = bufio.NewWriterSize(out, 64<<10)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(t.Config.Source.Shards))
	var wg sync.WaitGroup
	for i, shard := range t.Config.Source.Shards {
		wg.Go(func() {
			defer cancel() // the first source that ends stops the others
			errs[i] = reaching(sourceNamed(shard.Name), t.follow(ctx, shard))
		})
	}
	wg.Wait()
	return errors.Join(errors.Join(errs...), t.out.Flush())
}

func (t *Tail) follow(ctx context.Context, shard config.Shard) (err error) {
	one := &tailing{Tail: t, shard: shard}
	source, err := one.source()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	begin := source.Latest
	if t.From == Earliest {
		begin = source.Oldest
	}
	at, err := begin(ctx, nil)
	if err == nil {
		one.reader, err = source.Open(ctx, []replicator.Position{at})
	}
	if err != nil {
		if ctx.Err() != nil { // the tail is ending, such as after an error of another shard
			err = nil
		}
		return err
	}
	err = one.reader.Read(ctx, one)
	one.missing.end(one.log())
	if ctx.Err() != nil || errors.Is(err, errEnough) {
		err = nil
	}
	return errors.Join(err, one.reader.Close())
}

// source returns the shard's source. With a view, the source reads only what the view needs; without one, it reads
// whole rows of all tables.
func (t *tailing) source() (*canal.Source, error) {
	if t.View == nil {
		tables := t.Config.ShardTables(t.shard)
		if err := t.wholeRows(tables); err != nil {
			return nil, err
		}
		return t.Setup.source(t.shard, tables)
	}
	views := []*replicator.View{t.View}
	tables, err := tablesOf(t.Config, t.shard, views)
	if err != nil {
		return nil, err
	}
	if t.evaluator, err = compile(t.Config, views, tables); err != nil {
		return nil, InvalidError{err}
	}
	if t.bodies, err = newBodies(tables); err != nil {
		return nil, err
	}
	return t.Setup.source(t.shard, tables)
}

// Unlogged logs that a table changed, and that the binlog doesn't say which rows. The tail continues.
func (t *tailing) Unlogged(table string, _ int64, err error) error {
	t.missing.say(t.log(), table, err, time.Now())
	return nil
}

// unlogged is the log message of absences. The attribute `error` has the cause.
const unlogged = "this output is incomplete: the binlog doesn't say which rows of a table changed"

// absences logs that the output lacks changes of a table: the first one immediately, then at most once a minute the
// number of further ones. A binlog may have thousands of statements that don't tell which rows they changed.
type absences struct {
	said  map[string]time.Time // by table: time of the last log line
	quiet map[string]int       // by table: the number of missing changes since the last log line
	last  map[string]error     // by table: why the latest change is missing
}

func (a *absences) say(log *slog.Logger, table string, err error, now time.Time) {
	if a.said == nil {
		a.said, a.quiet, a.last = map[string]time.Time{}, map[string]int{}, map[string]error{}
	}
	a.last[table] = err
	if at, is := a.said[table]; is && now.Sub(at) < time.Minute {
		a.quiet[table]++
		return
	}
	log.Warn(unlogged, "table", table, "count", a.quiet[table]+1, "error", err)
	a.said[table], a.quiet[table] = now, 0
}

func (a *absences) end(log *slog.Logger) {
	for _, table := range slices.Sorted(maps.Keys(a.quiet)) {
		if n := a.quiet[table]; n > 0 {
			log.Warn(unlogged, "table", table, "count", n, "error", a.last[table])
		}
	}
}

func (t *tailing) log() *slog.Logger {
	if t.shard.Name != "" {
		return t.Log.With("source", t.shard.Name)
	}
	return t.Log
}

// wholeRows makes the source read all columns of the tables that have no body.
func (t *tailing) wholeRows(tables []replicator.Table) (err error) {
	for i := range tables {
		if tables[i].Body == "" {
			tables[i].Columns = []string{"*"}
		}
	}
	t.bodies, err = newBodies(tables)
	return err
}

// Refer handles a change of a row that the view joins: it prints an update of each cell that uses the row.
func (t *tailing) Refer(ctx context.Context, ref *replicator.Reference) error {
	const page = 100
	for after, more := "", t.View != nil; more; more = after != "" {
		cells, next, err := t.reader.Referring(ctx, []replicator.Reference{*ref}, after, page)
		if err != nil {
			return err
		}
		for _, c := range cells {
			err := t.Change(ctx, &replicator.Change{
				Kind: replicator.Update, Cell: c, Version: replicator.NoVersion, Order: ref.Order, Time: ref.Time,
			})
			if err != nil {
				return err
			}
		}
		after = next
	}
	return nil
}

// joined returns a change with the joined rows that the view needs. It reads the row and the joined rows from the
// source, in their current state.
func (t *tailing) joined(ctx context.Context, c *replicator.Change) (*replicator.Change, error) {
	if t.View == nil || len(t.View.Joins) == 0 || c.Kind == replicator.Delete {
		return c, nil
	}
	rows, _, err := t.reader.Newest(ctx, []replicator.Cell{c.Cell}, 0)
	if err != nil {
		return nil, err
	}
	now := *c
	if now.Row = rows[0]; now.Row != nil {
		now.Version = now.Row.Version
	}
	return &now, nil
}

func (t *tailing) Change(ctx context.Context, c *replicator.Change) error {
	if t.View != nil && !t.View.Feeds(c.Cell) {
		return nil
	}
	c, err := t.joined(ctx, c)
	if err != nil {
		return err
	}
	line := map[string]any{
		"table": c.Cell.Table, "op": c.Kind.String(), "key": c.Cell.Key.String(), "column": c.Cell.Column,
		"version": c.Version, "position": t.reader.Locate(c.Order), "time": c.Time.UTC().Format(time.RFC3339Nano),
	}
	if t.shard.Name != "" {
		line["source"] = t.shard.Name
	}
	if c.Row == nil && c.Version == replicator.AnyVersion { // the binlog has no row for this change, or only part of it
		line["version"] = nil
	}
	if t.evaluator != nil {
		t.given(line, c)
	} else if line["body"] = nil; c.Row != nil {
		t.bodies.show(line, c.Row)
		if c.Row.Err != nil { // for example, the version doesn't fit its type
			line["error"] = c.Row.Err.Error()
		}
	}
	return t.print(append(replicator.AppendJSON(nil, replicator.ObjectOf(line)), '\n'))
}

// print prints one line. It returns errEnough after the last line of the limit.
func (t *Tail) print(line []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.Limit > 0 && t.lines >= t.Limit { // another source printed the last line
		return errEnough
	}
	if _, err := t.out.Write(line); err != nil {
		return err
	}
	if t.lines++; t.Limit > 0 && t.lines >= t.Limit {
		return errEnough
	}
	return nil
}

// given adds to a line the entries that the view would get from a change.
func (t *tailing) given(line map[string]any, c *replicator.Change) {
	line["view"] = t.View.Name
	if c.Row == nil && c.Kind != replicator.Delete { // no row in the log: a pipeline would read it from the source
		line["entries"] = nil
		return
	}
	for _, v := range t.evaluator.Evaluate(c.Cell, c.Row) {
		if v.Err != nil {
			line["error"] = v.Err.Error()
		}
		entries := make([]any, len(v.Entries))
		for i, e := range v.Entries {
			entries[i] = t.bodies.entry(t.View, e)
		}
		line["entries"] = entries
	}
}

func (t *tailing) Commit(int64, time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.out.Buffered() > 0 {
		_ = t.out.Flush() // ignore the error, because the next write returns it again
	}
}
