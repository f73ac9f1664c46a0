package pipeline

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"replicator"
)

// urgency says whether a call of advance only moves the position in memory, or also saves it.
type urgency int

const (
	saveNothing urgency = iota // move the position in memory only
	saveDue                    // once an interval: save if there is anything new, or if the last save is old
	saveNow                    // save even if only the position has moved, and no change was applied
)

// idleMark is the longest time between two saves of the position in the sink while the log has no changes for these
// views. If the sink is on the source's own server, each save is an event in the binlog, and so a reason for the next
// save.
const idleMark = time.Minute

// followedMark replaces idleMark if other programs read the positions in the sink: readers of a changelog, or the other
// members of a Kafka group.
const followedMark = 5 * time.Second

// idleAsk is how often an idle session checks that the sink answers, so that the lag shows an outage even if there is
// nothing to write. The check calls Target.Mark with the progress that the sink already has, so nothing is written.
const idleAsk = 5 * time.Second

// idleSave is the longest time between two saves of the checkpoints while nothing moves.
const idleSave = 10 * time.Second

// saver advances and saves the position that a session has applied. Its mutex admits one caller at a time, because the
// log positions passed to Reader.Position must never decrease.
type saver struct {
	*group
	reader replicator.Reader
	target replicator.Target
	lanes  *lanes
	reach  *reach
	before int64  // number of changes that the run applied before this session
	goesOn func() // called each interval in which the session makes progress

	mu        sync.Mutex
	proved    bool                // the position was asked for again after the log's first events: see advance
	marked    replicator.Standing // the progress that this session last saved in the sink
	markedAt  time.Time
	askedAt   time.Time // when the sink was last asked whether it still has the progress in `marked`
	saved     replicator.Position
	savedAt   time.Time
	markedRun int64 // number of changes that the run applied before the last save in the sink

	naming sync.Mutex
	named  int64 // number of the latest log file that a saved position names
}

// run saves the progress once an interval, until done is closed or ctx is done. Until intake is done, it also asks the
// source where its log ends. If the source does not answer, run ends intake, and so the reading.
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
			endIntake(fmt.Errorf("asking the source for its position: %w", err)) // no effect if intake has ended
		}
		select {
		case <-tick.C:
		case <-done:
			return nil
		case <-ctx.Done():
			return nil // another goroutine failed
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

// serves reports whether the session does its work: it has heard from the source, and if there is anything to apply,
// some of it was applied. A sink may open without errors and still let every write time out.
func (s *saver) serves() bool {
	return s.reach.heard.Load() && (s.meter.total() > s.before || s.lanes.since().IsZero())
}

// advance moves the run's position to the point up to which everything is applied. Depending on the
// urgency, it also saves the position, first in the sink and then in the store.
func (s *saver) advance(ctx context.Context, u urgency) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	applied := s.meter.total() // count first: everything that is counted here is below the position that low returns
	at := s.progress.current().Position
	heard := s.reach.heard.Load()
	if low := s.lanes.low(); low > at.Order || u == saveNow || heard && !s.proved {
		// At the next start, the saved position must show whether the log is still the same. The reader may learn what
		// shows that (such as GTIDs) only from the log's first events. So ask it for the position again after these.
		at = s.reader.Position(max(low, at.Order))
		s.proved = heard
		s.progress.moveTo(at)
	}
	moved := at != s.marked.Position
	idle := applied == s.markedRun && !s.progress.filledMore() && !s.notes.changed()
	if !moved && idle { // nothing is left to save: a failed save would have ended this session
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

// nameFile saves a position that has the number of the source's latest log file, before rows from that file are
// applied. If the source is then restored from a backup, it will write another file of that number. A later start can
// tell the two files apart.
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

// saveIdle saves the checkpoints again if they were not saved for a while (after). A checkpoint also records the time
// up to which its view shows all commits. That time advances even if nothing else does.
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

// save saves the views' progress first in the sink and then in the store.
func (s *saver) save(ctx context.Context) error {
	now, err := s.mark(ctx)
	if err != nil {
		return err
	}
	return s.saveCheckpoints(ctx, s.progress.mark(now, s.notes), now.Position)
}

func (s *saver) mark(ctx context.Context) (replicator.Standing, error) {
	now := s.progress.toMark()
	now.Swapped = s.notes.lastDoubt()
	if err := s.target.Mark(ctx, now); err != nil {
		return now, fmt.Errorf("sink %s: marking the position: %w", s.cfg.Name, err)
	}
	s.register(now.Position)
	s.marked, s.markedAt, s.askedAt = now, time.Now(), time.Now()
	s.lookForEvictions()
	s.lookForCompany()
	return now, nil
}

func (s *saver) lastMarked() replicator.Standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.marked
}

// lookForEvictions has the views compared with the source if the sink's server has evicted keys. The views' positions
// in the sink don't show such a loss.
func (s *saver) lookForEvictions() {
	evicter, ok := s.target.(replicator.Evicter)
	if !ok {
		return
	}
	if n := evicter.Evicted(); n > 0 {
		s.notes.setEvicted(s.views, s.progress.current().Position.Order)
		s.shown.evict(s.views, n)
		s.cfg.Log.Warn("keys of the sink are gone: its server evicted them, or another program changed them. "+
			"The views are compared with the source",
			"sink", s.cfg.Name, "source", s.cfg.Source.Name(), "evicted_keys", n, "views", s.views.names(),
			"fix", "give the server more memory, and set maxmemory-policy to noeviction. No other program may write "+
				"to keys that begin with replicator:")
	}
}

// ask checks that the sink answers and still has the position that was last saved there. While nothing is written, no
// other call would notice a failure.
func (s *saver) ask(ctx context.Context) error {
	if time.Since(s.askedAt) < idleAsk {
		return nil
	}
	s.askedAt = time.Now()
	if err := s.target.Mark(ctx, s.marked); err != nil {
		return fmt.Errorf("sink %s: checking that the sink still has all changes up to its mark: %w", s.cfg.Name, err)
	}
	s.lookForEvictions()
	s.lookForCompany()
	return nil
}

// saveAhead saves a position in the store, but not in the sink. This is safe, because nothing was applied since the
// position that the sink has, and a restart continues from that one.
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
