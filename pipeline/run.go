package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"replicator"
)

// A run keeps some views of a pipeline together: one session after another, until it is stopped. It owns what outlives
// a session: how far its views have come.
type run struct {
	pipeline  *Pipeline
	views     []*replicator.View
	evaluator replicator.Evaluator
	applied   []atomic.Int64 // changes applied, by view
	savedAt   atomic.Int64   // when the checkpoint was saved last, Unix nanoseconds
	stop      context.CancelFunc
	stopping  context.Context
	shadow    bool // its views are shadows: it joins no others
	done      chan struct{}

	mu      sync.Mutex
	stands  []replicator.Checkpoint // by view: what was marked last. The next session begins there, and nowhere else
	now     replicator.Standing     // of all together, with what was applied since
	swapped map[string]int64        // by view: where a table of its was replaced by another one, until it is compared with the source
	read    replicator.Position     // the latest place that was applied up to, with what was read beyond it; zero if that is not known
	letters map[string]bool         // by view: the store was told which cells the sink knows to be dead letters
	dirty   bool                    // the progress, or what is to be compared, changed since the last checkpoint
	session *session
	state   string
	err     error
	since   time.Time            // when what now keeps sessions from going on began; zero: nothing does
	parting [][]*replicator.View // what the pipeline makes of the run: groups that run by themselves; nil: it stays together
	rates   rates
}

