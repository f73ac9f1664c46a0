package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"replicator"
)

// session is one attempt at running views together, from opening the source and the sink until an error or a stop. It
// owns its goroutines (for reading, filling, applying and saving), and waits for them.
type session struct {
	*group
	began  time.Time
	reader replicator.Reader
	target replicator.Target

	reach   *reach
	tail    *tail
	intake  *intake
	filler  *filler
	lanes   *lanes
	letters *letters
	saver   *saver
	forgets *forgetter

	renewed context.Context // done once this session must end so that a new session can start
	renew   context.CancelFunc
	end     context.CancelFunc // cancels intake.lanesDone; called once the lanes have stopped
}

var errStopped = errors.New("stopped")

// errRenewed ends a session that a new session replaces.
var errRenewed = errors.New("renewed")

// openSession opens the sink and the source at the run's position. Before anything is applied, it saves the position,
// first in the sink and then in the store. After a crash in between, the sink's position counts.
func openSession(ctx context.Context, r *run) (*session, error) {
	target, err := r.cfg.Sink.Open(ctx, r.cfg.Source.Name(), r.views)
	if err != nil {
		return nil, unproven(r.cfg.ofSink(err))
	}
	// Opening the sink may show that the sink lost a view's content, so the position must be set again.
	if err := r.reposition(ctx); err != nil {
		return nil, err
	}
	reader, err := r.source.Open(ctx, r.progress.positions(), replicator.TablesOf(r.views)...)
	if err != nil {
		return nil, fmt.Errorf("opening the source: %w", err)
	}
	if err := r.planner.definitions.check(ctx, r.views); err != nil {
		return nil, errors.Join(err, reader.Close())
	}
	s := newSession(r, reader, target)
	r.progress.moveTo(reader.Start())
	if err := s.saver.save(ctx); err != nil {
		return nil, errors.Join(unproven(err), reader.Close())
	}
	if err := s.filler.sweeper.begin(ctx); err != nil {
		return nil, errors.Join(unproven(err), reader.Close())
	}
	return s, nil
}

func newSession(r *run, reader replicator.Reader, target replicator.Target) *session {
	s := &session{group: r.group, began: time.Now(), reader: reader, target: target, reach: &reach{}}
	s.renewed, s.renew = context.WithCancel(context.Background())
	lanesDone, end := context.WithCancel(context.Background())
	s.end = end
	s.reach.committed.Store(reader.Start().Order)
	budget, window := newBudget(r.cfg.Memory, r.cfg.Lanes), &window{}
	s.lanes = &lanes{reach: s.reach}
	spellings := &spellings{group: r.group, reader: reader, budget: budget, lanes: s.lanes, lone: newLoneKeys()}
	s.intake = &intake{group: r.group, budget: budget, lanes: s.lanes, spellings: spellings, lanesDone: lanesDone}
	referring := &referring{group: r.group, reader: reader, intake: s.intake, budget: newBudget(r.cfg.Memory/8, 1)}
	s.tail = &tail{
		group: r.group, reader: reader, intake: s.intake, referring: referring, reach: s.reach, window: window,
	}
	sweeper := &sweeper{group: r.group, reader: reader, target: target, intake: s.intake}
	s.filler = &filler{
		group: r.group, reader: reader, intake: s.intake, reach: s.reach, window: window, sweeper: sweeper,
	}
	s.letters = &letters{group: r.group, reader: reader, target: target, intake: s.intake}
	s.saver = &saver{group: r.group, reader: reader, target: target, lanes: s.lanes, reach: s.reach,
		before: r.meter.total(), goesOn: r.goesOn, named: reader.File()}
	s.forgets = &forgetter{group: r.group, target: target, saver: s.saver}
	writer := &writer{
		spare: make(chan *opBatch, r.cfg.Lanes),
		group: r.group, reader: reader, target: target, budget: budget, letters: s.letters, lanes: s.lanes,
		saver: s.saver,
	}
	for range r.cfg.Lanes {
		s.lanes.shares = append(s.lanes.shares, newLane(budget, s.reach, writer.apply))
	}
	s.lanes.spellings = newLane(budget, s.reach, spellings.apply)
	s.lanes.referring = newLane(referring.budget, s.reach, referring.apply)
	referring.lane = s.lanes.referring
	return s
}

