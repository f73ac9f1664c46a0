package replicator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Pipeline keeps the views of one sink up with one source. All its views normally run together; one that is new, or far
// behind, runs by itself until it has caught up and joins the others: both are drained, and the union starts at the lower of
// their positions, where repeating a little does no harm.
type Pipeline struct {
	Name    string // the sink's name
	Source  Source
	Sink    Sink
	Views   []*View
	Compile func(views []*View) (Evaluator, error)
	Store   Store
	StartAt string // snapshot, earliest or latest: for a view without a checkpoint
	OnLost  string // stop or rebuild

	Observer Observer
	Log      *slog.Logger
	Lanes    int           // default 2
	Memory   int64         // bytes of rows in flight; default 64 MiB
	Interval time.Duration // between checkpoints; default 1 s
	Drain    time.Duration // the longest that a stop waits for what is in flight; default 20 s
	Rate     int           // rows a second of a fill; 0: no limit

	// SavesIdle: positions that move without a change for these views are saved each interval. Not for a store that writes to
	// the source itself: its writes would move the position.
	SavesIdle bool

	mu     sync.Mutex
	runs   []*run
	failed map[string]error // views that don't run, and why
	err    error            // why the pipeline has not started yet
}

// Run runs until stop is done (then it drains and returns nil) or ctx is done (it returns at once).
func (p *Pipeline) Run(ctx, stop context.Context) error {
	p.setDefaults()
	checkpoints, err := p.start(ctx, stop)
	if err != nil || checkpoints == nil {
		return err
	}
	var wg sync.WaitGroup
	launch := func(group []Checkpoint) error {
		r, err := newRun(p, group)
		if err != nil {
			return err
		}
		p.mu.Lock()
		p.runs = append(p.runs, r)
		p.mu.Unlock()
		wg.Go(func() { _ = r.loop(ctx) }) // it logs what ends a session; what ends the loop is ours
		return nil
	}
	for _, group := range together(checkpoints) {
		if err := launch(group); err != nil {
			return errors.Join(err, p.stopAll(&wg))
		}
	}
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if union := p.join(ctx); union != nil {
				if err := launch(union); err != nil {
					return errors.Join(err, p.stopAll(&wg))
				}
			}
		case <-stop.Done():
			return p.stopAll(&wg)
		case <-ctx.Done():
			wg.Wait()
			return context.Cause(ctx)
		}
	}
}

func (p *Pipeline) setDefaults() {
	if p.Observer == nil {
		p.Observer = nopObserver{}
	}
	if p.Log == nil {
		p.Log = slog.New(slog.DiscardHandler)
	}
	set(&p.Lanes, 2)
	set(&p.Memory, 64<<20)
	set(&p.Interval, time.Second)
	set(&p.Drain, 20*time.Second)
}

func set[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
	}
}

// stopAll drains every run and waits for them.
func (p *Pipeline) stopAll(wg *sync.WaitGroup) error {
	p.mu.Lock()
	runs := slices.Clone(p.runs)
	p.mu.Unlock()
	for _, r := range runs {
		r.stop()
	}
	wg.Wait()
	return nil
}

