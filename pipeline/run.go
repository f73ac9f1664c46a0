package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"replicator"
	"replicator/internal/remedy"
)

// A run maintains some views of a pipeline together: it opens one session (connections to source and sink) after
// another until it is stopped. Only its goroutine opens sessions. Its mutex guards data that other goroutines read or
// set.
type run struct {
	*group
	stop     context.CancelFunc
	stopping context.Context
	done     chan struct{}
	rival    rival // replicator that has taken over a view; used only by the run's goroutine

	mu      sync.Mutex
	session *session
	state   string
	err     error
	failed  time.Time            // when a session last failed, in this run or in the run that it was split from
	since   time.Time            // when sessions began to fail; zero: they don't fail
	reason  error                // the last session's error, until a session works again
	parting [][]*replicator.View // groups that the run must be split into; nil: it stays together
}

// group is a set of views that run together, with the data that outlives their sessions. Progress, notes and meter have
// their own locks.
type group struct {
	*shared
	views     viewSet
	evaluator replicator.Evaluator
	source    replicator.Source // reads only the columns that the views need
	progress  *progress
	notes     *notes
	meter     *meter

	forgetting *forgetting

	late   viewSet     // views that joined the run's other views, and may disagree with these until all have caught up
	agreed atomic.Bool // the views in `late` have caught up with the others

	// blank says that the views are empty: they are new, began without a fill, and have seen no change yet. The
	// goroutine that opens the session sets it; after that, only the log reader's goroutine uses it.
	blank bool

	// searched says that a session has looked for old contents in the target. Later sessions don't look, because they
	// would find what that session applied. Only the goroutine that opens sessions uses it.
	searched bool
}

