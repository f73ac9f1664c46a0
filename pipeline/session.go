package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"replicator"
)

// session is one attempt at running the views of a run together: from the opening of reader and target until an error
// or a stop. It owns its goroutines (one reader, the lanes, one that advances the checkpoint, one that fills) and waits
// for them.
type session struct {
	run    *run
	began  time.Time
	reader replicator.Reader
	target replicator.Target
	budget *budget
	lanes  []*lane

	spellings *lane // of the keys whose other spellings the source is to be asked for
	alone     *alone

	committed  atomic.Int64 // the last transaction end that the reader delivered
	lastCommit atomic.Int64 // when that was committed, in Unix nanoseconds
	latest     atomic.Int64 // where the source's log ended when that was asked last
	asked      atomic.Int64 // when that was, in Unix nanoseconds; 0: not yet
	caughtUp   atomic.Int64 // when it was that committed was the end
	heard      atomic.Bool  // the source answered to reading its log: until then nothing is known to be caught up
	window     window       // what the tail touches while a chunk of a scan is read

	renewed context.Context // done once the session is to end so that another one begins
	renew   context.CancelFunc

	over context.Context // done once nothing that is handed to a lane is applied any more
	end  context.CancelFunc

	// advance moves the applied position; one at a time, because Reader.Position wants orders that never fall.
	advancing sync.Mutex
	proved    bool                // the place where reading began was asked for since it was read
	marked    replicator.Position // the last position marked in the sink by this session
	markedAt  time.Time
	saved     replicator.Position
	markedRun int64 // changes applied when it was marked
}

// errStopped ends a session that was asked to stop.
var errStopped = errors.New("stopped")

// errRenewed ends a session that was asked to make room for a new one.
var errRenewed = errors.New("renewed")

// openSession opens reader and target at the run's position and makes what is known durable before anything is applied:
// first the marks in the sink, then the checkpoints. A crash between the two leaves a mark to go on from.
func openSession(ctx context.Context, r *run) (*session, error) {
	p := r.pipeline
	target, err := p.Sink.Open(ctx, p.Source.Name(), r.views)
	if err != nil {
		return nil, unproven(fmt.Errorf("sink %s: %w", p.Name, err))
	}
	if err := r.goBack(ctx); err != nil { // once more: opening a sink may show that what it knew of a view is worth nothing
		return nil, err
	}
	reader, err := p.Source.Open(ctx, r.positions(), replicator.TablesOf(r.views)...)
	if err != nil {
		return nil, fmt.Errorf("opening the source: %w", err)
	}
	if err := r.sameTables(ctx); err != nil {
		return nil, errors.Join(err, reader.Close())
	}
	s := &session{run: r, began: time.Now(), reader: reader, target: target, budget: newBudget(p.Memory)}
	s.renewed, s.renew = context.WithCancel(context.Background())
	s.over, s.end = context.WithCancel(context.Background())
	start := reader.Start()
	s.committed.Store(start.Order)
	r.moveTo(start)
	if err = s.save(ctx); err == nil {
		for range p.Lanes {
			s.lanes = append(s.lanes, newLane(s, start.Order, s.apply))
		}
		s.spellings, s.alone = newLane(s, start.Order, s.respell), newAlone()
		return s, nil
	}
	return nil, errors.Join(unproven(err), reader.Close())
}

// close closes reader and target.
func (s *session) close() error { return s.reader.Close() }

// serve runs the session until stop is done (then it drains and returns errStopped), ctx is done (it returns at once),
// or something fails.
func (s *session) serve(ctx context.Context, stop context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	defer context.AfterFunc(s.renewed, func() { fail(errRenewed) })()
	intake, endIntake := context.WithCancelCause(ctx)
	defer endIntake(nil)
	defer context.AfterFunc(stop, func() { endIntake(errStopped) })()

	var feeders, asker, lanes, saver sync.WaitGroup
	start := func(wg *sync.WaitGroup, do func() error) {
		wg.Go(func() {
			if err := do(); err != nil && !errors.Is(err, errStopped) {
				fail(err)
			}
		})
	}
	unfed, drain, saved := make(chan struct{}), make(chan struct{}), make(chan struct{})
	start(&feeders, func() error {
		if err := s.reader.Read(intake, s); intake.Err() == nil {
			return fmt.Errorf("reading the source: %w", orEnded(err))
		}
		return nil
	})
	start(&feeders, func() error { return s.fill(intake) })
	start(&feeders, func() error { return s.mourn(intake) })
	start(&asker, func() error { return s.spellings.run(ctx, unfed) })
	for _, l := range s.lanes {
		start(&lanes, func() error { return l.run(ctx, drain) })
	}
	start(&saver, func() error { return s.keepSaving(ctx, saved) })

	feeders.Wait()
	// Phase two of a stop: nothing comes in any more, what is pending is applied within the drain time.
	timer := time.AfterFunc(s.run.pipeline.Drain, func() { fail(fmt.Errorf("not drained within %s", s.run.pipeline.Drain)) })
	close(unfed)
	asker.Wait()
	close(drain)
	lanes.Wait()
	s.end()
	timer.Stop()
	close(saved)
	saver.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := s.advance(ctx, saveNow); err != nil {
		return err
	}
	if err := s.refresh(ctx); err != nil {
		return err
	}
	return errStopped
}

