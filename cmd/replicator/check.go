package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"replicator"
	"replicator/canal"
	"replicator/config"
	"replicator/pipeline"
)

// checker is a sink that can look at what its views need.
type checker interface {
	Check(ctx context.Context, views []*replicator.View) []replicator.Finding
}

func checkCommand(o *options) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check configuration, connections, grants, binlog settings, retention and target tables",
		Long: `Checks everything that a run needs, and prints a line for each check, with the fix where one fails.
Exit status: 0 if a run would start, 1 if not, 2 if the configuration itself is wrong.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return check(cmd.Context(), o, cmd.OutOrStdout(), asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object per line")
	return cmd
}

func check(ctx context.Context, o *options, out io.Writer, asJSON bool) error {
	cfg, err := o.load()
	if err != nil {
		return err
	}
	if err := fingerprint(cfg); err != nil {
		return err
	}
	findings := []replicator.Finding{{What: "configuration", Level: replicator.OK,
		Detail: cfg.File + ": " + plural(len(cfg.Tables), "table") + ", " + plural(len(cfg.Sinks), "sink") + ", " + plural(len(cfg.Views), "view")}}
	more, err := look(ctx, o, cfg)
	if err != nil {
		return err
	}
	return report(out, append(findings, more...), asJSON)
}

// look checks every source and sink.
func look(ctx context.Context, o *options, cfg *config.Config) (findings []replicator.Finding, err error) {
	log, err := o.logger()
	if err != nil {
		return nil, err
	}
	var sources []*canal.Source
	defer func() {
		for _, s := range sources {
			err = errors.Join(err, s.Close())
		}
	}()
	for _, shard := range cfg.Source.Shards {
		tables, err := tablesOf(cfg, shard, cfg.Views)
		if err != nil {
			return nil, err
		}
		source, err := newSource(shard, tables, log, 0)
		if err != nil {
			return nil, usageError{err}
		}
		sources = append(sources, source)
		for _, f := range source.Check(ctx) {
			if shard.Name != "" {
				f.What = "source " + shard.Name + ": " + f.What
			}
			findings = append(findings, f)
		}
	}
	saved, unread := readCheckpoints(ctx, cfg)
	if unread != nil {
		findings = append(findings, replicator.Finding{What: "checkpoint store", Level: replicator.Fail, Detail: unread.Error()})
	}
	for i := range cfg.Sinks {
		name, views := cfg.Sinks[i].Name, viewsOf(cfg, cfg.Sinks[i].Name)
		sink, err := openSink(cfg, &cfg.Sinks[i], log)
		if err != nil {
			return nil, err
		}
		var found []replicator.Finding
		if c, ok := sink.(checker); ok {
			found = c.Check(ctx, views)
		}
		findings = append(findings, found...)
		if answers := len(found) != 1 || found[0].Level != replicator.Fail; answers && unread == nil && len(views) > 0 {
			findings = append(findings, foresee(ctx, cfg, name, sink, sources, saved)...)
		}
		if err := sink.Close(); err != nil {
			return nil, err
		}
	}
	return findings, nil
}

// foresee finds the views that a run would refuse for what it remembers of them: they were filled by another
// definition, or the sink lost them.
func foresee(ctx context.Context, cfg *config.Config, name string, sink replicator.Sink, sources []*canal.Source,
	saved []replicator.Checkpoint) []replicator.Finding {
	var findings []replicator.Finding
	for _, source := range sources {
		p := pipeline.Pipeline{Name: name, Source: source, Sink: sink, Views: clones(viewsOf(cfg, name)), OnLost: cfg.Source.OnLost}
		refused, err := p.Foresee(ctx, saved)
		if err != nil {
			return append(findings, replicator.Finding{What: "sink " + name + ": marks", Level: replicator.Fail, Detail: err.Error()})
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

// inShard names a source, where it is one of several.
func inShard(source replicator.Source) string {
	if source.Name() == "" {
		return ""
	}
	return ", source " + source.Name()
}

// report prints findings; failures make the command fail.
func report(out io.Writer, findings []replicator.Finding, asJSON bool) error {
	failed := 0
	type line struct {
		What   string `json:"what"`
		Level  string `json:"level"`
		Detail string `json:"detail"`
		Fix    string `json:"fix,omitempty"`
	}
	var lines []line
	for _, f := range findings {
		if f.Level == replicator.Fail {
			failed++
		}
		lines = append(lines, line{f.What, string(f.Level), f.Detail, f.Fix})
	}
	if asJSON {
		if err := printJSON(out, lines); err != nil {
			return err
		}
	} else {
		for _, l := range lines {
			fmt.Fprintf(out, "%-4s  %s: %s\n", l.Level, l.What, l.Detail)
			if l.Fix != "" {
				fmt.Fprintf(out, "      → %s\n", l.Fix)
			}
		}
	}
	if failed > 0 {
		return errors.New(plural(failed, "check") + " failed")
	}
	return nil
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
