package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"replicator"
	"replicator/canal"
	"replicator/config"
	"replicator/pipeline"
	"replicator/server"
)

// PlannedView says what a reload, or the next start, will do to one view.
type PlannedView struct {
	View    string  `json:"view"`
	Sink    string  `json:"sink"`
	Kind    string  `json:"kind"`
	Action  string  `json:"action"`
	Rows    int64   `json:"rows"`    // the estimated number of rows to scan
	Seconds float64 `json:"seconds"` // the estimated duration of the scan
	Reason  string  `json:"reason"`

	Rate     int    `json:"rate,omitempty"`      // the rate that Seconds assumes, in rows a second
	RateFrom string `json:"rate_from,omitempty"` // where Rate comes from: RateAsked, RateLimit, RateFill or RateAssumed
}

// The values of PlannedView.Action. If a view's actions differ between sources, the action that comes last here counts.
const (
	PlanUnchanged = "unchanged"
	PlanResume    = "resume"
	PlanStart     = "start"
	PlanFill      = "fill"
	PlanRebuild   = "rebuild"
	PlanRefused   = "refused"
	PlanUnknown   = "unknown" // a server doesn't answer, so the action is unknown
	PlanEnd       = "end"
)

func graver(a, b string) bool {
	order := []string{PlanUnchanged, PlanResume, PlanStart, PlanFill, PlanRebuild, PlanRefused, PlanUnknown}
	return slices.Index(order, a) > slices.Index(order, b)
}

// Scans reports whether the view will be filled.
func (v PlannedView) Scans() bool { return v.Action == PlanFill || v.Action == PlanRebuild }

// Plan returns what the running process would do with each view if it reloaded the file now, or what the next start
// would do if no process runs. It includes views that are no longer in the file. rate is the assumed rate of fills, in
// rows a second; 0 means the measured or default rate.
func Plan(ctx context.Context, setup Setup, rate int) ([]PlannedView, error) {
	if err := readsTables(setup.Config, "plan"); err != nil {
		return nil, err
	}
	p := &planner{Setup: setup, asked: rate, views: map[string]*PlannedView{}}
	return p.plan(ctx)
}

type planner struct {
	Setup
	asked   int // the requested rate, in rows a second; 0: none was requested
	saved   []replicator.Checkpoint
	running map[string]replicator.ViewStatus // by view: the running process's status; nil: no process runs
	views   map[string]*PlannedView
}

func (p *planner) plan(ctx context.Context) ([]PlannedView, error) {
	running, err := Client(p.Config).Status(ctx)
	switch {
	case err == nil:
		p.running = map[string]replicator.ViewStatus{}
		for _, v := range running {
			p.running[v.View] = v
		}
	case !errors.Is(err, server.ErrNotRunning):
		return nil, err
	}
	if p.saved, err = Checkpoints(ctx, p.Config); err != nil {
		return nil, err
	}
	for _, shard := range p.Config.Source.Shards {
		if err := p.addShard(ctx, shard); err != nil {
			return nil, err
		}
	}
	var all []PlannedView
	for _, v := range p.Config.Views {
		all = append(all, *p.views[v.Name])
	}
	return append(all, p.ended()...), nil
}

func (p *planner) addShard(ctx context.Context, shard config.Shard) (err error) {
	tables, err := tablesOf(p.Config, shard, p.Config.Views)
	if err != nil {
		return err
	}
	source, err := p.source(shard, tables)
	if err != nil {
		return InvalidError{err}
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	for i := range p.Config.Sinks {
		if err := p.addSink(ctx, source, tables, p.Config.Sinks[i].Name); err != nil {
			return err
		}
	}
	return nil
}

func (p *planner) addSink(ctx context.Context, source *canal.Source, tables []replicator.Table,
	name string) (err error) {
	views := ViewsOf(p.Config, name)
	if len(views) == 0 {
		return nil
	}
	sink, err := p.sink(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sink.Close()) }()
	e := pipeline.New(pipeline.Config{
		Name: name, Source: source, Sink: sink, Views: clones(views),
		OnLost: p.Config.Source.OnLost, Feeds: Feeds(p.Config),
	})
	planned, err := e.Plan(ctx, p.saved)
	for _, v := range views {
		one := &PlannedView{View: v.Name, Sink: v.Sink, Kind: v.Kind, Action: PlanUnknown}
		if err != nil {
			one.Reason = err.Error()
			p.add(*one)
			continue
		}
		if p.describe(one, v, planned[v.Name]); one.Scans() {
			if err := p.estimate(ctx, source, tables, v, one); err != nil {
				one.Action, one.Reason = PlanUnknown, err.Error()
			}
		}
		p.add(*one)
	}
	return nil
}

