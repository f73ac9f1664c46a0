package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"replicator"
	"replicator/canal"
	"replicator/config"
	"replicator/server"
	"replicator/verify"
)

// differencesError: verify found differences that remain, or dead letters.
type differencesError struct{ n, dead int64 }

func (e differencesError) Error() string {
	var left []string
	if e.n > 0 {
		left = append(left, plural(int(e.n), "difference")+" left: repair with --repair, or `replicator rebuild`")
	}
	if e.dead > 0 {
		left = append(left, plural(int(e.dead), "dead letter")+", which no repair can help: `replicator deadletters list` and `replicator explain` say why; "+
			"write newer versions, or mend what is in the way and `replicator deadletters retry`")
	}
	return strings.Join(left, "; ")
}

// verification is one call of verify.
type verification struct {
	cfg    *config.Config
	log    *slog.Logger
	sample float64
	repair bool
	rate   int
	errOut io.Writer
}

func verifyCommand(o *options) *cobra.Command {
	v := &verification{}
	asJSON, sample := false, ""
	cmd := &cobra.Command{
		Use:   "verify [VIEW…]",
		Short: "Compare views with the source; --repair fixes what differs",
		Long: `Compares what the named views (all, if none is named) really hold with the newest cells of the source. It counts what is
missing, stale, extra, or dead: absent because it can't be decoded, computed or stored. --repair fixes the first three.
It may run while the program and the application work: a cell that differs is read again once the view had time to include
it. Exit status 3 if differences remain, dead ones included.`,
		RunE: func(cmd *cobra.Command, names []string) (err error) {
			if v.cfg, err = loadViews(o, names); err != nil {
				return err
			}
			if v.log, err = o.logger(); err != nil {
				return err
			}
			if sample != "" {
				if v.sample, err = config.Share(sample); err != nil {
					return usageError{fmt.Errorf("--sample: %q is %w", sample, err)}
				}
			}
			if v.rate < 0 {
				return usageError{fmt.Errorf("--rate: %d is negative", v.rate)}
			}
			v.errOut = cmd.ErrOrStderr()
			if err := fingerprint(v.cfg); err != nil {
				return err
			}
			if len(names) == 0 {
				names = viewNames(v.cfg)
			}
			return v.run(cmd.Context(), names, cmd.OutOrStdout(), asJSON)
		},
	}
	cmd.ValidArgsFunction = o.completeViews
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object per line")
	cmd.Flags().BoolVar(&v.repair, "repair", false, "fix what differs")
	cmd.Flags().StringVar(&sample, "sample", "", "compare this `share` of the entities only, such as 1%")
	cmd.Flags().IntVar(&v.rate, "rate", 0, "cells per second; 0: no limit")
	return cmd
}

// run verifies views one after the other. One that can't be verified does not hide what is found of the others.
func (v *verification) run(ctx context.Context, names []string, out io.Writer, asJSON bool) error {
	var results []verify.Result
	var failed error
	remaining := differencesError{}
	for _, name := range names {
		total, err := v.shards(ctx, v.cfg.View(name))
		if ctx.Err() != nil {
			return err
		}
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		results = append(results, total)
		remaining.n += total.Remaining() - total.Dead
		remaining.dead += total.Dead
	}
	if len(results) > 0 {
		failed = errors.Join(failed, showResults(out, results, asJSON))
	}
	if failed == nil && remaining.n+remaining.dead > 0 {
		return remaining
	}
	return failed
}

// shards verifies a view against every shard of the source.
func (v *verification) shards(ctx context.Context, view *replicator.View) (total verify.Result, err error) {
	for i, shard := range v.cfg.Source.Shards {
		r, err := v.view(ctx, shard, view)
		if err != nil {
			return total, err
		}
		if i == 0 {
			total = r
			continue
		}
		total.Checked += r.Checked
		total.Missing += r.Missing
		total.Stale += r.Stale
		total.Extra += r.Extra
		total.Dead += r.Dead
		total.Repaired += r.Repaired
		total.Differences = append(total.Differences, r.Differences...)
	}
	return total, nil
}

func showResults(out io.Writer, results []verify.Result, asJSON bool) error {
	if asJSON {
		return printJSON(out, results)
	}
	count := func(n int64) string { return strconv.FormatInt(n, 10) }
	var rows, cells [][]string
	for _, r := range results {
		rows = append(rows, []string{r.View, count(r.Checked), count(r.Missing), count(r.Stale), count(r.Extra), count(r.Dead), count(r.Repaired)})
		for _, d := range r.Differences {
			difference := string(d.Kind)
			if d.Reason != "" {
				difference += ": " + d.Reason
			}
			cells = append(cells, []string{r.View, d.Key, d.Column, difference})
		}
	}
	if err := printTable(out, []string{"view", "checked", "missing", "stale", "extra", "dead", "repaired"}, rows); err != nil || len(cells) == 0 {
		return err
	}
	fmt.Fprintln(out)
	return printTable(out, []string{"view", "key", "column", "difference"}, cells)
}

// opened is one view, open on both sides.
type opened struct {
	view      *replicator.View
	tables    []replicator.Table
	source    *canal.Source
	reader    replicator.Reader
	sink      replicator.Sink
	target    replicator.Target
	evaluator replicator.Evaluator
}

