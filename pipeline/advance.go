package pipeline

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"replicator"
)

// urgency says which moves of the position are written down.
type urgency int

const (
	saveNothing urgency = iota // move the position in memory: somebody waits for it
	saveDue                    // once an interval: mark and save, if it is worth it
	saveNow                    // a stop: mark and save whatever moved
)

// idleMark is how long a position that moved without a change for these views may stay unmarked. A mark is itself an
// event in the binlog where the sink is on the source's own server: marking each second would never let it idle.
const idleMark = time.Minute

// followedMark is the same where others wait for the mark. How far the source is, readers of a changelog know from its
// marks alone; and how far a partition is, other members know from the sink's mark alone.
const followedMark = 5 * time.Second

// idleAsk is how long a session that has nothing to do doesn't ask whether the sink answers: an outage has to show in
// the lag, also while nothing is written. To ask is to mark once more what is marked, which writes nothing.
const idleAsk = 5 * time.Second

// idleSave is how old what the store knows of a session's views may be while nothing moves.
const idleSave = 10 * time.Second

// saver moves the position that a session has applied, and writes it down. Its mutex lets one caller at a time do that:
// Reader.Position wants orders that never fall.
type saver struct {
	*group
	reader replicator.Reader
	target replicator.Target
	lanes  *lanes
	reach  *reach
	before int64  // changes applied before the session
	goesOn func() // told each interval that the session does what it is there for

	mu        sync.Mutex
	proved    bool                // the place where reading began was asked for since it was read
	marked    replicator.Standing // what this session marked last in the sink
	markedAt  time.Time
	askedAt   time.Time // when the sink was asked last whether it holds that
	saved     replicator.Position
	savedAt   time.Time
	markedRun int64 // changes applied when it was marked

	naming sync.Mutex
	named  int64 // the latest file of the source's log that a saved position names
}

// run advances the checkpoint once an interval, until done is closed or ctx is done. Until intake is done it asks the
// source where its log ends; where that fails, nothing more comes in.
func (s *saver) run(ctx, intake context.Context, endIntake context.CancelCauseFunc, done <-chan struct{}) error {
	interval := s.cfg.Interval
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		if next := s.pace(); next != interval {
			interval = next
			tick.Reset(interval)
		}
		asked := time.Now()
		if latest, err := s.reader.Latest(intake); err == nil {
			s.reach.end(latest, asked)
		} else {
			endIntake(fmt.Errorf("asking the source for its position: %w", err)) // once it has ended this does nothing
		}
		select {
		case <-tick.C:
		case <-done:
			return nil
		case <-ctx.Done():
			return nil // the cause is somebody else's
		}
		if err := s.advance(ctx, saveDue); err != nil {
			return err
		}
		s.meter.tick()
		if s.serves() {
			s.goesOn()
		}
	}
}

// serves reports whether the session does what it is there for: the source was heard, and of what it tells something is
// applied, if anything is to be. A sink that can be opened may still let every write wait until its time is up.
func (s *saver) serves() bool {
	return s.reach.heard.Load() && (s.meter.total() > s.before || s.lanes.since().IsZero())
}

// advance moves the run's applied position to the low water, and writes it down as urgency says. It is the only place
// that marks and saves positions.
func (s *saver) advance(ctx context.Context, u urgency) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	applied := s.meter.total() // before low: what is counted is applied
	at := s.progress.current().Position
	if low := s.lanes.low(); low > at.Order || u == saveNow || !s.proved && s.reach.heard.Load() {
		// The place where reading began is told anew, too: what proves it later may be known only since it was read.
		at = s.reader.Position(max(low, at.Order))
		s.proved = true
		s.progress.moveTo(at)
	}
	moved := at != s.marked.Position
	idle := applied == s.markedRun && !s.progress.filledMore() && !s.notes.changed()
	if !moved && idle { // what was marked was saved, or this session would have ended
		s.shown.allSaved(s.views)
	}
	switch {
	case u == saveNothing:
		return nil
	case u == saveNow && !moved && idle:
		return s.saveIdle(ctx, at, s.cfg.Interval)
	case u == saveDue && idle && (!moved || !s.progress.current().Filling()) && time.Since(s.markedAt) < s.idleMark():
		if err := s.ask(ctx); err != nil || !s.cfg.SavesIdle || at == s.saved {
			return err
		}
		return s.saveAhead(ctx, at)
	case !moved && idle:
		if err := s.ask(ctx); err != nil {
			return err
		}
		return s.saveIdle(ctx, at, idleSave)
	}
	s.markedRun = applied
	return s.save(ctx)
}

