package pipeline

import (
	"context"
	"fmt"
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

// idleMark is how long a position that moved without a change for these views may stay unmarked, and how long a session
// that has nothing to do doesn't ask whether the sink still holds what was marked. A mark is itself an event in the
// binlog where the sink is on the source's own server: marking each second would never let it idle.
const idleMark = time.Minute

// keepSaving advances the checkpoint once an interval, until done is closed or ctx is done.
func (s *session) keepSaving(ctx context.Context, done <-chan struct{}) error {
	tick := time.NewTicker(s.run.pipeline.Interval)
	defer tick.Stop()
	for {
		asked := time.Now()
		latest, err := s.reader.Latest(ctx)
		if err != nil {
			return fmt.Errorf("asking the source for its position: %w", err)
		}
		if s.latest.Store(latest.Order); latest.Order <= s.committed.Load() {
			s.caughtUp.Store(asked.UnixNano())
		}
		s.asked.Store(asked.UnixNano())
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
		s.run.tick()
		if s.heard.Load() {
			s.run.goesOn()
		}
	}
}

// advance moves the run's applied position to the low water, and writes it down as urgency says. It is the only place
// that marks and saves positions.
func (s *session) advance(ctx context.Context, u urgency) error {
	s.advancing.Lock()
	defer s.advancing.Unlock()
	applied := s.run.totalApplied() // before low: what is counted is applied
	at := s.run.position()
	if low := s.low(); low > at.Order || u == saveNow || !s.proved && s.heard.Load() {
		// The place where reading began is told anew, too: what proves it later may be known only since it was read.
		at = s.reader.Position(max(low, at.Order))
		s.proved = true
		s.run.moveTo(at)
	}
	moved := at != s.marked
	idle := applied == s.markedRun && !s.run.progressed()
	switch {
	case u == saveNothing, u == saveNow && !moved && idle:
		return nil
	case u == saveDue && idle && (!moved || !s.run.filling()) && time.Since(s.markedAt) < idleMark:
		if !s.run.pipeline.SavesIdle || at == s.saved {
			return nil
		}
		return s.saveAhead(ctx, at)
	case !moved && idle:
		_, err := s.mark(ctx) // once more: while the source is idle nothing else tells whether the sink still holds what was marked
		return err
	}
	s.markedRun = applied
	return s.save(ctx)
}

// save marks in the sink how far the views have come, then saves that in the store.
func (s *session) save(ctx context.Context) error {
	now, err := s.mark(ctx)
	if err != nil {
		return err
	}
	return s.saveCheckpoints(ctx, s.run.marked(now), now.Position)
}

// mark marks in the sink how far the views have come.
func (s *session) mark(ctx context.Context) (replicator.Standing, error) {
	now := s.run.standing()
	if err := s.target.Mark(ctx, now); err != nil {
		return now, fmt.Errorf("sink %s: marking the position: %w", s.run.pipeline.Name, err)
	}
	s.marked, s.markedAt = now.Position, time.Now()
	return now, nil
}

// saveAhead saves a position that is not marked: nothing was applied up to there since the last mark. After a restart
// the mark counts.
func (s *session) saveAhead(ctx context.Context, at replicator.Position) error {
	checkpoints := s.run.stood()
	for i := range checkpoints {
		checkpoints[i].Position = at
	}
	return s.saveCheckpoints(ctx, checkpoints, at)
}

func (s *session) saveCheckpoints(ctx context.Context, checkpoints []replicator.Checkpoint, at replicator.Position) error {
	if err := s.run.pipeline.Store.Save(ctx, checkpoints); err != nil {
		return fmt.Errorf("saving the checkpoint: %w", err)
	}
	s.saved = at
	s.run.savedAt.Store(time.Now().UnixNano())
	return nil
}
