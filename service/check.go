package service

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"replicator"
	"replicator/canal"
	"replicator/config"
	"replicator/internal/remedy"
	"replicator/pipeline"
	"replicator/view"
)

// checker is a sink that can check the tables, indexes or keys that its views use.
type checker interface {
	Check(ctx context.Context, views []*replicator.View) []replicator.Finding
}

// ofColumnsAlone sets the tables' Optional columns, which views read only if the table has them. It uses only views
// whose tables have no body. In other views, a name may mean a property of the body.
func ofColumnsAlone(cfg *config.Config, tables []replicator.Table) error {
	bodiless := slices.DeleteFunc(slices.Clone(cfg.Views), func(v *replicator.View) bool {
		return slices.ContainsFunc(v.From, func(f replicator.Feed) bool {
			t := cfg.Table(f.Table)
			return t != nil && t.Body != ""
		})
	})
	for i := range tables {
		var err error
		if _, tables[i].Optional, err = view.Columns(bodiless, tables, tables[i].Name); err != nil {
			return err
		}
	}
	return nil
}

// Check examines every source, every sink and the saved state of the views. It reports what would fail in a run.
func Check(ctx context.Context, setup Setup) (findings []replicator.Finding, err error) {
	cfg := setup.Config
	if cfg.Source.Kafka != nil {
		if findings, err = setup.checkTopics(ctx); err != nil {
			return nil, err
		}
	}
	sources, found, err := setup.checkSources(ctx)
	defer func() {
		for _, s := range sources {
			err = errors.Join(err, s.Close())
		}
	}()
	if err != nil {
		return nil, err
	}
	for i := range found {
		found[i] = nameViews(cfg, found[i])
		found[i].Detail = locate(cfg, found[i].Detail)
	}
	findings = append(findings, found...)
	tried, err := tryOutIfSound(ctx, cfg, findings)
	if err != nil {
		return nil, err
	}
	if len(sources) > 0 {
		findings = append(findings, columnHints(ctx, cfg, sources[0], tried)...)
	}
	saved, unread := Checkpoints(ctx, cfg)
	if err := storable(ctx, cfg); err != nil {
		fix := "set checkpoint.path to a directory that the program's user can create and write, or give that user " +
			"its files"
		if cfg.Checkpoint.Store == "mysql" {
			fix = "grant the user of checkpoint.dsn the missing privileges, or correct checkpoint.dsn"
		}
		findings = append(findings, replicator.Finding{What: "checkpoint store", Level: replicator.Fail, Detail: err.Error(),
			Fix: fix})
	} else if unread != nil {
		findings = append(findings,
			replicator.Finding{What: "checkpoint store", Level: replicator.Fail, Detail: unread.Error()})
	}
	for i := range cfg.Sinks {
		name, views := cfg.Sinks[i].Name, ViewsOf(cfg, cfg.Sinks[i].Name)
		sink, err := setup.sink(name)
		if err != nil {
			return nil, err
		}
		var found []replicator.Finding
		if c, ok := sink.(checker); ok {
			found = c.Check(ctx, views)
		}
		findings = append(findings, found...)
		if cfg.Source.Kafka != nil { // only the group's members know the positions of their partitions
			if err := sink.Close(); err != nil {
				return nil, err
			}
			continue
		}
		if answers := len(found) != 1 || found[0].Level != replicator.Fail; answers && unread == nil && len(views) > 0 {
			findings = append(findings, foresee(ctx, cfg, name, sink, sources, saved)...)
		}
		if err := tryViews(ctx, tried, sink, views); err != nil {
			return nil, errors.Join(err, sink.Close())
		}
		if err := sink.Close(); err != nil {
			return nil, err
		}
	}
	if tried != nil {
		findings = append(findings, tried.findings...)
	}
	return findings, nil
}

// nameViews inserts view names into the commands of a finding about a source. If the finding is about a table, it
// inserts the views that read the table. Otherwise it inserts all views.
func nameViews(cfg *config.Config, f replicator.Finding) replicator.Finding {
	table, ofTable := strings.CutPrefix(f.What, "table ")
	var names []string
	for _, v := range cfg.Views {
		if !ofTable || slices.Contains(replicator.TablesOf([]*replicator.View{v}), table) {
			names = append(names, v.Name)
		}
	}
	f.Detail = strings.ReplaceAll(f.Detail, remedy.Views, strings.Join(names, " "))
	f.Fix = strings.ReplaceAll(f.Fix, remedy.Views, strings.Join(names, " "))
	return f
}

// noColumn matches a source's message about a missing column.
var noColumn = regexp.MustCompile(`(?:has|there is) no column (\S+) \(`)

// locate prepends the place in the configuration file that names the missing column.
func locate(cfg *config.Config, detail string) string {
	missing := noColumn.FindStringSubmatch(detail)
	if missing == nil {
		return detail
	}
	for _, v := range cfg.Views {
		for _, f := range v.Fields {
			if config.PathName(f.Path) != missing[1] || strings.HasPrefix(f.Path, "=") {
				continue
			}
			if line := cfg.Line(v.Name, "fields."+f.Name); line > 0 {
				return fmt.Sprintf("%s:%d: view %s: %s", cfg.File, line, v.Name, detail)
			}
		}
	}
	return detail
}