func (r *run) loop(ctx context.Context) error {
	defer close(r.done)
	var retries retries
	for {
		began, applied := time.Now(), r.meter.total()
		err := r.attempt(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, errStopped), r.stopping.Err() != nil && errors.Is(err, context.Canceled):
			return nil
		case errors.Is(err, errRenewed):
			continue
		}
		if told, is := errors.AsType[*replicator.Overtaken](err); is {
			r.rival.told = told
		}
		err = r.cfg.ofShard(r.named(r.lost(ctx, err)))
		next := retries.after(r.views, err, ended{time.Since(began), r.isWell() || r.meter.total() > applied})
		if next.groups != nil {
			r.part(next.groups)
		}
		r.setTrouble(next.state, err)
		r.cfg.Observer.Retry(r.cfg.Name)
		level := slog.LevelError
		// This is no failure: the session only has to open again.
		if errors.Is(err, replicator.ErrOtherTables) || errors.Is(err, replicator.ErrOpenAgain) {
			level = slog.LevelInfo
		}
		r.cfg.Log.Log(ctx, level, "pipeline interrupted", "sink", r.cfg.Name, "views", r.views.names(), "state", next.state,
			"retry_in", next.delay.Round(time.Millisecond), "error", err)
		select {
		case <-time.After(next.delay):
		case <-r.stopping.Done():
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (r *run) attempt(ctx context.Context) error {
	opening, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.stopping, cancel)()
	if err := r.reposition(opening); err != nil {
		return err
	}
	s, err := openSession(opening, r)
	if err != nil {
		return err
	}
	r.setSession(s)
	err = s.serve(ctx, r.stopping)
	r.shown.remember(s)
	r.setSession(nil)
	if ctx.Err() == nil && !errors.Is(err, errStopped) && !errors.Is(err, errRenewed) {
		r.saveShown(ctx)
	}
	r.progress.readTo(s.reader.Position(r.progress.current().Position.Order))
	if closeErr := s.close(); closeErr != nil && errors.Is(err, errStopped) {
		r.cfg.Log.Warn("closing a session failed", "sink", r.cfg.Name, "error", closeErr)
	}
	return unproven(err)
}

// saveShown saves the time up to which the views show everything, after a session failed. If the process restarts, the
// lag counts from that time. An error of the store is ignored, because the next session will report it.
func (r *run) saveShown(ctx context.Context) {
	stands := r.progress.checkpoints()
	r.shown.stamp(stands, time.Time{}, false)
	_ = r.cfg.Store.Save(ctx, stands)
}

// unproven removes from a session's error the claim that the sink lost data, unless only a part of the sink lost data.
// The next session learns from the positions in the sink whether the whole sink lost data, and how much.
func unproven(err error) error {
	if errors.Is(err, replicator.ErrSinkLost) && !errors.Is(err, replicator.ErrPartFellBack) {
		return errors.New(err.Error())
	}
	return err
}

// reposition sets where the run's next session begins, by calling beginning for each view.
func (r *run) reposition(ctx context.Context) error {
	known, err := r.planner.marks(ctx)
	if err != nil {
		return err
	}
	stands := r.progress.checkpoints()
	var lost []string
	var loss error
	var unreadable []error
	above := &above{run: r}
	r.blank = true
	for i, c := range stands {
		_, m := known.of(c.View)
		r.blank = r.blank && isNew(c) && (m == nil || m.Position.IsZero())
		if m != nil && m.Err != nil {
			unreadable = append(unreadable, r.cfg.unread(m))
			continue
		}
		if stands[i].Standing, err = beginning(c, m, r.cfg.changelog() != nil); err != nil {
			if where := known.lacking[c.View]; where != "" {
				err = fmt.Errorf("%s: %w", where, err)
			}
			lost, loss = append(lost, c.View), cmp.Or(loss, err)
			continue
		}
		if err := r.planner.chooseAgain(ctx, &stands[i], m, known); err != nil {
			return err
		}
		above.compare(c, m)
		if r.planner.mustReplay(&c, m, stands[i].Standing) {
			if err := r.planner.replay(ctx, &stands[i].Standing); err != nil {
				return ofPosition(err)
			}
		}
		if !c.Unmarked && m.Below(c.Standing) {
			r.cfg.Log.Warn("the sink was set back. Reading goes back to the sink's mark", "sink", r.cfg.Name,
				"view", c.View, "order", m.Position.Order, "was", c.Position.Order, "filling", m.Filling())
		}
	}
	if len(unreadable) > 0 { // these views must run separately first; until then, all views keep their positions
		return errors.Join(unreadable...)
	}
	if loss != nil {
		if len(lost) < len(stands) {
			loss = fmt.Errorf("%w. The lost views are %s", loss, strings.Join(lost, ", "))
		}
		return replicator.OfView(r.cfg.ofSink(loss), lost...)
	}
	if err := above.yield(ctx); err != nil {
		return err
	}
	r.progress.restart(stands, above.required()...)
	return nil
}

// lost handles the loss of a sink's data, or of the source's log, as configured: fill again, or stop.
func (r *run) lost(ctx context.Context, err error) error {
	unlogged := errors.Is(err, replicator.ErrUnlogged)
	if !unlogged && !errors.Is(err, replicator.ErrSinkLost) && !errors.Is(err, replicator.ErrLost) {
		return err
	}
	onLost := r.cfg.OnLost
	if unlogged {
		onLost = r.cfg.OnUnlogged
	}
	// A fill whose scan has not begun will read the rows that the log doesn't list. So it need not begin again.
	at := r.progress.current()
	unscanned := unlogged && at.Filling() && at.Position.Order < at.FillFrom && r.cfg.changelog() == nil
	partly := errors.Is(err, replicator.ErrPartFellBack) // the parts of the sink disagree: only a fill repairs that
	if onLost != "rebuild" && !unscanned && !partly {
		if errors.Is(err, replicator.ErrLost) { // save the positions, so that a restart finds the same loss
			err = errors.Join(err, r.cfg.Store.Save(ctx, r.progress.checkpoints()))
		}
		return r.cfg.stopsFor(err, r.views)
	}
	if groups, _ := replicator.Troubled(r.views, err); groups != nil {
		return replicator.Fatal(err) // first, the views that the error names must run separately from the others
	}
	c, ferr := r.planner.fill(ctx, r.views, append(r.progress.positions(), at.Position))
	if ferr != nil {
		return errors.Join(err, ferr)
	}
	if unscanned {
		c.Fill, c.Repair = at.Fill, at.Repair
	}
	// Some contents may be left, so the fill must rewrite every row.
	c.Repair = c.Repair || partly || errors.Is(err, replicator.ErrSinkLost)
	r.progress.refill(c)
	// The trouble is handled, so the error is neither Fatal nor a loss any more.
	return errors.New(err.Error() + ". The views are filled again")
}

func (r *run) named(err error) error {
	views := r.views
	if groups, _ := replicator.Troubled(views, err); groups != nil {
		views = slices.Concat(groups...)
	}
	return remedy.Named(err, views.words())
}

func (c *Config) stopsFor(loss error, views viewSet) error {
	if groups, _ := replicator.Troubled(views, loss); groups != nil { // only the views that the error names stop
		views = slices.Concat(groups...)
	}
	way := "To fill the views again, run " + c.anew(views) + " or set [source] on_lost = \"rebuild\""
	if errors.Is(loss, replicator.ErrUnlogged) {
		way = "To fill the views again, run " + c.anew(views) + " or set [source] on_unlogged = \"repair\""
	}
	if at, ok := errors.AsType[unlogged](loss); ok {
		set := "replicator checkpoint set --pos " + at.behind + " "
		if c.Source.Name() != "" {
			set += "--source " + c.Source.Name() + " "
		}
		way += ". Or, if none of their rows changed there, continue after this position with `" + set +
			views.words() + "`"
	}
	return replicator.Fatal(fmt.Errorf("%w. %s", loss, way))
}

func (r *run) setTrouble(state string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state, r.err, r.reason, r.failed = state, err, err, time.Now()
	if r.since.IsZero() {
		r.since = time.Now()
	}
}

// goesOn records that a session works as intended: any trouble is over.
func (r *run) goesOn() {
	r.mu.Lock()
	since := r.since
	r.since, r.reason = time.Time{}, nil
	r.mu.Unlock()
	r.cfg.logRecovery(since, r.views)
}

func (r *run) calm(d time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Since(r.failed) >= d
}

func (r *run) isWell() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.since.IsZero()
}

func (r *run) inTroubleFor(d time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.since.IsZero() && time.Since(r.since) >= d
}

// trouble returns the run's state, and the error that ended its last session (nil while a session is open).
func (r *run) trouble() (state string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state, r.err
}

// shownTrouble returns the state and the error for the status. While a session is open that does not work yet (see
// saver.serves), that is the error of the session before it.
func (r *run) shownTrouble() (state string, err error) {
	r.mu.Lock()
	s, reason, state, err := r.session, r.reason, r.state, r.err
	r.mu.Unlock()
	if err == nil && reason != nil && (s == nil || !s.saver.serves()) {
		return replicator.StateRetrying, reason
	}
	return state, err
}

func (r *run) redefined() bool {
	_, err := r.trouble()
	return errors.Is(err, replicator.ErrRedefined)
}

func (r *run) part(groups [][]*replicator.View) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.parting = groups
}

func (r *run) parts() [][]*replicator.View {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.parting
}

func (r *run) setSession(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.session = s
	if s != nil {
		r.err, r.state = nil, replicator.StateRunning
	}
}

// current returns the open session; nil between two sessions.
func (r *run) current() *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.session
}
