package pipeline

import (
	"context"
	"fmt"
	"math"
	"time"
)

// fresh is the time before which the target knew no cell of this source. It is zero if the target knew some, or if that
// was not found out.
//
// A fresh target needs no sweep after a fill from a Changelog. Every row that it shows was in a record that this
// session read. This session also read the record that takes the row away, unless the log had dropped that record by
// then: Changelog.Remembers tells. A sweep would read all that the target holds and the whole log, for each of the logs
// that fill it, and find nothing.
//
// These are swept:
//   - A fill that an earlier session began, in this process or in another one: the target holds what that applied.
//   - A partition that comes from another member while it is being filled.
//   - A fill of views whose marks were lost, and every other repair.
type fresh struct{ since time.Time }

// freshPages bounds the search for cells of this source: reading the log waits for it. A target that other sources have
// filled with more than that is swept after the fill.
const freshPages = 1000

// begin finds out whether the target is fresh. The session calls it before it reads or applies anything.
func (s *sweeper) begin(ctx context.Context) error {
	at := s.progress.current()
	again := s.searched
	s.searched = true
	if s.cfg.changelog() == nil || !at.Filling() || at.Repair || again {
		return nil
	}
	began, after := time.Now(), ""
	for range freshPages {
		cells, next, err := s.target.Outdated(ctx, math.MaxInt64, after, sweptAtOnce)
		if err != nil {
			return fmt.Errorf("looking for cells that the sink knows before the fill: %w", err)
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