// start finds where each view goes on, trying until the sink and the source answer. It returns nil once stop is done.
func (p *Pipeline) start(ctx, stop context.Context) ([]Checkpoint, error) {
	wait := backoff{}
	for {
		checkpoints, err := p.resume(ctx)
		if err == nil {
			p.setError(nil)
			return checkpoints, nil
		}
		delay := wait.next(0)
		if IsFatal(err) {
			delay = 30 * time.Second
		}
		p.setError(err)
		p.Log.Error("pipeline can't start yet", "sink", p.Name, "retry_in", delay.Round(time.Millisecond), "error", err)
		select {
		case <-time.After(delay):
		case <-stop.Done():
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (p *Pipeline) setError(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

// resume decides for each view where it goes on: at the lower of its checkpoint and its mark in the sink; from a fill where
// it has neither. The sink is asked first: what it says it holds is what it holds.
func (p *Pipeline) resume(ctx context.Context) ([]Checkpoint, error) {
	marks, err := p.Sink.Marks(ctx, p.Source.Name())
	if err != nil {
		return nil, fmt.Errorf("sink %s: reading its marks: %w", p.Name, err)
	}
	saved, err := p.Store.Checkpoints(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the checkpoints: %w", err)
	}
	var resumed []Checkpoint
	var unfilled []*View
	failed := map[string]error{}
	for _, v := range p.Views {
		c, m := find(saved, marks, v.Name, p.Source.Name())
		at, err := p.place(v, c, m)
		switch {
		case err != nil:
			failed[v.Name] = err
			p.Log.Error("view does not run", "sink", p.Name, "view", v.Name, "error", err)
		case at == nil:
			unfilled = append(unfilled, v)
		default:
			resumed = append(resumed, *at)
		}
	}
	if len(unfilled) > 0 {
		fresh, err := p.fresh(ctx, unfilled, known(saved, marks, p.Source.Name()))
		if err != nil {
			return nil, err
		}
		for _, v := range unfilled {
			c := fresh
			c.View, c.Fingerprint = v.Name, v.Fingerprint
			resumed = append(resumed, c)
		}
	}
	p.mu.Lock()
	p.failed = failed
	p.mu.Unlock()
	if len(resumed) == 0 {
		return []Checkpoint{}, nil
	}
	return resumed, nil
}

func find(saved []Checkpoint, marks []Mark, view, source string) (c *Checkpoint, m *Mark) {
	if i := slices.IndexFunc(saved, func(c Checkpoint) bool { return c.View == view && c.Source == source }); i >= 0 {
		c = &saved[i]
	}
	if i := slices.IndexFunc(marks, func(m Mark) bool { return m.View == view }); i >= 0 {
		m = &marks[i]
	}
	return c, m
}

// place is where a view goes on, given its checkpoint and its mark; nil if it has to be filled.
func (p *Pipeline) place(v *View, c *Checkpoint, m *Mark) (*Checkpoint, error) {
	changed := c != nil && c.Fingerprint != v.Fingerprint || c == nil && m != nil && m.Fingerprint != v.Fingerprint
	switch {
	case changed && v.OnChange == "rebuild":
		return nil, nil
	case changed:
		return nil, Fatal(fmt.Errorf("view %s: its definition changed since it was filled; `replicator rebuild %s` fills it "+
			"anew, on_change = \"rebuild\" does so by itself, or restore the definition", v.Name, v.Name))
	case c == nil && m == nil, c == nil && m.Phase == Filling:
		return nil, nil
	case m == nil && c.Filling():
		return nil, nil // lost, or never marked: nothing of it can be trusted
	case m == nil, m.Phase == Filling && !c.Filling():
		if p.OnLost == "rebuild" {
			p.Log.Warn("the sink holds nothing of the view any more: it is filled anew", "sink", p.Name, "view", v.Name)
			return nil, nil
		}
		return nil, Fatal(fmt.Errorf("view %s: sink %s holds nothing of it any more, but its checkpoint says that it was kept "+
			"there; `replicator checkpoint reset %s` fills it anew, on_lost = \"rebuild\" does so by itself: %w",
			v.Name, p.Name, v.Name, ErrSinkLost))
	case c == nil:
		return &Checkpoint{View: v.Name, Source: p.Source.Name(), Fingerprint: v.Fingerprint, Position: m.Position}, nil
	}
	at := *c
	if m.Position.Order < c.Position.Order {
		at.Position = m.Position
	}
	return &at, nil
}

// known are all positions that the sink or the store remember of a source.
func known(saved []Checkpoint, marks []Mark, source string) (at []Position) {
	for _, c := range saved {
		if c.Source == source {
			at = append(at, c.Position)
		}
	}
	for _, m := range marks {
		at = append(at, m.Position)
	}
	return at
}

// fresh is the checkpoint of views that have to be filled, as StartAt says.
func (p *Pipeline) fresh(ctx context.Context, views []*View, known []Position) (Checkpoint, error) {
	c := Checkpoint{Source: p.Source.Name()}
	var err error
	if p.StartAt == "earliest" {
		c.Position, err = p.Source.Oldest(ctx, known)
	} else {
		c.Position, err = p.Source.Latest(ctx, known)
	}
	if err != nil {
		return c, fmt.Errorf("asking the source for its position: %w", err)
	}
	if p.StartAt == "snapshot" || p.StartAt == "" {
		c.Fill, c.FillFrom = map[string]Progress{}, c.Position.Order
		for _, v := range views {
			for _, f := range v.From {
				c.Fill[f.Table] = Progress{}
			}
		}
	}
	return c, nil
}

func (p *Pipeline) view(name string) *View {
	i := slices.IndexFunc(p.Views, func(v *View) bool { return v.Name == name })
	return p.Views[i]
}
