package pipeline

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"replicator"
)

// Pipeline keeps the views of one sink up to date with one source. A new or lagging view runs separately until it has
// caught up, and then joins the others. Methods may be called from any goroutine.
type Pipeline struct {
	Config
	*shared
	asks chan ask
}

// shared is what the goroutines of a pipeline share: its configuration, which doesn't change, and data that has its own
// locks.
type shared struct {
	cfg      *Config
	planner  *planner
	runs     list[*run]
	rebuilds list[*rebuild]
	stopped  *stopped
	shown    *shown
	news     *letterNews
	company  *company

	// registered is one more than the log epoch of the highest position that this process has saved in the sink; 0: it
	// has saved none.
	registered atomic.Int64
}

func (s *shared) runOf(view string) *run {
	for _, r := range s.runs.all() {
		if slices.Contains(r.views.names(), view) {
			return r
		}
	}
	return nil
}

// main returns the run that other runs join: the healthy, filled run with the most live views. (Shadows, which rebuilds
// fill, are not live.) It returns nil if no run is healthy and filled.
func (s *shared) main() (main *run) {
	most := 0
	for _, r := range s.runs.all() {
		if n := len(r.views.live()); n > most && r.isWell() && !r.progress.current().Filling() {
			main, most = r, n
		}
	}
	return main
}

func (s *shared) rebuildOf(view string) *rebuild {
	for _, b := range s.rebuilds.all() {
		if slices.Contains(b.views.names(), view) {
			return b
		}
	}
	return nil
}

// New makes a pipeline, which does nothing until Run is called.
func New(c Config) *Pipeline {
	c.setDefaults()
	p := &Pipeline{Config: c, asks: make(chan ask)}
	cfg := &p.Config
	p.shared = &shared{
		cfg: cfg, planner: &planner{cfg: cfg, definitions: &definitions{cfg: cfg}},
		stopped: newStopped(c.Paused), shown: newShown(c.LastShown), news: newLetterNews(cfg),
		company: newCompany(),
	}
	return p
}

// Run runs until stop is done (then it drains and returns nil) or ctx is done (it returns at once).
func (p *Pipeline) Run(ctx, stop context.Context) error {
	return newSupervisor(p.shared).run(ctx, stop, p.asks)
}

type ask struct {
	do     func(ctx context.Context, s *supervisor) error
	answer chan error
}

func (p *Pipeline) ask(ctx context.Context, do func(ctx context.Context, s *supervisor) error) error {
	a := ask{do: do, answer: make(chan error, 1)}
	select {
	case p.asks <- a:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-a.answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Keeps reports whether the pipeline has a view of that name.
func (p *Pipeline) Keeps(view string) bool { return p.view(view) != nil }

// RebuildMode says whether a rebuild fills a second copy of a view or overwrites the live one.
type RebuildMode int

const (
	// BySwap fills a shadow (a second copy of the view) while the live view is kept up to date, and swaps the shadow in
	// when it has caught up. A view is rebuilt in place instead if several sources feed it, or if its table, key or
	// index also holds other data (such as columns of another program).
	BySwap RebuildMode = iota
	// InPlace writes every row into the live view, and then re-reads the cells that the scan did not find.
	InPlace
)

// Rebuild begins to rebuild views, all in one scan, and returns. The error wraps ErrRebuilding or ErrPaused if one of
// the views is being rebuilt or paused, or ErrNotServing if the pipeline can't start yet.
//
// from is where the scan of each table begins: a Chunk's Next, or "" for the first row. Only a rebuild in place can
// begin after the first row. The rows before `from` then stay in the view, unless the source no longer has them.
func (p *Pipeline) Rebuild(ctx context.Context, names []string, mode RebuildMode, from string) error {
	return p.ask(ctx, func(ctx context.Context, s *supervisor) error {
		if err := p.stopped.cantStart(); err != nil {
			return fmt.Errorf("sink %s: %w: the pipeline can't start yet: %w", p.Name, replicator.ErrNotServing, err)
		}
		return s.rebuilder.begin(ctx, names, mode, from)
	})
}

// Pause stops writing to a view until Resume or a restart of the program. A fill or a rebuild in place continues after
// the pause. The second copy of a view that is rebuilt by swap is filled meanwhile, and swapped in after the pause.
func (p *Pipeline) Pause(ctx context.Context, name string) error {
	v := p.view(name)
	if v == nil {
		return fmt.Errorf("sink %s has no view %q", p.Name, name)
	}
	return p.ask(ctx, func(ctx context.Context, s *supervisor) error {
		out, err := s.composition.takeOut(ctx, []*replicator.View{v})
		if err == nil {
			p.stopped.pause(out)
		}
		if slices.Contains(s.unread, v) && s.runOf(name) == nil && s.rebuildOf(name) == nil {
			p.stopped.pauseUnread(name)
		}
		return err
	})
}

// Resume lets a paused view continue from where it stopped. It joins the others when it has caught up.
func (p *Pipeline) Resume(ctx context.Context, name string) error {
	return p.ask(ctx, func(_ context.Context, s *supervisor) error {
		return s.composition.launchAt(p.stopped.resume(name))
	})
}

// Swapped returns the views that must be compared with the source, for example because a RENAME swapped a table for
// another. Each has the log position of that event, which the caller passes to Compared after the comparison.
func (p *Pipeline) Swapped() map[string]int64 {
	all := map[string]int64{}
	for _, r := range p.runs.all() {
		r.notes.addDoubted(all)
	}
	// A shadow (second copy that a rebuild fills) needs no comparison: it is filled again, or compared after its swap.
	maps.DeleteFunc(all, func(view string, _ int64) bool { return !p.Keeps(view) })
	return all
}

// Compared tells the pipeline that a view was compared with the source, and repaired. at is what Swapped returned for
// the view before the comparison. If Swapped returns another position by now, the view must be compared again.
func (p *Pipeline) Compared(view string, at int64) {
	for _, r := range p.runs.all() {
		r.notes.compared(view, at)
	}
}

// sessionOf returns a view's run and its open session; each is nil if it does not exist yet. If the view can't run
// before it is rebuilt, and the rebuild has failed, sessionOf returns the rebuild's error.
func (p *Pipeline) sessionOf(view string) (*run, *session, error) {
	if err := p.stopped.reason(view); replicator.IsFatal(err) {
		return nil, nil, err
	}
	if r := p.runOf(view); r != nil {
		return r, r.current(), nil
	}
	if b := p.rebuildOf(view); b != nil {
		if state, err := b.run.trouble(); state == replicator.StateFailed {
			return nil, nil, fmt.Errorf("view %s: rebuilding it has failed: %w", view, err)
		}
	}
	return nil, nil, nil
}