// open opens a view for looking at: nothing of its progress is touched.
func (v *verification) open(ctx context.Context, shard config.Shard, view *replicator.View) (o *opened, err error) {
	o = &opened{}
	defer func() {
		if err != nil {
			err = errors.Join(err, o.close())
		}
	}()
	views := []*replicator.View{view}
	if o.tables, err = tablesOf(v.cfg, shard, views); err != nil {
		return o, err
	}
	if o.evaluator, err = compile(v.cfg, views, o.tables); err != nil {
		return o, err
	}
	if o.source, err = newSource(shard, o.tables, v.log, 0); err != nil {
		return o, err
	}
	if o.sink, err = openSink(v.cfg, v.cfg.Sink(view.Sink), v.log); err != nil {
		return o, err
	}
	marks, err := o.sink.Marks(ctx, shard.Name)
	if err != nil {
		return o, err
	}
	if views, err = asMarked(ctx, o.source, views, marks); err != nil {
		return o, err
	}
	o.view = views[0]
	if err := mayLookAt(o.view, marks); err != nil {
		return o, err
	}
	if o.target, err = o.sink.Open(ctx, shard.Name, views); err != nil {
		return o, err
	}
	var known []replicator.Position // a repair must not stand before what was applied
	for _, m := range marks {
		if !m.Position.IsZero() {
			known = append(known, m.Position)
		}
	}
	at, err := o.source.Latest(ctx, known)
	if err != nil {
		return o, err
	}
	o.reader, err = o.source.Open(ctx, []replicator.Position{at})
	return o, err
}

// asMarked are views with the fingerprints that they have with the source's tables: those that the sink knows them by,
// where they mean the same.
func asMarked(ctx context.Context, source *canal.Source, views []*replicator.View, marks []replicator.Mark) ([]*replicator.View, error) {
	own := clones(views)
	for _, v := range own {
		var tables []string
		for _, f := range v.From {
			tables = append(tables, f.Table)
		}
		identities, err := source.Identities(ctx, tables)
		if err != nil {
			return nil, err
		}
		v.Fingerprint = replicator.DefinedOn(v, identities)
		for _, m := range marks {
			if m.View == v.Name && replicator.SameDefinition(m.Fingerprint, v.Fingerprint) {
				v.Fingerprint = m.Fingerprint
			}
		}
	}
	return own, nil
}

// mayLookAt refuses what opening a view would change: a sink begins a view anew whose definition is another one, a
// counter that it does not know, and what lives in several shards in those that do not know it.
func mayLookAt(v *replicator.View, marks []replicator.Mark) error {
	i := slices.IndexFunc(marks, func(m replicator.Mark) bool { return m.View == v.Name })
	switch {
	case i >= 0 && !replicator.SameDefinition(marks[i].Fingerprint, v.Fingerprint):
		return fmt.Errorf("%w: %w", verify.ErrUnverifiable, replicator.Redefined(v, marks[i].Fingerprint, v.Fingerprint))
	case i < 0 && len(v.Shards) > 1:
		return fmt.Errorf("view %s: %w: it was never filled, or a shard of its sink lost it", v.Name, verify.ErrUnverifiable)
	case i < 0 && v.Kind == "counter":
		return fmt.Errorf("view %s: %w: it was never filled", v.Name, verify.ErrUnverifiable)
	}
	return nil
}

func (o *opened) close() error {
	var errs []error
	if o.reader != nil {
		errs = append(errs, o.reader.Close())
	}
	if o.source != nil {
		errs = append(errs, o.source.Close())
	}
	if o.sink != nil {
		errs = append(errs, o.sink.Close())
	}
	return errors.Join(errs...)
}

// view verifies one view against one shard of the source.
func (v *verification) view(ctx context.Context, shard config.Shard, view *replicator.View) (result verify.Result, err error) {
	o, err := v.open(ctx, shard, view)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	p := newProgress(v.errOut)
	defer p.end()
	options := verify.Options{
		View: o.view, Tables: o.tables, Reader: o.reader, Target: o.target, Evaluator: o.evaluator,
		Sample: v.sample, Rate: v.rate, Repair: v.repair, Fence: v.fence(ctx, o), Shard: numberOf(v.cfg, shard),
		Progress: func(checked, estimate int64) {
			if p.terminal {
				p.progress("verifying "+view.Name, checked, float64(checked)/float64(max(estimate, 1)))
			}
		},
	}
	return verify.Run(ctx, options)
}

// numberOf is a shard's place in the source.
func numberOf(cfg *config.Config, shard config.Shard) int {
	return slices.IndexFunc(cfg.Source.Shards, func(s config.Shard) bool { return s.Name == shard.Name })
}

// fence waits for the running process, if there is one.
func (v *verification) fence(ctx context.Context, o *opened) func(context.Context) error {
	c := client(v.cfg)
	if _, err := c.Status(ctx); errors.Is(err, server.ErrNotRunning) {
		return nil
	}
	return func(ctx context.Context) error {
		at, err := o.source.Latest(ctx, nil)
		if err != nil {
			return err
		}
		pos, _ := place(at)
		return c.Wait(ctx, server.Fence{At: pos, Source: o.source.Name()}, []string{o.view.Name}, fenceTime)
	}
}