// nameFile saves a position that names the latest file of the log that rows are of which are about to be applied. If the
// program is killed and the source is set back to an older state, the next session finds another file of that name.
// Without this, it would take what the source wrote since for the rest of the log that was applied.
func (s *saver) nameFile(ctx context.Context) error {
	s.naming.Lock()
	defer s.naming.Unlock()
	file := s.reader.File()
	if file <= s.named {
		return nil
	}
	if err := s.advance(ctx, saveNow); err != nil {
		return err
	}
	s.named = file
	return nil
}

// saveIdle saves once more what is saved, if that is older than a time: up to when the views showed everything moves on
// while nothing else does.
func (s *saver) saveIdle(ctx context.Context, at replicator.Position, after time.Duration) error {
	if time.Since(s.savedAt) < after {
		return nil
	}
	return s.saveAhead(ctx, at)
}

func (s *saver) idleMark() time.Duration {
	published := func(v *replicator.View) bool { return v.Kind == "changelog" }
	if s.cfg.changelog() != nil || slices.ContainsFunc(s.views, published) {
		return followedMark
	}
	return idleMark
}

// save marks in the sink how far the views have come, then saves that in the store.
func (s *saver) save(ctx context.Context) error {
	now, err := s.mark(ctx)
	if err != nil {
		return err
	}
	return s.saveCheckpoints(ctx, s.progress.mark(now, s.notes), now.Position)
}

// mark marks in the sink how far the views have come.
func (s *saver) mark(ctx context.Context) (replicator.Standing, error) {
	now := s.progress.toMark()
	now.Swapped = s.notes.lastSwap()
	if err := s.target.Mark(ctx, now); err != nil {
		return now, fmt.Errorf("sink %s: marking the position: %w", s.cfg.Name, err)
	}
	s.register(now.Position)
	s.marked, s.markedAt, s.askedAt = now, time.Now(), time.Now()
	s.lookForEvictions()
	s.lookForCompany()
	return now, nil
}

// lastMarked is what this session marked last.
func (s *saver) lastMarked() replicator.Standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.marked
}

// lookForEvictions has views compared with the source whose sink dropped keys: nothing else tells what is missing there.
// That is noted in the next mark, in which the sink remembers that it told of them.
func (s *saver) lookForEvictions() {
	evicter, ok := s.target.(replicator.Evicter)
	if !ok {
		return
	}
	if n := evicter.Evicted(); n > 0 {
		s.notes.setEvicted(s.views, s.progress.current().Position.Order)
		s.shown.evict(s.views, n)
		s.cfg.Log.Warn("keys of the sink are gone, as its server evicts them or somebody wrote to them: comparing the views "+
			"with the source",
			"sink", s.cfg.Name, "source", s.cfg.Source.Name(), "evicted_keys", n, "views", s.views.names(),
			"fix", "give the server more memory, and set maxmemory-policy to noeviction; write to no key that begins with "+
				"replicator:")
	}
}

// ask asks the sink whether it answers and still holds what was marked: while nothing is written nothing else tells.
func (s *saver) ask(ctx context.Context) error {
	if time.Since(s.askedAt) < idleAsk {
		return nil
	}
	s.askedAt = time.Now()
	if err := s.target.Mark(ctx, s.marked); err != nil {
		return fmt.Errorf("sink %s: asking whether it holds what was marked: %w", s.cfg.Name, err)
	}
	s.lookForEvictions()
	s.lookForCompany()
	return nil
}

// saveAhead saves a position that is not marked: nothing was applied up to there since the last mark. After a restart
// the mark counts.
func (s *saver) saveAhead(ctx context.Context, at replicator.Position) error {
	checkpoints := s.progress.checkpoints()
	for i := range checkpoints {
		checkpoints[i].Position = at
	}
	return s.saveCheckpoints(ctx, checkpoints, at)
}

func (s *saver) saveCheckpoints(
	ctx context.Context, checkpoints []replicator.Checkpoint, at replicator.Position,
) error {
	shown, _, known := s.reach.shown(s.lanes.since)
	s.shown.stamp(checkpoints, shown, known)
	if err := s.cfg.Store.Save(ctx, checkpoints); err != nil {
		return fmt.Errorf("saving the checkpoint: %w", err)
	}
	s.saved, s.savedAt = at, time.Now()
	s.shown.allSaved(s.views)
	return nil
}
