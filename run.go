package replicator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A run keeps some views of a pipeline together: one session after another, until it is stopped. It owns what outlives a
// session: the applied position and the progress of a fill.
type run struct {
	pipeline  *Pipeline
	views     []*View
	evaluator Evaluator
	applied   []atomic.Int64 // changes applied, by view
	savedAt   atomic.Int64   // when the checkpoint was saved last, Unix nanoseconds
	stop      context.CancelFunc
	stopping  context.Context
	shadow    bool // its views are shadows: it joins no others
	done      chan struct{}

	mu       sync.Mutex
	at       Position
	from     []Position          // where each view stands until the first session is open, which begins at the earliest; then nil
	marked   Position            // the last known mark
	fill     map[string]Progress // nil: filled
	fillFrom int64
	repair   bool             // the fill rewrites what the views are believed to hold
	swapped  map[string]int64 // by view: where a table of its was replaced by another one, until it is compared with the source
	dirty    bool             // the progress, or what is to be compared, changed since the last checkpoint
	session  *session
	state    string
	err      error
	parting  [][]*View // what the pipeline makes of the run: groups that run by themselves; nil: it stays together
	rates    rates
}

func newRun(p *Pipeline, from []Checkpoint) (*run, error) {
	r := &run{pipeline: p, done: make(chan struct{}), state: StateStarting}
	for _, c := range from {
		r.views, r.from = append(r.views, p.view(c.View)), append(r.from, c.Position)
	}
	r.at = slices.MinFunc(r.from, func(a, b Position) int { return cmp.Compare(a.Order, b.Order) })
	r.fill, r.fillFrom, r.repair = maps.Clone(from[0].Fill), from[0].FillFrom, from[0].Repair
	r.swapped = map[string]int64{}
	for _, c := range from {
		if c.Swapped != 0 {
			r.swapped[c.View] = c.Swapped
		}
	}
	r.applied = make([]atomic.Int64, len(r.views))
	r.stopping, r.stop = context.WithCancel(context.Background())
	var err error
	r.evaluator, err = p.Compile(r.views)
	return r, err
}

