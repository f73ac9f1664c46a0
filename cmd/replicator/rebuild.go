package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"replicator"
	"replicator/canal"
	"replicator/config"
	"replicator/pipeline"
	"replicator/server"
)

func rebuildCommand(o *options) *cobra.Command {
	how := server.Rebuild{}
	cmd := &cobra.Command{
		Use:   "rebuild VIEW…",
		Short: "Make views again from offset zero, while the tail goes on",
		Long: `Makes the named views again from offset zero, all in one scan of their tables, and returns when that is done.
A MySQL or Elasticsearch view is filled beside the live one and swapped in atomically, so that no reader ever sees it half
done. In Redis, with a sharded sink or source, and with --in-place, every row is written to the live view, and what the source
does not confirm is removed.
If a process is running, it does the work; otherwise this command does. An interrupted rebuild continues at the next start.
If a rebuild of the view is under way, the command follows it.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			cfg, err := loadViews(o, names)
			if err != nil {
				return err
			}
			return rebuild(cmd.Context(), o, cfg, names, how, cmd.ErrOrStderr())
		},
	}
	cmd.ValidArgsFunction = o.completeViews
	cmd.Flags().StringVar(&how.From, "from", "", "begin at this `offset`, in place, instead of at zero: the value of the offset column; several are joined by :")
	cmd.Flags().BoolVar(&how.InPlace, "in-place", false, "rewrite the live view instead of filling one beside it")
	return cmd
}

func rebuild(ctx context.Context, o *options, cfg *config.Config, names []string, how server.Rebuild, out io.Writer) error {
	if err := fingerprint(cfg); err != nil {
		return err
	}
	c := client(cfg)
	err := runsAsWritten(ctx, c, cfg, names)
	if errors.Is(err, server.ErrUnknown) {
		return fmt.Errorf("the running process: %w: send it SIGHUP to reload the file, then rebuild; with on_change = \"rebuild\" the reload "+
			"rebuilds a view that changed", err)
	}
	if err == nil {
		err = c.Rebuild(ctx, strings.Join(names, ","), how)
	}
	if errors.Is(err, server.ErrBusy) && how == (server.Rebuild{}) { // the same as is under way: that one is followed
		err = rebuildOthers(ctx, c, names, how)
	}
	if errors.Is(err, server.ErrNotRunning) {
		err = rebuildAlone(ctx, o, cfg, names, how, out)
	} else if err == nil {
		err = followRebuild(ctx, out, names, c.Status)
	}
	if errors.Is(err, server.ErrInvalid) {
		return usageError{err}
	}
	return err
}

// rebuildAlone runs the program for as long as the rebuild takes: what keeps other sinks' views is none of its
// business, and may be down.
func rebuildAlone(ctx context.Context, o *options, cfg *config.Config, names []string, how server.Rebuild, out io.Writer) error {
	log, err := o.logger()
	if err != nil {
		return err
	}
	a, err := newApp(ctx, sinksOf(cfg, names), log, nil)
	if err != nil {
		return err
	}
	c := control{a}
	if err := c.checkFrom(ctx, names, how.From); err != nil {
		return errors.Join(err, a.close())
	}
	stop, stopNow := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- a.run(context.WithoutCancel(ctx), stop) }()
	err = c.beginRebuild(ctx, names, how)
	if errors.Is(err, pipeline.ErrRebuilding) {
		fmt.Fprintln(out, "an interrupted rebuild continues where it stopped; what was changed by hand since then may need another one")
		err = rebuildOthers(ctx, c, names, how)
	}
	if err == nil {
		err = followRebuild(ctx, out, names, c.Status)
	}
	if err == nil {
		err = a.catchUp(ctx, names...)
	}
	stopNow()
	return errors.Join(err, <-done, a.close())
}

// sinksOf is a configuration with no sinks but those of the named views.
func sinksOf(cfg *config.Config, names []string) *config.Config {
	some := *cfg
	some.Sinks = slices.DeleteFunc(slices.Clone(cfg.Sinks), func(s config.Sink) bool {
		return !slices.ContainsFunc(names, func(name string) bool { return cfg.View(name).Sink == s.Name })
	})
	return &some
}

// beginRebuild begins a rebuild of a program that is just starting. It gives up if a sink, or the source, does not
// answer.
func (c control) beginRebuild(ctx context.Context, names []string, how server.Rebuild) error {
	patient, cancel := context.WithTimeout(ctx, rebuildPatience)
	defer cancel()
	err := c.Rebuild(patient, strings.Join(names, ","), how)
	if patient.Err() == nil || ctx.Err() != nil {
		return err
	}
	views, statusErr := c.Status(ctx)
	for _, v := range views {
		if slices.Contains(names, v.View) && v.Error != "" {
			return fmt.Errorf("view %s: %s", v.View, v.Error)
		}
	}
	return errors.Join(err, statusErr)
}

// rebuilder rebuilds views, in this process or in the one that runs.
type rebuilder interface {
	Status(ctx context.Context) ([]replicator.ViewStatus, error)
	Rebuild(ctx context.Context, view string, how server.Rebuild) error
}

// rebuildOthers rebuilds those of the named views that are not being rebuilt; one whose swap is tried again is.
func rebuildOthers(ctx context.Context, c rebuilder, names []string, how server.Rebuild) error {
	views, err := c.Status(ctx)
	if err != nil {
		return err
	}
	others := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return slices.ContainsFunc(views, func(v replicator.ViewStatus) bool {
			return v.View == name && v.State == replicator.StateRebuilding
		})
	})
	if len(others) == 0 {
		return nil
	}
	err = c.Rebuild(ctx, strings.Join(others, ","), how)
	for _, name := range others {
		if len(others) > 1 && isBusy(err) {
			if one := c.Rebuild(ctx, name, how); one != nil && !isBusy(one) {
				return one
			}
		}
	}
	if isBusy(err) {
		return nil
	}
	return err
}

// isBusy reports whether what was asked for is under way.
func isBusy(err error) bool {
	return errors.Is(err, server.ErrBusy) && !errors.Is(err, pipeline.ErrPaused)
}

// How long a rebuild may stand with an error before the command gives up on it: one that may pass, and one that a
// person has to mend. The rebuild itself goes on being tried where a process runs.
const (
	rebuildPatience = 15 * time.Second
	failedPatience  = 2 * time.Second
)

// followRebuild shows the progress of a rebuild until it is done.
func followRebuild(ctx context.Context, out io.Writer, names []string, status func(context.Context) ([]replicator.ViewStatus, error)) error {
	p := newProgress(out)
	defer p.end()
	var trouble time.Time
	for {
		views, err := status(ctx)
		if err != nil {
			return err
		}
		busy, well, rows, ratio, problem, patience := false, false, int64(0), 0.0, "", rebuildPatience
		for _, v := range views {
			if !slices.Contains(names, v.View) {
				continue
			}
			switch v.State {
			case replicator.StateRebuilding, replicator.StateFilling, replicator.StateStarting:
				busy, well = true, well || v.Error == ""
				rows, ratio = max(rows, v.FilledRows), max(ratio, v.Progress)
			case replicator.StateFailed:
				busy, patience = true, failedPatience
			case replicator.StateRetrying, replicator.StatePaused: // one that is paused goes on once somebody resumes it
				busy = true
			}
			if v.Error != "" {
				problem = fmt.Sprintf("view %s: %s", v.View, v.Error)
			}
		}
		if !busy {
			p.show(fmt.Sprintf("rebuilt: %s", strings.Join(names, ", ")))
			return nil
		}
		p.progress("rebuilding", rows, ratio)
		switch {
		case problem == "", well: // one that is in trouble holds up no other: those are followed to their end
			trouble = time.Time{}
		case trouble.IsZero():
			trouble = time.Now()
		case time.Since(trouble) > patience:
			return errors.New(problem)
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return errors.New("stopped following: the rebuild continues in the running process, or at the next start")
		}
	}
}

// progress shows how far long work is: a bar on a terminal, a line now and then otherwise.
type progress struct {
	out      io.Writer
	terminal bool
	began    time.Time // when progress was first shown
	rows     int64     // that were done then, by an earlier run perhaps
	ratio    float64
	last     time.Time
	drawn    bool
}

func newProgress(out io.Writer) *progress {
	p := &progress{out: out}
	if f, ok := out.(*os.File); ok {
		p.terminal = term.IsTerminal(int(f.Fd()))
	}
	return p
}

// progress shows rows done, and the share of all, if it is known.
func (p *progress) progress(what string, rows int64, ratio float64) {
	wait := 5 * time.Second
	if p.terminal {
		wait = 100 * time.Millisecond
	}
	if time.Since(p.last) < wait {
		return
	}
	p.last = time.Now()
	if p.began.IsZero() || rows < p.rows {
		p.began, p.rows, p.ratio = p.last, rows, ratio
	}
	took := time.Since(p.began)
	text := fmt.Sprintf("%s  %d rows", what, rows)
	if took > time.Second {
		text += fmt.Sprintf("  %.0f rows/s", float64(rows-p.rows)/took.Seconds())
	}
	if ratio > p.ratio+0.001 && ratio < 1 {
		left := time.Duration(float64(took) * (1 - ratio) / (ratio - p.ratio))
		text += fmt.Sprintf("  %3.0f%%  %s left", 100*ratio, left.Round(time.Second))
		if p.terminal {
			const width = 30
			n := int(ratio * width)
			text = "[" + strings.Repeat("█", n) + strings.Repeat("·", width-n) + "] " + text
		}
	}
	p.show(text)
}

func (p *progress) show(text string) {
	if p.terminal {
		fmt.Fprintf(p.out, "\r\x1b[2K%s", text)
		p.drawn = true
		return
	}
	fmt.Fprintln(p.out, text)
}

func (p *progress) end() {
	if p.drawn {
		fmt.Fprintln(p.out)
	}
}

// Rebuild implements server.Rebuilder: view is one, or several with commas between them.
func (c control) Rebuild(ctx context.Context, view string, how server.Rebuild) error {
	byPipeline := map[*pipeline.Pipeline][]string{}
	views := strings.Split(view, ",")
	if err := c.checkFrom(ctx, views, how.From); err != nil {
		return err
	}
	for _, name := range views {
		v := c.cfg.View(name)
		if v == nil {
			return fmt.Errorf("view %q: %w in this configuration", name, server.ErrUnknown)
		}
		for _, p := range c.pipelines {
			if p.Keeps(name) {
				byPipeline[p] = append(byPipeline[p], name)
			}
		}
	}
	mode := pipeline.BySwap
	if how.InPlace || how.From != "" || len(c.cfg.Source.Shards) > 1 { // several sources fill one target: they can't swap it each
		mode = pipeline.InPlace
	}
	from := ""
	if how.From != "" {
		from = canal.Offset(how.From)
	}
	for p, names := range byPipeline {
		err := p.Rebuild(ctx, names, mode, from)
		if errors.Is(err, pipeline.ErrRebuilding) || errors.Is(err, pipeline.ErrPaused) {
			return fmt.Errorf("%w: %w", server.ErrBusy, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkFrom returns an error that wraps server.ErrInvalid if an offset to begin at is none of a table that feeds the
// views.
func (c control) checkFrom(ctx context.Context, views []string, from string) error {
	if from == "" {
		return nil
	}
	for i, p := range c.pipelines {
		for _, name := range views {
			if !p.Keeps(name) {
				continue
			}
			for _, f := range c.cfg.View(name).From {
				err := c.sources[i].CheckOffset(ctx, f.Table, from)
				if errors.Is(err, canal.ErrOffset) {
					err = fmt.Errorf("%w: --from: %w", server.ErrInvalid, err)
				}
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Pause implements server.Pauser.
func (c control) Pause(ctx context.Context, view string) error {
	return c.each(view, func(p *pipeline.Pipeline) error { return p.Pause(ctx, view) })
}

// Resume implements server.Pauser.
func (c control) Resume(ctx context.Context, view string) error {
	return c.each(view, func(p *pipeline.Pipeline) error { return p.Resume(ctx, view) })
}

// each does something with every pipeline that keeps a view.
func (c control) each(view string, do func(*pipeline.Pipeline) error) error {
	if c.cfg.View(view) == nil {
		return fmt.Errorf("view %q: %w in this configuration", view, server.ErrUnknown)
	}
	for _, p := range c.pipelines {
		if p.Keeps(view) {
			if err := do(p); err != nil {
				return err
			}
		}
	}
	return nil
}

var (
	_ server.Rebuilder = control{}
	_ server.Pauser    = control{}
)