func (s *session) close() error { return s.reader.Close() }

// serve runs the session until stop is done (then it drains and returns errStopped), ctx is done (then it returns at
// once), or something fails. If the source fails, serve first applies and saves everything that was read: see Failure
// in the package's doc.
func (s *session) serve(ctx context.Context, stop context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	defer context.AfterFunc(s.renewed, func() { fail(errRenewed) })()
	intake, endIntake := context.WithCancelCause(ctx)
	defer endIntake(nil)
	defer context.AfterFunc(stop, func() { endIntake(errStopped) })()

	var feeders, finder, asker, lanes, saver sync.WaitGroup
	start := func(wg *sync.WaitGroup, do func() error) {
		wg.Go(func() {
			if err := do(); err != nil {
				fail(err)
			}
		})
	}
	feed := func(do func(ctx context.Context) error) {
		start(&feeders, func() error {
			if err := do(intake); intake.Err() == nil { // once `intake` is done, err only says that `do` was interrupted
				return err
			}
			return nil
		})
	}
	unread, unfed, drain, saved := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	feeders.Go(func() { endIntake(s.read(intake)) })
	feed(s.fill)
	feed(s.letters.compare)
	feed(s.forgets.run)
	start(&finder, func() error { return s.tail.referring.run(ctx, stop, unread) })
	start(&asker, func() error { return s.lanes.spellings.run(ctx, unfed) })
	for _, l := range s.lanes.shares {
		start(&lanes, func() error { return l.run(ctx, drain) })
	}
	start(&saver, func() error { return s.saver.run(ctx, intake, endIntake, saved) })

	feeders.Wait()
	// No more changes come in. The pending changes must be applied within the drain time.
	limit := s.cfg.Drain
	timer := time.AfterFunc(limit, func() {
		fail(fmt.Errorf("changes in flight were not applied within %s, and will be read again", limit))
	})
	// The order matters: `finder` gives `asker` keys to ask the source about, and both give the lanes changes to apply.
	close(unread)
	finder.Wait()
	close(unfed)
	asker.Wait()
	close(drain)
	lanes.Wait()
	s.end()
	timer.Stop()
	close(saved)
	saver.Wait()
	return s.finish(ctx, context.Cause(intake))
}

// finish saves what was applied, unless ctx is done. ended is why reading has ended. finish returns why the session has
// ended.
func (s *session) finish(ctx context.Context, ended error) error {
	err := context.Cause(ctx)
	if err == nil {
		err = s.saver.advance(ctx, saveNow)
	}
	if !errors.Is(ended, errStopped) { // reading failed: that error counts, whatever else failed
		return ended
	}
	if err != nil {
		return err
	}
	if err := s.refresh(ctx); err != nil {
		return err
	}
	return errStopped
}

func (s *session) read(ctx context.Context) error {
	err := s.reader.Read(ctx, s.tail)
	if err == nil {
		err = errors.New("the stream ended")
	}
	return fmt.Errorf("reading the source: %w", err)
}

func (s *session) fill(ctx context.Context) error {
	ended, err := s.filler.fill(ctx)
	if err != nil || !ended {
		return err
	}
	return s.saver.advance(ctx, saveNow)
}

// refresh makes everything that was applied visible to the target's readers.
func (s *session) refresh(ctx context.Context) error {
	r, ok := s.target.(replicator.Refresher)
	if !ok {
		return nil
	}
	if err := r.Refresh(ctx); err != nil {
		return s.cfg.ofSink(err)
	}
	return nil
}