func newRun(p *Pipeline, from []replicator.Checkpoint) (*run, error) {
	r := &run{pipeline: p, stands: slices.Clone(from), done: make(chan struct{}), state: replicator.StateStarting}
	for _, c := range from {
		r.views = append(r.views, p.view(c.View))
	}
	r.now = lowestOf(r.views, r.stands)
	for _, c := range from {
		r.read = later(r.read, later(c.Position, c.Read))
	}
	r.swapped = map[string]int64{}
	for _, c := range from {
		if c.Swapped != 0 {
			r.swapped[c.View] = c.Swapped
		}
	}
	r.letters = map[string]bool{}
	for _, c := range from {
		r.letters[c.View] = c.Letters
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
		err = r.pipeline.ofShard(r.lost(ctx, err))
		lasted := time.Since(began)
		delay := wait.next(lasted)
		state := replicator.StateRetrying
		if replicator.IsFatal(err) {
			delay, state = fatalPause, replicator.StateFailed
		}
		groups, others := replicator.Troubled(r.views, err)
		switch {
		case groups == nil:
			named = 0
		case lasted > time.Minute:
			named = 1
		default:
			named++
		}
		if named > 0 {
			state = replicator.StateRetrying // not all of its views have failed
		}
		if named > 0 && (replicator.IsFatal(err) || named >= mayPass && len(others) > 0) {
			r.part(groups, others)
		}
		r.setTrouble(state, err)
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

// mayPass is how many sessions in a row an error of some views may end that is not Fatal, until they part from the
// others. What befalls all of them (a full disk) parts nobody.
const mayPass = 2

// attempt runs one session.
func (r *run) attempt(ctx context.Context) error {
	opening, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.stopping, cancel)()
	if err := r.goBack(opening); err != nil {
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
	r.readBy(s)
	if closeErr := s.close(); closeErr != nil && errors.Is(err, errStopped) {
		r.pipeline.Log.Warn("closing a session", "sink", r.pipeline.Name, "error", closeErr)
	}
	return unproven(err)
}

// unproven takes from an error of a session that the sink lost data: whether it did, and how much, its marks tell the
// next session.
func unproven(err error) error {
	if errors.Is(err, replicator.ErrSinkLost) {
		return errors.New(err.Error())
	}
	return err
}

// goBack lets the run stand where its next session begins, for each view by the rule.
func (r *run) goBack(ctx context.Context) error {
	marks, err := r.pipeline.Sink.Marks(ctx, r.pipeline.Source.Name())
	if err != nil {
		return fmt.Errorf("sink %s: reading its marks: %w", r.pipeline.Name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	stands := slices.Clone(r.stands)
	var lost []string
	var loss error
	var unread []error
	for i, c := range stands {
		_, m := find(nil, marks, c.View, c.Source)
		if m != nil && m.Err != nil {
			unread = append(unread, r.pipeline.unread(m))
			continue
		}
		if stands[i].Standing, err = beginning(c, m); err != nil {
			lost, loss = append(lost, c.View), cmp.Or(loss, err)
		} else if !c.Unmarked && m.Below(c.Standing) {
			r.pipeline.Log.Warn("the sink fell back: reading goes back with it", "sink", r.pipeline.Name, "view", c.View,
				"order", m.Position.Order, "was", c.Position.Order, "filling", m.Filling())
		}
	}
	if len(unread) > 0 { // the others begin where they do, whatever they lost, once these have parted from them
		return errors.Join(unread...)
	}
	if len(lost) > 1 {
		loss = fmt.Errorf("%w; so with %s", loss, strings.Join(lost[1:], ", "))
	}
	if loss != nil {
		return replicator.OfView(fmt.Errorf("sink %s: %w", r.pipeline.Name, loss), lost...)
	}
	r.stands, r.now = stands, lowestOf(r.views, stands)
	return nil
}

// lost turns the loss of a sink's data, or of the source's log, into what the configuration says: fill anew, or stop.
func (r *run) lost(ctx context.Context, err error) error {
	unlogged := errors.Is(err, replicator.ErrUnlogged)
	if !unlogged && !errors.Is(err, replicator.ErrSinkLost) && !errors.Is(err, replicator.ErrLost) {
		return err
	}
	onLost := r.pipeline.OnLost
	if errors.Is(err, replicator.ErrSwapped) {
		onLost = r.pipeline.OnSwap
	}
	if onLost != "rebuild" {
		if errors.Is(err, replicator.ErrLost) { // a restart must not forget what makes it so
			err = errors.Join(err, r.pipeline.Store.Save(ctx, r.stood()))
		}
		way := "fill the views anew with `replicator checkpoint reset` and a restart, or set on_lost = \"rebuild\""
		if unlogged {
			way += "; or, if nothing of theirs changed there, go on behind this place with `replicator checkpoint set --pos FILE:POS`"
		}
		return replicator.Fatal(fmt.Errorf("%w; %s", err, way))
	}
	if groups, _ := replicator.Troubled(r.views, err); groups != nil {
		return replicator.Fatal(err) // only those that lost something are filled anew, by themselves
	}
	fresh, ferr := r.pipeline.anew(ctx, r.views, []replicator.Position{r.position()})
	if ferr != nil {
		return errors.Join(err, ferr)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stands, r.read = eachAt(r.views, fresh), replicator.Position{}
	r.now = lowestOf(r.views, r.stands)
	return errors.New(err.Error() + "; the views are filled anew") // what it was is mended: it is neither Fatal nor a loss any more
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

func (r *run) observer() replicator.Observer { return r.pipeline.Observer }

func (r *run) names() []string { return names(r.views) }

func (r *run) feeds(c replicator.Cell) bool {
	return slices.ContainsFunc(r.views, func(v *replicator.View) bool { return v.Feeds(c) })
}

func (r *run) setTrouble(state string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state, r.err = state, err
	if r.since.IsZero() {
		r.since = time.Now()
	}
}

// goesOn says that a session does what it is there for: trouble, if there was any, is over.
func (r *run) goesOn() {
	r.mu.Lock()
	since := r.since
	r.since = time.Time{}
	r.mu.Unlock()
	r.pipeline.recovered(since, r.views)
}

func (r *run) trouble() (state string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state, r.err
}

// part asks the pipeline to end the run, and to run each group of its views, and the others, by themselves.
func (r *run) part(groups [][]*replicator.View, others []*replicator.View) {
	if len(others) > 0 {
		groups = append(groups, others)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.parting = groups
}

// parts are the groups that the run is to part into; nil: it stays together.
func (r *run) parts() [][]*replicator.View {
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
	r.err, r.state = nil, replicator.StateRunning
	if r.now.Filling() {
		r.state = replicator.StateFilling
	}
}

func (r *run) current() *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.session
}

// position is the place up to which the running session has applied everything, marked or not.
func (r *run) position() replicator.Position {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now.Position
}

// positions are where the views stand. A session begins at the earliest; what was read beyond that is proved with it.
func (r *run) positions() (at []replicator.Position) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.stands {
		if !slices.Contains(at, c.Position) {
			at = append(at, c.Position)
		}
		if read := r.readBeyond(c); !read.IsZero() && !slices.Contains(at, read) {
			at = append(at, read)
		}
	}
	return at
}

// readBy notes how far a session has read: some of that may be in the sink, wherever the next one begins.
func (r *run) readBy(s *session) {
	read := s.reader.Position(r.position().Order)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read = later(r.read, read)
}

// readBeyond is what was read beyond where a view stands; zero if that is not known. r.mu is held.
func (r *run) readBeyond(c replicator.Checkpoint) replicator.Position {
	if r.read.Order < c.Position.Order {
		return replicator.Position{}
	}
	return r.read
}

// later is the later of two positions; the second if they are at one place.
func later(a, b replicator.Position) replicator.Position {
	if b.IsZero() || a.Order > b.Order {
		return a
	}
	return b
}

// stood are the checkpoints of the views of a run that has ended.
func (r *run) stood() []replicator.Checkpoint {
	r.mu.Lock()
	defer r.mu.Unlock()
	stood := slices.Clone(r.stands)
	for i := range stood {
		stood[i].Read = r.readBeyond(stood[i])
	}
	return stood
}

func (r *run) moveTo(at replicator.Position) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.Position = at
}

// standing is how far the run's views have come, as it is to be marked.
func (r *run) standing() replicator.Standing {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dirty = false
	now := r.now
	now.Fill = maps.Clone(now.Fill)
	now.Swapped = 0
	for _, order := range r.swapped { // one mark for all: where the store is lost, a view may be compared for nothing
		now.Swapped = max(now.Swapped, order)
	}
	return now
}

// marked says that a standing was marked, and returns the checkpoints that may now be saved.
func (r *run) marked(at replicator.Standing) []replicator.Checkpoint {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.stands {
		c := &r.stands[i]
		if c.Unmarked {
			c.Standing, c.Unmarked = at, false
		} else {
			c.Standing = c.Raise(at)
		}
		c.Swapped, c.Read, c.Letters = r.swapped[c.View], r.readBeyond(*c), r.letters[c.View]
	}
	return slices.Clone(r.stands)
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
	return r.now.Filling()
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
	return r.now.Repair
}

func (r *run) fillStart() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now.FillFrom
}

// unfilledTables are the tables that still have to be scanned, in a fixed order.
func (r *run) unfilledTables() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var tables []string
	for t, p := range r.now.Fill {
		if !p.Done {
			tables = append(tables, t)
		}
	}
	slices.Sort(tables)
	return tables
}

func (r *run) progress(table string) replicator.Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now.Fill[table]
}

func (r *run) setProgress(table string, p replicator.Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now.Filling() {
		r.now.Fill[table], r.dirty = p, true
	}
}

func (r *run) filled() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.Fill, r.now.FillFrom, r.now.Repair, r.dirty, r.state = nil, 0, false, true, replicator.StateRunning
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