// refresh makes the target's readers see all that was applied.
func (s *session) refresh(ctx context.Context) error {
	r, ok := s.target.(replicator.Refresher)
	if !ok {
		return nil
	}
	if err := r.Refresh(ctx); err != nil {
		return fmt.Errorf("sink %s: %w", s.run.pipeline.Name, err)
	}
	return nil
}

// orEnded is err, or an error where a reader ended without one, which it must not.
func orEnded(err error) error {
	if err == nil {
		return errors.New("the stream ended")
	}
	return err
}

// Change hands a change to its cell's lane, when the memory budget has room for it. It implements Handler.
func (s *session) Change(ctx context.Context, c *replicator.Change) error {
	if !s.run.feeds(c.Cell) {
		return nil
	}
	size := int64(replicator.RowOverhead)
	if c.Row != nil {
		size = c.Row.Size()
	}
	size = s.budget.cost(size)
	if err := s.budget.take(ctx, size); err != nil {
		return err
	}
	s.window.touch(c)
	s.add(c, size)
	return s.spelt(ctx, c)
}

// add makes a change pending in its lane.
func (s *session) add(c *replicator.Change, size int64) {
	l := s.lanes[c.Cell.Key.Partition()%len(s.lanes)]
	if spare := l.add(c, size); spare > 0 {
		s.budget.give(spare)
	}
}

// Commit implements Handler.
func (s *session) Commit(order int64, at time.Time) {
	s.heard.Store(true)
	s.committed.Store(order)
	if !at.IsZero() {
		s.lastCommit.Store(at.UnixNano())
	}
	s.window.reached(order)
}

// low is the order up to which everything has been applied.
func (s *session) low() int64 {
	committed := s.committed.Load()
	low := committed
	for _, l := range s.all() {
		low = min(low, l.low(committed))
	}
	return low
}

// barrier waits until everything that was added before has been applied.
func (s *session) barrier(ctx context.Context) error { return s.applied()(ctx) }

// applied returns a function that waits until everything that was added so far has been applied.
func (s *session) applied() func(ctx context.Context) error { return appliedBy(s.all()...) }

// all are the lanes, and what works behind them as they do.
func (s *session) all() []*lane {
	return append(slices.Clip(s.lanes), s.spellings)
}

// appliedBy returns a function that waits until lanes have applied all that they were given so far.
func appliedBy(lanes ...*lane) func(ctx context.Context) error {
	var all []<-chan struct{}
	for _, l := range lanes {
		if applied := l.applied(); applied != nil {
			all = append(all, applied)
		}
	}
	return func(ctx context.Context) error {
		for _, applied := range all {
			select {
			case <-applied:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	}
}

// lag is how long ago the oldest change was committed that the views do not show yet; false if that is not known.
func (s *session) lag() (time.Duration, bool) {
	at, caughtUp, known := s.shown()
	if !known || caughtUp && time.Since(at) < s.answers() {
		return 0, known
	}
	return max(0, time.Since(at)), true
}

// answers is how long the source may take to say where it stands before that counts as not known.
func (s *session) answers() time.Duration { return max(10*time.Second, 3*s.run.pipeline.Interval) }

// shown is the time up to which the views show all that was committed. Where they have caught up it is when the source
// was last asked whether there is more.
func (s *session) shown() (at time.Time, caughtUp, known bool) {
	if !s.heard.Load() {
		return at, false, false
	}
	for _, l := range s.all() {
		at = earlier(at, l.oldest())
	}
	if !at.IsZero() {
		return at, false, true
	}
	asked, last := s.asked.Load(), max(s.caughtUp.Load(), s.lastCommit.Load())
	switch {
	case asked == 0:
		return at, false, false // it may begin far behind
	case s.committed.Load() >= s.latest.Load():
		return time.Unix(0, asked), true, true
	case last == 0:
		return at, false, false // the source is ahead, and nothing that says when has arrived yet
	}
	return time.Unix(0, last), false, true
}
