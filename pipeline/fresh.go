package pipeline

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"
)

// fresh has the time at which a complete search, before the fill, found nothing of this source in the target. Zero:
// there was no such search, or it found something. After a fill from a Changelog, a target that was empty needs no
// sweep, because the session has read every record that the target shows.
type fresh struct{ since time.Time }

// freshPages is how many pages of the target are searched for cells of this source before the log is read. If the
// target has more pages, it does not count as empty, and the sweep after the fill examines all of its cells.
const freshPages = 1000

// Starters lets pipelines that fill the same target begin together. Each searches the target for old contents, and
// begins when all have searched. Otherwise they would search what the others have filled.
type Starters struct {
	left atomic.Int64
	all  chan struct{}
}

// NewStarters lets n pipelines begin together (see Starters), because they fill the same target.
func NewStarters(n int) *Starters {
	s := &Starters{all: make(chan struct{})}
	s.left.Store(int64(n))
	return s
}

// startersTime is the longest time that a pipeline waits until the other pipelines have searched the target. It is
// limited because another pipeline may fail to open its part of the source, and then never searches.
const startersTime = 2 * time.Second

func (s *Starters) searched() {
	if s != nil && s.left.Add(-1) == 0 {
		close(s.all)
	}
}

func (s *Starters) wait(ctx context.Context) {
	if s == nil {
		return
	}
	select {
	case <-s.all:
	case <-time.After(startersTime):
	case <-ctx.Done():
	}
}

// begin finds out whether the target contains nothing of this source yet. The session calls it before it reads or
// applies anything.
func (s *sweeper) begin(ctx context.Context) error {
	at := s.progress.current()
	if s.group.searched {
		return nil
	}
	s.group.searched = true
	if s.cfg.changelog() == nil || !at.Filling() || at.Repair {
		s.cfg.Starters.searched()
		return nil
	}
	err := s.search(ctx)
	s.cfg.Starters.searched()
	s.cfg.Starters.wait(ctx)
	return err
}

func (s *sweeper) search(ctx context.Context) error {
	began, after := time.Now(), ""
	for range freshPages {
		cells, next, err := s.target.Outdated(ctx, math.MaxInt64, after, sweptAtOnce)
		if err != nil {
			return fmt.Errorf("searching the sink for cells from before the fill: %w", err)
		}
		if len(cells) > 0 {
			return nil
		}
		if after = next; after == "" {
			s.fresh.since = began
			return nil
		}
	}
	return nil
}

// isFresh reports whether the target needs no sweep: it had no cell of this source before the fill, and the log still
// has every delete since then. It is called once the fill has read the log to its end.
func (s *sweeper) isFresh(ctx context.Context) (bool, error) {
	if s.fresh.since.IsZero() {
		return false, nil
	}
	return s.cfg.changelog().Remembers(ctx, s.fresh.since)
}