// loop runs sessions until the run is stopped (nil) or ctx is done.
func (r *run) loop(ctx context.Context) error {
	defer close(r.done)
	wait, named := backoff{}, 0
	for {
		began := time.Now()
		err := r.attempt(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, errStopped), r.stopping.Err() != nil && errors.Is(err, context.Canceled):
			return nil
		case errors.Is(err, errRenewed):
			continue
		}
		err = r.lost(ctx, err)
		lasted := time.Since(began)
		delay := wait.next(lasted)
		state := StateRetrying
		if IsFatal(err) {
			delay, state = 30*time.Second, StateFailed
		}
		groups, others := troubled(r.views, err)
		switch {
		case groups == nil:
			named = 0
		case lasted > time.Minute:
			named = 1
		default:
			named++
		}
		if named > 0 {
			state = StateRetrying // not all of its views have failed
		}
		if named > 0 && (IsFatal(err) || named >= mayPass && len(others) > 0) {
			r.part(groups, others)
		}
		r.setState(state, err)
		r.observer().Retry(r.pipeline.Name)
		r.pipeline.Log.Error("pipeline interrupted", "sink", r.pipeline.Name, "views", r.names(), "state", state,
			"retry_in", delay.Round(time.Millisecond), "error", err)
		select {
		case <-time.After(delay):
		case <-r.stopping.Done():
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// mayPass is how many sessions in a row an error of some views may end that is not Fatal, until they part from the others. What befalls
// all of them (a full disk) parts nobody.
const mayPass = 2

// attempt runs one session.
func (r *run) attempt(ctx context.Context) error {
	opening, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.stopping, cancel)()
	if err := r.reconcile(opening); err != nil {
		return err
	}
	s, err := openSession(opening, r)
	if err != nil {
		return err
	}
	r.setSession(s)
	err = s.serve(ctx, r.stopping)
	r.pipeline.remember(s)
	r.setSession(nil)
	r.mu.Lock()
	r.marked = s.marked
	r.mu.Unlock()
	if closeErr := s.close(); closeErr != nil && errors.Is(err, errStopped) {
		r.pipeline.Log.Warn("closing a session", "sink", r.pipeline.Name, "error", closeErr)
	}
	return err
}

// reconcile compares what the sink says it holds with what was marked in it: where it fell back, reading goes back too;
// where it is gone, the sink was emptied.
func (r *run) reconcile(ctx context.Context) error {
	marks, err := r.pipeline.Sink.Marks(ctx, r.pipeline.Source.Name())
	if err != nil {
		return fmt.Errorf("sink %s: reading its marks: %w", r.pipeline.Name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.marked.IsZero() {
		return nil // the pipeline compared them when it made this run
	}
	for _, v := range r.views {
		i := slices.IndexFunc(marks, func(m Mark) bool { return m.View == v.Name })
		if i < 0 {
			return fmt.Errorf("sink %s: view %s: its mark is gone: %w", r.pipeline.Name, v.Name, ErrSinkLost)
		}
		if at := marks[i].Position; at.Order < r.marked.Order && at.Order < r.at.Order {
			if r.fill == nil && marks[i].Phase != Filled {
				return fmt.Errorf("sink %s: view %s: it was set back to before it was filled: %w", r.pipeline.Name, v.Name, ErrSinkLost)
			}
			r.pipeline.Log.Warn("the sink fell back: reading goes back with it", "sink", r.pipeline.Name, "view", v.Name,
				"order", at.Order, "was", r.at.Order)
			r.at = at
			r.fill, r.dirty = begunAnew(r.fill), true // what it lost of the fill no position tells
		}
	}
	return nil
}

// begunAnew is the progress of a fill that has to read its tables from the start; nil if there is no fill.
func begunAnew(fill map[string]Progress) map[string]Progress {
	if fill == nil {
		return nil
	}
	anew := map[string]Progress{}
	for table, p := range fill {
		anew[table] = Progress{Total: p.Total}
	}
	return anew
}

// lost turns the loss of a sink's data, or of the source's log, into what the configuration says: fill anew, or stop.
func (r *run) lost(ctx context.Context, err error) error {
	unlogged := errors.Is(err, ErrUnlogged)
	if !unlogged && !errors.Is(err, ErrSinkLost) && !errors.Is(err, ErrLost) {
		return err
	}
	onLost := r.pipeline.OnLost
	if errors.Is(err, ErrSwapped) {
		onLost = r.pipeline.OnSwap
	}
	if onLost != "rebuild" {
		way := "fill the views anew with `replicator checkpoint reset` and a restart, or set on_lost = \"rebuild\""
		if unlogged {
			way += "; or, if nothing of theirs changed there, go on behind this place with `replicator checkpoint set --pos FILE:POS`"
		}
		return Fatal(fmt.Errorf("%w; %s", err, way))
	}
	if groups, _ := troubled(r.views, err); groups != nil {
		return Fatal(err) // only those that lost something are filled anew, by themselves
	}
	fresh, ferr := r.pipeline.anew(ctx, r.views, []Position{r.position()})
	if ferr != nil {
		return errors.Join(err, ferr)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at, r.from, r.marked = fresh.Position, nil, Position{}
	r.fill, r.fillFrom, r.dirty = fresh.Fill, fresh.FillFrom, true
	return fmt.Errorf("%w; the views are filled anew", err)
}

// backoff grows from 100 ms to 30 s, with jitter so that pipelines don't knock together.
type backoff struct{ last time.Duration }

func (b *backoff) next(lasted time.Duration) time.Duration {
	if lasted > time.Minute {
		b.last = 0
	}
	b.last = min(max(2*b.last, 100*time.Millisecond), 30*time.Second)
	return b.last/2 + rand.N(b.last/2)
}

func (r *run) observer() Observer { return r.pipeline.Observer }

func (r *run) names() []string { return names(r.views) }

func (r *run) feeds(c Cell) bool {
	return slices.ContainsFunc(r.views, func(v *View) bool { return v.Feeds(c) })
}

func (r *run) setState(state string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state, r.err = state, err
}

func (r *run) trouble() (state string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state, r.err
}

// part asks the pipeline to end the run, and to run each group of its views, and the others, by themselves.
func (r *run) part(groups [][]*View, others []*View) {
	if len(others) > 0 {
		groups = append(groups, others)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.parting = groups
}

// parts are the groups that the run is to part into; nil: it stays together.
func (r *run) parts() [][]*View {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.parting
}

func (r *run) setSession(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.session = s
	if s == nil {
		return
	}
	r.err, r.state = nil, StateRunning
	if r.fill != nil {
		r.state = StateFilling
	}
}

func (r *run) current() *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.session
}

func (r *run) position() Position {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at
}

// positions are where a session may begin: the run's own, or those that its views bring with them.
func (r *run) positions() []Position {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.from != nil {
		return r.from
	}
	return []Position{r.at}
}

// stood are the checkpoints of the views of a run that has ended.
func (r *run) stood() []Checkpoint {
	checkpoints, _ := r.checkpoints(r.position())
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, at := range r.from { // it never came to run them together
		checkpoints[i].Position = at
	}
	return checkpoints
}

func (r *run) moveTo(at Position) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at, r.from = at, nil
}

// checkpoints are those of the run's views at a position, with their phase.
func (r *run) checkpoints(at Position) ([]Checkpoint, Phase) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dirty = false
	cps := make([]Checkpoint, len(r.views))
	for i, v := range r.views {
		cps[i] = Checkpoint{View: v.Name, Source: r.pipeline.Source.Name(), Fingerprint: v.Fingerprint, Position: at,
			Fill: maps.Clone(r.fill), FillFrom: r.fillFrom, Repair: r.repair, Swapped: r.swapped[v.Name]}
	}
	if r.fill != nil {
		return cps, Filling
	}
	return cps, Filled
}

func (r *run) totalApplied() (n int64) {
	for i := range r.applied {
		n += r.applied[i].Load()
	}
	return n
}

// The progress of a fill.

func (r *run) filling() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fill != nil
}

func (r *run) progressed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dirty
}

// repairing reports whether everything is written whatever the views are believed to hold.
func (r *run) repairing() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.repair
}

func (r *run) fillStart() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fillFrom
}

// unfilledTables are the tables that still have to be scanned, in a fixed order.
func (r *run) unfilledTables() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var tables []string
	for t, p := range r.fill {
		if !p.Done {
			tables = append(tables, t)
		}
	}
	slices.Sort(tables)
	return tables
}

func (r *run) progress(table string) Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fill[table]
}

func (r *run) setProgress(table string, p Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fill != nil {
		r.fill[table], r.dirty = p, true
	}
}

func (r *run) filled() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fill, r.fillFrom, r.repair, r.dirty, r.state = nil, 0, false, true, StateRunning
	r.pipeline.Log.Info("filled", "sink", r.pipeline.Name, "views", r.names())
}

// columns are the column values that the views want of a table; empty for all.
func (r *run) columns(table string) []string {
	var columns []string
	for _, v := range r.views {
		for _, f := range v.From {
			switch {
			case f.Table != table:
			case f.Column == "":
				return nil
			case !slices.Contains(columns, f.Column):
				columns = append(columns, f.Column)
			}
		}
	}
	return columns
}
