package pipeline

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"
)

// fresh says whether the target is fresh: before the fill, a search of the target found no cell of this source. since
// is when that search began. It is zero if the target is not fresh, or if the search was given up.
//
// A fresh target needs no sweep (see sweeper) after a fill from a Changelog. This session read the record of every row
// that the target shows. It also read the records that delete rows. isFresh checks that the log had not dropped any of
// these before (see Changelog.Remembers). If several logs fill the target, the sweep of each log would read everything
// in the target, and that whole log, and find nothing.
//
// A sweep is still needed after:
//   - a fill that an earlier session began, in any process: the target holds the rows that the session applied;
//   - a fill of a partition that another member of the group was filling before;
//   - a fill of views whose marks were lost, and every other repair.
type fresh struct{ since time.Time }

// freshPages limits the search for cells of this source, because reading the log waits for the search. If other sources
// have filled more pages of the target than freshPages, the target is swept after the fill.
const freshPages = 1000

// Starters are pipelines that begin at the same time and fill the same target. Each waits until the others have
// searched the target, too. Otherwise the searches of the others would page through what this pipeline applies.
type Starters struct {
	left atomic.Int64
	all  chan struct{}
}

// NewStarters returns the Starters of n pipelines.
func NewStarters(n int) *Starters {
	s := &Starters{all: make(chan struct{})}
	s.left.Store(int64(n))
	return s
}

// startersTime is how long a pipeline waits for the searches of the other starters. It is limited because another
// pipeline may fail to open its part of the source, and then never searches.
const startersTime = 2 * time.Second

// searched records that one of the pipelines has ended its search or needs no search.
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

// begin finds out whether the target is fresh. The session calls it before it reads or applies anything.
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

// search searches the target for cells of this source. If there are none, it sets fresh.since to the time when the
// search began.
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

// isFresh reports whether the fill leaves nothing to sweep. It is called once the fill has read the log to its end.
func (s *sweeper) isFresh(ctx context.Context) (bool, error) {
	if s.fresh.since.IsZero() {
		return false, nil
	}
	return s.cfg.changelog().Remembers(ctx, s.fresh.since)
}
