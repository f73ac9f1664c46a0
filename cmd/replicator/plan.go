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
	"time"

	"github.com/spf13/cobra"

	"replicator"
	"replicator/canal"
	"replicator/config"
	"replicator/pipeline"
	"replicator/server"
)

// statedRate is how many rows a second a fill is taken to write where nobody says: less than each sink manages on the
// source's own machine.
const statedRate = 20_000

func planCommand(o *options) *cobra.Command {
	asJSON, rate := false, 0
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Print what a changed file would do to the running program: fill, rebuild, refuse, end",
		Long: `Prints for each view what the file would do once the running program reloads it (SIGHUP), or, if none runs, once it is started:
  fill       it is new, or its sink lost it: it is filled from offset zero
  start      it is new, and [source] start is earliest or latest: it begins there in the binlog
  rebuild    its definition changed, and it says on_change = "rebuild"
  refused    it does not run, and the others go on; why, and what to do
  resume     it was in the file before: it goes on from where it stood
  end        it is not in the file any more: its writes stop, and what is stored stays
  unchanged  it goes on
with the rows that are to be scanned (the source's estimate) and how long that takes at a rate: --rate, or [rebuild] rate, or
20,000 rows a second. It starts nothing and writes nothing. What targets need, replicator check says.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if rate < 0 {
				return usageError{fmt.Errorf("--rate: %d is negative", rate)}
			}
			return plan(cmd.Context(), o, rate, cmd.OutOrStdout(), asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object per line")
	cmd.Flags().IntVar(&rate, "rate", 0, "`rows` a second that fills are taken to write")
	return cmd
}

// plannedView is what would become of one view.
type plannedView struct {
	View    string  `json:"view"`
	Sink    string  `json:"sink"`
	Kind    string  `json:"kind"`
	Action  string  `json:"action"`
	Rows    int64   `json:"rows"`    // to be scanned: an estimate
	Seconds float64 `json:"seconds"` // that takes
	Reason  string  `json:"reason"`
}

// What may become of a view. Of one with several sources, what comes last here is said.
const (
	planUnchanged = "unchanged"
	planResume    = "resume"
	planStart     = "start"
	planFill      = "fill"
	planRebuild   = "rebuild"
	planRefused   = "refused"
	planUnknown   = "unknown" // a server does not answer
	planEnd       = "end"
)

func graver(a, b string) bool {
	order := []string{planUnchanged, planResume, planStart, planFill, planRebuild, planRefused, planUnknown}
	return slices.Index(order, a) > slices.Index(order, b)
}

func plan(ctx context.Context, o *options, rate int, out io.Writer, asJSON bool) error {
	cfg, err := o.load()
	if err != nil {
		return err
	}
	if err := fingerprint(cfg); err != nil {
		return err
	}
	p := &planner{cfg: cfg, rate: rate, views: map[string]*plannedView{}}
	if p.rate == 0 {
		p.rate = statedRate
		if cfg.Rebuild.Rate > 0 {
			p.rate = min(p.rate, cfg.Rebuild.Rate)
		}
	}
	if p.log, err = o.logger(); err != nil {
		return err
	}
	views, err := p.plan(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		err = printJSON(out, views)
	} else {
		err = p.print(out, views)
	}
	if unknown := actions(views, planUnknown); err == nil && unknown > 0 {
		err = fmt.Errorf("what becomes of %s is not known: `replicator check` says what is missing", plural(unknown, "view"))
	}
	return err
}

// planner finds out what becomes of views.
type planner struct {
	cfg     *config.Config
	log     *slog.Logger
	rate    int
	saved   []replicator.Checkpoint
	running map[string]replicator.ViewStatus // nil: no process runs
	views   map[string]*plannedView
}

func (p *planner) plan(ctx context.Context) ([]plannedView, error) {
	running, err := client(p.cfg).Status(ctx)
	switch {
	case err == nil:
		p.running = map[string]replicator.ViewStatus{}
		for _, v := range running {
			p.running[v.View] = v
		}
	case !errors.Is(err, server.ErrNotRunning):
		return nil, err
	}
	if p.saved, err = readCheckpoints(ctx, p.cfg); err != nil {
		return nil, err
	}
	for _, shard := range p.cfg.Source.Shards {
		if err := p.shard(ctx, shard); err != nil {
			return nil, err
		}
	}
	var all []plannedView
	for _, v := range p.cfg.Views {
		all = append(all, *p.views[v.Name])
	}
	return append(all, p.ended()...), nil
}

// shard finds out what becomes of the views with one source.
func (p *planner) shard(ctx context.Context, shard config.Shard) (err error) {
	tables, err := tablesOf(p.cfg, shard, p.cfg.Views)
	if err != nil {
		return err
	}
	source, err := newSource(shard, tables, p.log, 0)
	if err != nil {
		return usageError{err}
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	for i := range p.cfg.Sinks {
		if err := p.sink(ctx, source, &p.cfg.Sinks[i]); err != nil {
			return err
		}
	}
	return nil
}

func (p *planner) sink(ctx context.Context, source *canal.Source, configured *config.Sink) (err error) {
	views := viewsOf(p.cfg, configured.Name)
	if len(views) == 0 {
		return nil
	}
	sink, err := openSink(p.cfg, configured, p.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sink.Close()) }()
	engine := pipeline.Pipeline{Name: configured.Name, Source: source, Sink: sink, Views: clones(views), OnLost: p.cfg.Source.OnLost}
	planned, err := engine.Plan(ctx, p.saved)
	for _, v := range views {
		one := plannedView{View: v.Name, Sink: v.Sink, Kind: v.Kind, Action: planUnknown}
		if err != nil {
			one.Reason = err.Error()
		} else {
			p.describe(&one, v, planned[v.Name])
		}
		if slices.Contains([]string{planFill, planRebuild}, one.Action) {
			if one.Rows, err = p.rows(ctx, source, v); err != nil {
				one.Action, one.Reason = planUnknown, err.Error()
			}
			one.Seconds = float64(one.Rows) / float64(p.rate)
		}
		p.add(one)
	}
	return nil
}

// describe says what a pipeline's plan means for a view.
func (p *planner) describe(one *plannedView, v *replicator.View, planned pipeline.Planned) {
	_, runs := p.running[v.Name]
	switch planned.Outcome {
	case pipeline.Begins:
		one.Action, one.Reason = planFill, "new"
		if start := p.cfg.Source.Start; start != "snapshot" {
			one.Action, one.Reason = planStart, fmt.Sprintf("new: it begins at the %s place in the binlog, as [source] start says", start)
		}
	case pipeline.Refills:
		one.Action, one.Reason = planFill, "its sink holds nothing of it any more"
	case pipeline.Rebuilds:
		one.Action, one.Reason = planRebuild, "its definition changed"
	case pipeline.Refused:
		one.Action, one.Reason = planRefused, strings.TrimPrefix(planned.Err.Error(), "view "+v.Name+": ")
		if p.running != nil { // the rebuild is the running program's, which has to know the file
			one.Reason = "after SIGHUP: " + one.Reason
		}
	default:
		one.Action = planUnchanged
		if p.running != nil && !runs {
			one.Action, one.Reason = planResume, "it goes on from where it stood when it was removed"
		}
		if planned.Filling {
			one.Reason = "a fill of it is under way, and goes on"
		}
	}
}

// rows is about how many rows a fill of a view scans.
func (p *planner) rows(ctx context.Context, source *canal.Source, v *replicator.View) (rows int64, err error) {
	at, err := source.Latest(ctx, nil)
	if err != nil {
		return 0, err
	}
	reader, err := source.Open(ctx, []replicator.Position{at}, replicator.TablesOf([]*replicator.View{v})...)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	for _, table := range replicator.TablesOf([]*replicator.View{v}) {
		n, err := reader.Estimate(ctx, table)
		if err != nil {
			return 0, err
		}
		rows += n
	}
	return rows, nil
}

// add adds what becomes of a view with one more source: these are filled side by side.
func (p *planner) add(one plannedView) {
	known := p.views[one.View]
	if known == nil {
		p.views[one.View] = &one
		return
	}
	known.Rows, known.Seconds = known.Rows+one.Rows, max(known.Seconds, one.Seconds)
	if graver(one.Action, known.Action) {
		known.Action, known.Reason = one.Action, one.Reason
	}
}

// ended are the views that are not in the file any more: of what runs, or else of what was saved.
func (p *planner) ended() (ended []plannedView) {
	names := map[string]plannedView{}
	for name, v := range p.running {
		names[name] = plannedView{View: name, Sink: v.Sink, Kind: v.Kind}
	}
	if p.running == nil {
		for _, c := range p.saved {
			if !strings.HasSuffix(c.View, replicator.ShadowSuffix) {
				names[c.View] = plannedView{View: c.View}
			}
		}
	}
	for name, one := range names {
		if p.cfg.View(name) == nil {
			one.Action, one.Reason = planEnd, "not in the file: its writes stop, what is stored stays"
			ended = append(ended, one)
		}
	}
	slices.SortFunc(ended, func(a, b plannedView) int { return strings.Compare(a.View, b.View) })
	return ended
}

func (p *planner) print(out io.Writer, views []plannedView) error {
	var rows [][]string
	scans := false
	for _, v := range views {
		scanned, took := "-", "-"
		if v.Action == planFill || v.Action == planRebuild {
			scans = true
			scanned, took = strconv.FormatInt(v.Rows, 10), time.Duration(v.Seconds*float64(time.Second)).Round(time.Second).String()
		}
		rows = append(rows, []string{v.View, v.Sink, v.Kind, v.Action, scanned, took, v.Reason})
	}
	if err := printTable(out, []string{"view", "sink", "kind", "action", "rows", "time", "reason"}, rows); err != nil || !scans {
		return err
	}
	_, err := fmt.Fprintf(out, "\nRows are the source's estimate, the time is at %d rows a second; --rate says another.\n", p.rate)
	return err
}

func actions(views []plannedView, action string) (n int) {
	for _, v := range views {
		if v.Action == action {
			n++
		}
	}
	return n
}