func (p *planner) describe(one *PlannedView, v *replicator.View, planned pipeline.Planned) {
	_, runs := p.running[v.Name]
	switch planned.Outcome {
	case pipeline.Begins:
		one.Action, one.Reason = PlanFill, "new"
		if start := p.Config.Source.Start; start != "snapshot" {
			one.Action = PlanStart
			one.Reason = fmt.Sprintf("new: it starts at the %s binlog position, because of [source] start", start)
		}
	case pipeline.Refills:
		one.Action, one.Reason = PlanFill, "its sink has lost its data"
		if planned.Err != nil {
			one.Reason = planned.Err.Error()
		}
	case pipeline.Rebuilds:
		one.Action, one.Reason = PlanRebuild, "its definition changed"
	case pipeline.Refused:
		one.Action, one.Reason = PlanRefused, strings.TrimPrefix(planned.Err.Error(), "view "+v.Name+": ")
		if p.running != nil { // only the running process can rebuild, so it must reload the file first
			one.Reason = "after SIGHUP: " + one.Reason
		}
	default:
		one.Action = PlanUnchanged
		if p.running != nil && !runs {
			one.Action, one.Reason = PlanResume, "it continues from its position at the time when it was removed"
		}
		if planned.Filling {
			one.Reason = "a running fill continues"
		}
		if planned.Rebuilding {
			one.Reason = "a running rebuild continues"
		}
	}
}

func (p *planner) estimate(ctx context.Context, source *canal.Source, tables []replicator.Table, v *replicator.View,
	one *PlannedView) (err error) {
	at, err := source.Latest(ctx, nil)
	if err != nil {
		return err
	}
	own, err := narrowed(source, tables, []*replicator.View{v})
	if err != nil {
		return err
	}
	reader, err := own.Open(ctx, []replicator.Position{at}, replicator.TablesOf([]*replicator.View{v})...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	for _, table := range replicator.Feeding([]*replicator.View{v}) {
		rows, err := reader.Estimate(ctx, table)
		if err != nil {
			return err
		}
		one.Rows += rows
	}
	rate, from := p.rate(v.Sink)
	one.Rate, one.RateFrom = max(1, int(rate)), from
	one.Seconds = float64(one.Rows) / rate
	return nil
}

// add merges a view's plan for one more source. Several sources fill a view in parallel, so the longest duration
// counts.
func (p *planner) add(one PlannedView) {
	known := p.views[one.View]
	if known == nil {
		p.views[one.View] = &one
		return
	}
	known.Rows, known.Seconds = known.Rows+one.Rows, max(known.Seconds, one.Seconds)
	if known.Rate == 0 || one.Rate > 0 && one.Rate < known.Rate {
		known.Rate, known.RateFrom = one.Rate, one.RateFrom
	}
	if graver(one.Action, known.Action) {
		known.Action, known.Reason = one.Action, one.Reason
	}
}

// ended returns the views that are no longer in the file. It knows them from the running process or, if no process
// runs, from the store.
func (p *planner) ended() (ended []PlannedView) {
	names := map[string]PlannedView{}
	for name, v := range p.running {
		names[name] = PlannedView{View: name, Sink: v.Sink, Kind: v.Kind}
	}
	if p.running == nil {
		for _, c := range p.saved {
			if !strings.HasSuffix(c.View, replicator.ShadowSuffix) {
				names[c.View] = PlannedView{View: c.View}
			}
		}
	}
	for name, one := range names {
		if p.Config.View(name) == nil {
			one.Action, one.Reason = PlanEnd, "not in the file: the program stops writing it, and its data stays"
			ended = append(ended, one)
		}
	}
	slices.SortFunc(ended, func(a, b PlannedView) int { return strings.Compare(a.View, b.View) })
	return ended
}