// checkSources checks every source. If the source is in Kafka, it checks the servers that the topics come from. The
// caller closes the returned sources, also after an error.
func (s Setup) checkSources(ctx context.Context) (sources []*canal.Source, findings []replicator.Finding, err error) {
	for _, shard := range s.Config.Source.Shards {
		tables, err := tablesOf(s.Config, shard, s.Config.Views)
		if err != nil {
			return sources, nil, err
		}
		if err := ofColumnsAlone(s.Config, tables); err != nil {
			return sources, nil, err
		}
		source, err := s.source(shard, tables)
		if err != nil {
			return sources, nil, InvalidError{err}
		}
		sources = append(sources, source)
		for _, f := range source.Check(ctx) {
			if shard.Name != "" {
				f.What = sourceNamed(shard.Name) + ": " + f.What
			}
			findings = append(findings, f)
		}
	}
	return sources, findings, nil
}

// tryOutIfSound samples rows of the source and evaluates them. It returns nil if findings contain a failure. If the
// rows can't be sampled, the returned trial has a finding that says so.
func tryOutIfSound(ctx context.Context, cfg *config.Config, findings []replicator.Finding) (*trial, error) {
	if len(cfg.Source.Shards) == 0 { // the source is in Kafka without a dsn, so no server can be asked for rows
		return nil, nil
	}
	if len(cfg.Views) == 0 || slices.ContainsFunc(findings,
		func(f replicator.Finding) bool { return f.Level == replicator.Fail }) {
		return nil, nil
	}
	tried, err := tryOut(ctx, cfg)
	if wrong := (InvalidError{}); errors.As(err, &wrong) || ctx.Err() != nil {
		return nil, err
	}
	if err != nil {
		tried = &trial{cfg: cfg}
		tried.warn("samples", "", "rows of the source could not be sampled: %v", err)
	}
	return tried, nil
}

func tryViews(ctx context.Context, tried *trial, sink replicator.Sink, views []*replicator.View) error {
	if tried == nil {
		return nil
	}
	for _, v := range views {
		var fits func(field int, value any) error
		if f, ok := sink.(fitter); ok {
			var err error
			if fits, err = f.Fitter(ctx, v); err != nil {
				continue // the sink's own check reports this error
			}
		}
		if err := tried.view(v, fits); err != nil {
			return err
		}
	}
	return nil
}

// foresee returns a failure for each view that a run would refuse, because the view's definition has changed or the
// sink lost the view.
func foresee(ctx context.Context, cfg *config.Config, name string, sink replicator.Sink, sources []*canal.Source,
	saved []replicator.Checkpoint) []replicator.Finding {
	var findings []replicator.Finding
	for _, source := range sources {
		views := clones(ViewsOf(cfg, name))
		p := pipeline.New(pipeline.Config{Name: name, Source: source, Sink: sink, Views: views,
			OnLost: cfg.Source.OnLost, Feeds: Feeds(cfg)})
		refused, err := p.Foresee(ctx, saved)
		if err != nil {
			return append(findings, replicator.Finding{What: "sink " + name + ": marks", Level: replicator.Fail,
				Detail: err.Error(), Fix: replicator.FixFor(err, "")})
		}
		for _, v := range p.Views {
			if err := refused[v.Name]; err != nil {
				findings = append(findings, replicator.Finding{What: "view " + v.Name + inShard(source), Level: replicator.Fail,
					Detail: strings.TrimPrefix(err.Error(), "view "+v.Name+": ")})
			}
		}
	}
	return findings
}

func inOrigin(shard string) string {
	if shard == "" {
		return ""
	}
	return " with shard " + shard
}

func (s Setup) checkTopics(ctx context.Context) (findings []replicator.Finding, err error) {
	cluster, err := s.cluster()
	if err != nil {
		return nil, err
	}
	defer cluster.Close()
	from := s.Config.Source.Kafka
	for _, name := range from.Topics {
		f := replicator.Finding{What: "source: topic " + name, Level: replicator.OK}
		topic, err := cluster.Topic(ctx, name)
		switch {
		case err != nil:
			f.Level, f.Detail = replicator.Fail, err.Error()
		case !topic.Compacted || topic.Deletes:
			f.Level, f.Detail = replicator.Fail, "its cleanup.policy is not just compact, so the topic may lose cells"
			f.Fix = "set cleanup.policy=compact and rebuild the publisher's view"
		default:
			f.Detail = fmt.Sprintf("%d partitions, compacted; keeps records of deleted cells for %s", topic.Partitions,
				topic.Tombstones)
		}
		findings = append(findings, f)
	}
	for _, shard := range s.Config.Source.Shards {
		f := replicator.Finding{What: "source: verify and explain" + inOrigin(shard.Name), Level: replicator.OK}
		topic, _, err := topicOf(ctx, cluster, from.Topics, shard.Name)
		if f.Detail = "through topic " + topic; err != nil {
			f.Level, f.Detail = replicator.Warn, err.Error()
		}
		findings = append(findings, f)
	}
	for i := range s.Config.Sinks {
		group := groupOf(s.Config, s.Config.Sinks[i].Name)
		f := replicator.Finding{What: "source: group " + group, Level: replicator.OK}
		status, err := cluster.Status(ctx, group, from.Topics...)
		if f.Detail = fmt.Sprintf("%d members", len(status.Members)); err != nil {
			f.Level, f.Detail = replicator.Fail, err.Error()
		} else if len(status.Members) > len(status.Partitions) {
			f.Level = replicator.Warn
			f.Detail += fmt.Sprintf(" for %d partitions, so some members have nothing to do", len(status.Partitions))
		}
		findings = append(findings, f)
	}
	return findings, nil
}
