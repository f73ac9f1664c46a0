package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"time"

	"replicator"
	"replicator/canal"
	"replicator/codec"
	"replicator/config"
	"replicator/sinks"
	"replicator/view"
)

// decode reads the whole binlog by the program's own reader, in this process and into no sink: without evaluating
// anything, with the email index, and with all seven views.
func (l *lab) decode(ctx context.Context) error {
	for _, d := range []struct {
		stage, what string
		tables      []table
	}{
		{"read", "our reader: rows taken out of the binlog, nothing decoded", nil},
		{"decode-1", "our reader, every body decoded for the email index", oneView()},
		{"decode-7", "our reader, every body decoded for all 7 views", allViews()},
	} {
		h, err := l.newDecoding(ctx, d.tables)
		if err != nil {
			return err
		}
		bar := l.show.bar(d.what, l.cells)
		h.bar = bar
		var before, after runtime.MemStats
		var took usage
		err = l.profiled(d.tables, func() (err error) {
			runtime.ReadMemStats(&before)
			took, err = l.measure(func() error { return h.read(ctx) })
			runtime.ReadMemStats(&after)
			return err
		})
		bar.done()
		if err = errors.Join(err, h.source.Close()); err != nil {
			return err
		}
		if err := h.check(l.cells, len(d.tables)); err != nil {
			return err
		}
		r := result{Stage: d.stage, What: d.what, Unit: "cell", Units: l.cells, Checked: h.entries}
		if raw := l.raw(rawReadStage, r.Units); raw > 0 {
			r.Raw, r.OfRaw = rawReadStage, raw/took.wall.Seconds()
		}
		r.Allocs = float64(after.Mallocs-before.Mallocs) / float64(r.Units)
		r.Allocated = float64(after.TotalAlloc-before.TotalAlloc) / float64(r.Units)
		l.add(r, took)
	}
	return nil
}

// profiled runs f, under the profilers that were asked for if it is the run with all views.
func (l *lab) profiled(tables []table, f func() error) error {
	if len(tables) < 2 {
		return f()
	}
	var closing []func() error
	if l.profile != "" {
		out, err := os.Create(l.profile)
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(out); err != nil {
			return errors.Join(err, out.Close())
		}
		closing = append(closing, func() error { pprof.StopCPUProfile(); return out.Close() })
	}
	if l.allocs != "" {
		rate := runtime.MemProfileRate
		runtime.MemProfileRate = 512 // bytes: what other stages left is a trifle beside it
		closing = append(closing, func() error {
			runtime.MemProfileRate = rate
			out, err := os.Create(l.allocs)
			if err != nil {
				return err
			}
			return errors.Join(pprof.Lookup("allocs").WriteTo(out, 0), out.Close())
		})
	}
	err := f()
	for _, c := range closing {
		err = errors.Join(err, c())
	}
	return err
}

// decoding is a reader with a handler that evaluates what it is given, and counts.
type decoding struct {
	source    *canal.Source
	evaluator *view.Evaluator // nil: nothing is evaluated
	end       replicator.Position
	finish    context.CancelFunc
	bar       *bar
	cells     int
	entries   int64
	err       error // of the first value that could not be computed
}

// newDecoding wires a reader of the source as the program does, by a configuration in its own form.
func (l *lab) newDecoding(ctx context.Context, tables []table) (*decoding, error) {
	s, err := l.setUp(ctx, sourceDatabase, "earliest", oneOrMore(tables))
	if err != nil {
		return nil, err
	}
	if _, err := l.sinkDB.ExecContext(ctx, "DROP DATABASE "+s.database); err != nil { // no sink here
		return nil, err
	}
	cfg, err := config.Load(filepath.Join(s.dir, "replicator.toml"), os.LookupEnv, sinks.Types())
	if err != nil {
		return nil, err
	}
	shard := cfg.Source.Shards[0]
	roles := cfg.ShardTables(shard)
	d := &decoding{}
	if len(tables) > 0 {
		for i := range roles {
			if roles[i].Columns, roles[i].Optional, err = view.Columns(cfg.Views, roles[i]); err != nil {
				return nil, err
			}
		}
		codecs := view.Codecs{JSON: codec.JSON, Body: func(table string, names []string) (view.Decoder, error) {
			c, err := codec.New(cfg.Table(table).Codec)
			if err != nil {
				return nil, err
			}
			return c.Decoder(names), nil
		}}
		if d.evaluator, err = view.Compile(cfg.Views, roles, codecs); err != nil {
			return nil, err
		}
	}
	d.source, err = canal.New(canal.Config{DSN: shard.DSN.Reveal(), Tables: roles})
	return d, err
}

// oneOrMore are tables for a configuration, which can't be without a view.
func oneOrMore(tables []table) []table {
	if len(tables) == 0 {
		return oneView()
	}
	return tables
}

// read reads from the oldest binlog to what is its end now.
func (d *decoding) read(ctx context.Context) error {
	var err error
	if d.end, err = d.source.Latest(ctx, nil); err != nil {
		return err
	}
	begin, err := d.source.Oldest(ctx, nil)
	if err != nil {
		return err
	}
	reader, err := d.source.Open(ctx, []replicator.Position{begin})
	if err != nil {
		return err
	}
	reading, finish := context.WithCancel(ctx)
	defer finish()
	d.finish = finish
	err = reader.Read(reading, d)
	if reading.Err() != nil && ctx.Err() == nil { // the end was reached
		err = nil
	}
	return errors.Join(err, reader.Close())
}

// Change implements replicator.Handler.
func (d *decoding) Change(_ context.Context, c *replicator.Change) error {
	if d.cells++; d.cells%10_000 == 0 {
		d.bar.add(10_000)
	}
	if d.evaluator == nil {
		return nil
	}
	for _, v := range d.evaluator.Evaluate(c.Cell, c.Row) {
		d.entries += int64(len(v.Entries))
		if v.Err != nil && d.err == nil {
			d.err = v.Err
		}
	}
	return nil
}

// Unlogged implements replicator.Handler.
func (d *decoding) Unlogged(_ string, _ int64, err error) error { return err }

// Commit implements replicator.Handler.
func (d *decoding) Commit(order int64, _ time.Time) {
	if order >= d.end.Order {
		d.finish()
	}
}

// check compares what was read with what was written.
func (d *decoding) check(cells, views int) error {
	if d.err != nil {
		return d.err
	}
	if d.cells != cells || d.entries != int64(cells)*int64(views) {
		return fmt.Errorf("the result is wrong: %d cells with %d entries were read, not %d with %d", d.cells,
			d.entries, cells, cells*views)
	}
	return nil
}
