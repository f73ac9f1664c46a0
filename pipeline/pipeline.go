package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"replicator"
)

// Pipeline keeps the views of one sink up with one source. All its views normally run together; one that is new, or far
// behind, runs by itself until it has caught up and joins the others: both are drained, and the union starts at the
// lower of their positions, where repeating a little does no harm.
type Pipeline struct {
	Name    string // the sink's name
	Source  replicator.Source
	Sink    replicator.Sink
	Views   []*replicator.View
	Compile func(views []*replicator.View) (replicator.Evaluator, error)
	Store   replicator.Store
	StartAt string // snapshot, earliest or latest: for a view without a checkpoint
	OnLost  string // stop or rebuild
	OnSwap  string // verify, rebuild or stop: where another table is renamed into a watched one's place; default verify

	Observer replicator.Observer
	Log      *slog.Logger
	Lanes    int           // default 2
	Memory   int64         // bytes of rows in flight; default 64 MiB
	Interval time.Duration // between checkpoints; default 1 s
	Drain    time.Duration // the longest that a stop waits for what is in flight; default 20 s
	Rate     int           // rows a second of a fill; 0: no limit

	// SavesIdle: positions that move without a change for these views are saved each interval. Not for a store that writes
	// to the source itself: its writes would move the position.
	SavesIdle bool

	launch func(*run) // set by Run, whose goroutine alone makes, ends and joins runs

	// Of that goroutine, too:
	changed  []string           // views that are to be rebuilt because their definition changed
	takenUp  bool               // rebuilds that were under way go on, and those of changed views have begun
	takeUpAt time.Time          // when that is tried again
	unplaced []*replicator.View // where they go on is not known yet: their marks can't be read
	placeAt  time.Time          // when that is tried again

	mu       sync.Mutex
	asks     chan ask
	runs     []*run
	rebuilds []*rebuild
	paused   map[string]replicator.Checkpoint
	failed   map[string]error     // views that don't run, and why
	shown    map[string]time.Time // by view: up to when it showed everything when its last session ended
	epoch    int64                // the highest of a fill
	err      error                // why the pipeline has not started yet
	began    time.Time            // when Run was called

	letters letterNews // what of dead letters was told
}

// Run runs until stop is done (then it drains and returns nil) or ctx is done (it returns at once).
func (p *Pipeline) Run(ctx, stop context.Context) error {
	p.setDefaults()
	p.mu.Lock()
	p.began = time.Now()
	p.mu.Unlock()
	defer p.letters.tellAll(p)
	checkpoints, err := p.start(ctx, stop)
	if err != nil || checkpoints == nil {
		return err
	}
	var running sync.WaitGroup
	p.launch = func(r *run) {
		p.mu.Lock()
		p.runs = append(p.runs, r)
		p.mu.Unlock()
		running.Go(func() { _ = r.loop(ctx) }) // it logs what ends a session; what ends the loop is ours
	}
	err = p.begin(ctx, checkpoints)
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for err == nil {
		select {
		case <-tick.C:
			p.letters.tell(p)
			err = p.tend(ctx)
		case ask := <-p.asks:
			ask.answer <- ask.do(ctx)
		case <-stop.Done():
			p.stopAll()
			running.Wait()
			return nil
		case <-ctx.Done():
			running.Wait()
			return context.Cause(ctx)
		}
	}
	p.stopAll()
	running.Wait()
	return err
}

// begin makes the first runs, and goes on with rebuilds that were under way.
func (p *Pipeline) begin(ctx context.Context, checkpoints []replicator.Checkpoint) error {
	if err := p.launchTogether(checkpoints); err != nil {
		return err
	}
	return p.takeUp(ctx)
}

// launchTogether runs views from their checkpoints, those together that can be.
func (p *Pipeline) launchTogether(checkpoints []replicator.Checkpoint) error {
	for _, group := range together(checkpoints) {
		if err := p.launchAt(group); err != nil {
			return err
		}
	}
	return nil
}

// tend does what has become due: rebuilds that can be swapped in, runs that must part, runs that can join.
func (p *Pipeline) tend(ctx context.Context) error {
	if err := p.placeLate(ctx); err != nil {
		return err
	}
	p.rebuildRedefined(ctx)
	if err := p.takeUp(ctx); err != nil {
		return err
	}
	if err := p.finishRebuilds(ctx); err != nil {
		return err
	}
	if err := p.part(ctx); err != nil {
		return err
	}
	union := p.join(ctx)
	if union == nil {
		return nil
	}
	r, err := newRun(p, union)
	if err == nil {
		p.launch(r)
	}
	return err
}

// ask is a request to the goroutine that owns the runs.
type ask struct {
	do     func(ctx context.Context) error
	answer chan error
}

