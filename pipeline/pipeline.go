package pipeline

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"replicator"
)

// Pipeline keeps the views of one sink up with one source. All its views normally run together; one that is new, or far
// behind, runs by itself until it has caught up and joins the others: both are drained, and the union starts at the
// lower of their positions, where repeating a little does no harm.
//
// Its methods may be called from any goroutine. What they are to change is queued for the supervisor, which Run's
// goroutine owns; what they are to tell is in shared.
type Pipeline struct {
	Config
	*shared
	asks chan ask
}

// shared is what the goroutines of a pipeline share: its configuration, which is not changed, and what guards itself.
type shared struct {
	cfg      *Config
	planner  *planner
	runs     list[*run]
	rebuilds list[*rebuild]
	stopped  *stopped
	shown    *shown
	news     *letterNews
	company  *company

	// registered is one more than the highest epoch that this process has registered in the sink; 0: none.
	registered atomic.Int64
}

// runOf is the run of a view; nil if it has none.
func (s *shared) runOf(view string) *run {
	for _, r := range s.runs.all() {
		if slices.Contains(r.views.names(), view) {
			return r
		}
	}
	return nil
}

// main returns the run that the others join: of those that are well and filled the one with the most views, without
// shadows; nil if there is none.
func (s *shared) main() (main *run) {
	most := 0
	for _, r := range s.runs.all() {
		if n := len(r.views.live()); n > most && r.isWell() && !r.progress.current().Filling() {
			main, most = r, n
		}
	}
	return main
}

// rebuildOf is the rebuild of a view; nil if there is none.
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

// ask is a request to the goroutine that owns the supervisor.
type ask struct {
	do     func(ctx context.Context, s *supervisor) error
	answer chan error
}

// ask has do called by the goroutine that owns the supervisor.
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

// Keeps reports whether the pipeline keeps a view.
func (p *Pipeline) Keeps(view string) bool { return p.view(view) != nil }

// RebuildMode says how a view is made again from offset zero.
type RebuildMode int

const (
	// BySwap fills a shadow while the live view is kept up, and swaps it in when it has caught up. A view whose target
	// has what is not the view's is rebuilt in place, which keeps that, and so is one that several sources feed.
	BySwap RebuildMode = iota
	// InPlace puts every row into the live view, whatever it is believed to hold, and then looks at whatever was not
	// confirmed.
	InPlace
)

// Rebuild begins to make views again from offset zero, all in one scan, while the tail goes on; Status tells the rest.
// It is resumed after a crash. A sink without shadows is rebuilt in place. An error wraps ErrRebuilding or ErrPaused
// where one of the views is being rebuilt or paused, ErrNotServing where the pipeline can't start yet.
//
// from is where the scan of each table begins: a Chunk's Next, "" for offset zero. Only a rebuild in place can begin
// later: what stands before is kept as it is, as far as the source confirms it.
func (p *Pipeline) Rebuild(ctx context.Context, names []string, mode RebuildMode, from string) error {
	return p.ask(ctx, func(ctx context.Context, s *supervisor) error {
		if err := p.stopped.cantStart(); err != nil {
			return fmt.Errorf("sink %s: %w: it can't start yet: %w", p.Name, replicator.ErrNotServing, err)
		}
		return s.rebuilder.begin(ctx, names, mode, from)
	})
}

// Pause stops a view where it is, until Resume or a restart of the program: nothing is written to it. A rebuild in
// place, or a fill, of the view goes on after that; a shadow of it is filled meanwhile, but swapped in only then.
func (p *Pipeline) Pause(ctx context.Context, name string) error {
	v := p.view(name)
	if v == nil {
		return fmt.Errorf("sink %s keeps no view %q", p.Name, name)
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

// Resume lets a paused view go on from where it stopped; it joins the others when it has caught up.
func (p *Pipeline) Resume(ctx context.Context, name string) error {
	return p.ask(ctx, func(_ context.Context, s *supervisor) error {
		return s.composition.launchAt(p.stopped.resume(name))
	})
}

// Swapped are the views of which a table was replaced by another one, with the place where: they have to be compared
// with the source and repaired, then Compared is called. Views that don't run are left out.
func (p *Pipeline) Swapped() map[string]int64 {
	all := map[string]int64{}
	for _, r := range p.runs.all() {
		r.notes.addSwaps(all)
	}
	// Shadows are filled once more, or compared once they are swapped in.
	maps.DeleteFunc(all, func(view string, _ int64) bool { return !p.Keeps(view) })
	return all
}

// Compared says that a view was compared with the source, and repaired, after the place that Swapped gave.
func (p *Pipeline) Compared(view string, at int64) {
	for _, r := range p.runs.all() {
		r.notes.compared(view, at)
	}
}

// sessionOf returns the run of a view and its open session; nil where there is none yet. A view that is rebuilt before
// it can run fails with its rebuild.
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