// ask has do called by the goroutine that owns the runs.
func (p *Pipeline) ask(ctx context.Context, do func(ctx context.Context) error) error {
	p.mu.Lock()
	if p.asks == nil {
		p.asks = make(chan ask)
	}
	asks := p.asks
	p.mu.Unlock()
	a := ask{do: do, answer: make(chan error, 1)}
	select {
	case asks <- a:
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
	set(&p.OnSwap, SwapVerify)
	set(&p.Drain, 20*time.Second)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asks == nil {
		p.asks = make(chan ask)
	}
	p.paused, p.failed = map[string]replicator.Checkpoint{}, map[string]error{}
}

func set[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
	}
}

// stopAll tells every run to drain and end.
func (p *Pipeline) stopAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.runs {
		r.stop()
	}
}

// end drains a run and waits until it has ended; it is then no longer one of the pipeline's.
func (p *Pipeline) end(ctx context.Context, r *run) error {
	r.stop()
	select {
	case <-r.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.runs = slices.DeleteFunc(p.runs, func(other *run) bool { return other == r })
	return nil
}

// start finds where each view goes on, trying until the sink and the source answer. It returns nil once stop is done.
func (p *Pipeline) start(ctx, stop context.Context) ([]replicator.Checkpoint, error) {
	wait, began := backoff{}, time.Time{} // of trouble
	for {
		checkpoints, err := p.resume(ctx, p.Views)
		if err == nil {
			p.recovered(began, p.Views)
			p.setError(nil)
			return checkpoints, nil
		}
		if began.IsZero() {
			began = time.Now()
		}
		delay := wait.next(0)
		if replicator.IsFatal(err) {
			delay = fatalPause
		}
		err = p.ofShard(err)
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

// recovered says that trouble is over that began at a time; zero: there was none.
func (p *Pipeline) recovered(began time.Time, views []*replicator.View) {
	if !began.IsZero() {
		p.Log.Info("pipeline recovered", "sink", p.Name, "views", names(views), "after", time.Since(began).Round(time.Millisecond))
	}
}

// ofShard names the source in an error, where it is one of several.
func (p *Pipeline) ofShard(err error) error {
	if name := p.Source.Name(); name != "" && err != nil {
		return fmt.Errorf("source %s: %w", name, err)
	}
	return err
}

func (p *Pipeline) setError(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

// resume decides for each of the views where it goes on: at the lower of its checkpoint and its mark in the sink; from
// a fill where it has neither.
func (p *Pipeline) resume(ctx context.Context, views []*replicator.View) ([]replicator.Checkpoint, error) {
	saved, marks, err := p.remembered(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.identify(ctx, views, saved, marks); err != nil {
		return nil, err
	}
	var resumed []replicator.Checkpoint
	var unfilled, begun, again, unplaced []*replicator.View
	var changed []string
	failed := map[string]error{}
	for _, v := range views {
		c, m := find(saved, marks, v.Name, p.Source.Name())
		at, err := p.place(v, c, m)
		if m != nil && m.Err != nil {
			unplaced = append(unplaced, v)
		}
		switch {
		case errors.Is(err, errChanged):
			changed = append(changed, v.Name)
		case err != nil:
			failed[v.Name] = p.ofShard(err)
			p.Log.Error("view does not run", "sink", p.Name, "view", v.Name, "error", err)
		case at == nil && c == nil && (m == nil || m.Position.IsZero()):
			begun = append(begun, v)
		case at == nil && c == nil && m.IsAnew():
			again = append(again, v)
		case at == nil:
			unfilled = append(unfilled, v)
		default:
			if c != nil && (at.Position.Order < c.Position.Order || at.Filling() != c.Filling()) {
				p.Log.Info("the sink stands before the checkpoint: reading begins there", "sink", p.Name, "view", v.Name,
					"order", at.Position.Order, "checkpoint", c.Position.Order, "filling", at.Filling())
			}
			resumed = append(resumed, *at)
		}
	}
	before := known(saved, marks, p.Source.Name())
	if resumed, err = p.resumeAt(ctx, resumed, begun, before, p.begun); err == nil {
		resumed, err = p.resumeAt(ctx, resumed, unfilled, before, p.anew)
	}
	if err == nil {
		resumed, err = p.resumeAt(ctx, resumed, again, before, p.again)
	}
	if err != nil {
		return nil, err
	}
	if len(changed) > 0 {
		p.changed, p.takenUp = append(p.changed, changed...), false
	}
	if p.unplaced = unplaced; len(unplaced) > 0 {
		p.placeAt = time.Now().Add(retryPause)
	}
	p.mu.Lock()
	for _, v := range views {
		delete(p.failed, v.Name)
	}
	for name, err := range failed {
		p.failed[name] = err
	}
	p.mu.Unlock()
	if len(resumed) == 0 {
		return []replicator.Checkpoint{}, nil
	}
	return resumed, nil
}

// remembered is what the store and the sink know of views. The sink is asked first: what it says it holds is what it
// holds.
func (p *Pipeline) remembered(ctx context.Context) (saved []replicator.Checkpoint, marks []replicator.Mark, err error) {
	if marks, err = p.Sink.Marks(ctx, p.Source.Name()); err != nil {
		return nil, nil, fmt.Errorf("sink %s: reading its marks: %w", p.Name, err)
	}
	if saved, err = p.Store.Checkpoints(ctx); err != nil {
		return nil, nil, fmt.Errorf("reading the checkpoints: %w", err)
	}
	for _, m := range marks {
		p.sawEpoch(m.Epoch)
	}
	for _, c := range saved {
		p.sawEpoch(c.Epoch)
	}
	return saved, marks, nil
}

func find(saved []replicator.Checkpoint, marks []replicator.Mark, view, source string) (c *replicator.Checkpoint, m *replicator.Mark) {
	if i := slices.IndexFunc(saved, func(c replicator.Checkpoint) bool { return c.View == view && c.Source == source }); i >= 0 {
		c = &saved[i]
	}
	if i := slices.IndexFunc(marks, func(m replicator.Mark) bool { return m.View == view }); i >= 0 {
		m = &marks[i]
	}
	return c, m
}

// errChanged: the view's definition changed, and it is to be rebuilt.
var errChanged = errors.New("its definition changed")

// swaps reports whether rebuilt views can be swapped in: several sources fill one target, and can't do that each.
func (p *Pipeline) swaps() bool {
	_, ok := p.Sink.(replicator.Shadower)
	return ok && p.Source.Name() == ""
}

// place is where a view goes on, given its checkpoint and its mark; nil if it has to be filled. It wraps errChanged if
// it has to be rebuilt.
func (p *Pipeline) place(v *replicator.View, c *replicator.Checkpoint, m *replicator.Mark) (*replicator.Checkpoint, error) {
	if m != nil && m.Err != nil {
		return nil, p.unread(m)
	}
	marked := m != nil && !m.Position.IsZero() && (!m.Filling() || len(m.Fill) > 0)
	sameSaved, sameMark := c == nil || replicator.SameDefinition(c.Fingerprint, v.Fingerprint), m == nil || replicator.SameDefinition(m.Fingerprint, v.Fingerprint)
	changed := !sameSaved || !sameMark
	switch {
	case changed && sameMark && marked:
		// A rebuild was swapped in, or a fill had begun, and the program ended before it could save that.
		return &replicator.Checkpoint{View: v.Name, Source: p.Source.Name(), Fingerprint: v.Fingerprint, Standing: m.Standing}, nil
	case changed && v.OnChange == "rebuild" && m != nil && p.swaps():
		return nil, errChanged // what it shows stays until the new one is filled
	case changed && v.OnChange == "rebuild":
		return nil, nil
	case !sameSaved:
		return nil, replicator.Redefined(v, c.Fingerprint, v.Fingerprint)
	case !sameMark:
		return nil, replicator.Redefined(v, m.Fingerprint, v.Fingerprint)
	case c == nil && !marked:
		return nil, nil
	case c == nil:
		return &replicator.Checkpoint{View: v.Name, Source: p.Source.Name(), Fingerprint: v.Fingerprint, Standing: m.Standing}, nil
	}
	at := *c
	at.Fingerprint = v.Fingerprint
	var err error
	if at.Standing, err = beginning(*c, m); err == nil {
		at.Read = later(c.Position, c.Read)
		return &at, nil
	}
	if p.OnLost == "rebuild" {
		p.Log.Warn("the sink holds nothing of the view any more: it is filled anew", "sink", p.Name, "view", v.Name)
		return nil, nil
	}
	return nil, replicator.Fatal(fmt.Errorf("sink %s holds nothing of the view any more, but its checkpoint says that it was kept there; "+
		"`replicator checkpoint reset %s` fills it anew, on_lost = \"rebuild\" does so by itself: %w", p.Name, v.Name, err))
}

// known are all positions that the sink or the store remember of a source.
func known(saved []replicator.Checkpoint, marks []replicator.Mark, source string) (at []replicator.Position) {
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

// resumeAt adds the checkpoints of views that begin where a function says.
func (p *Pipeline) resumeAt(ctx context.Context, resumed []replicator.Checkpoint, views []*replicator.View, before []replicator.Position,
	where func(context.Context, []*replicator.View, []replicator.Position) (replicator.Checkpoint, error)) ([]replicator.Checkpoint, error) {
	if len(views) == 0 {
		return resumed, nil
	}
	c, err := where(ctx, views, before)
	return append(resumed, eachAt(views, c)...), err
}

// view is the view of that name: one of the pipeline's, or the shadow of one that is being rebuilt.
func (p *Pipeline) view(name string) *replicator.View {
	for _, v := range p.Views {
		if v.Name == name {
			return v
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.rebuilds {
		for _, v := range b.shadows {
			if v.Name == name {
				return v
			}
		}
	}
	return nil
}
