package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"replicator"
	"replicator/server"
	"replicator/verify"
)

// comparisons compares views with their source where rows changed and the log didn't say which, and repairs what differs,
// while they go on. What is still to be compared is in the checkpoints: a restart goes on with it.
type comparisons struct {
	lines  []line
	log    *slog.Logger
	verify func(ctx context.Context, l line, view string, at *verify.Place) (verify.Result, error)
	open   map[comparison]*comparing
	next   map[compared]time.Time // when a view may be compared again
}

// comparisons are those of the service's views. They keep to the rate of a rebuild.
func (s *Service) comparisons() *comparisons {
	return &comparisons{
		lines: s.lines.all(), log: s.Log, open: map[comparison]*comparing{}, next: map[compared]time.Time{},
		verify: func(ctx context.Context, l line, view string, at *verify.Place) (verify.Result, error) {
			result, err := liveRepair{Service: s, line: l, view: s.Config.View(view)}.run(ctx, at)
			if err == nil {
				err = s.lookAtLetters(ctx, l, view)
			}
			return result, err
		},
	}
}

// lookAtLetters has a pipeline look at the cells that a view has dead letters of: their rows may be among those that
// changed, and a comparison tries no cell again that has a letter.
func (s *Service) lookAtLetters(ctx context.Context, l line, view string) error {
	var cells []replicator.Cell
	err := selected(ctx, s.store, server.Selection{View: view}, func(letter replicator.DeadLetter) {
		if letter.Source == l.source.Name() {
			cells = append(cells, letter.Cell)
		}
	})
	if err != nil || len(cells) == 0 {
		return err
	}
	return l.lookAt(ctx, view, cells)
}

// compared is one view of one source.
type compared struct {
	line int // its place among the lines
	view string
}

// comparison is of a view, for what happened at a place.
type comparison struct {
	compared
	at int64
}

// comparing is how far a comparison has come.
type comparing struct {
	place   verify.Place
	retryAt time.Time
}

// run compares what becomes due until ctx is done.
func (c *comparisons) run(ctx context.Context) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		for i, l := range c.lines {
			for name, at := range l.Swapped() {
				c.compare(ctx, comparison{compared{i, name}, at})
			}
		}
	}
}

// compare compares one view, unless it failed a moment ago.
func (c *comparisons) compare(ctx context.Context, one comparison) {
	at := c.open[one]
	if at == nil {
		at = &comparing{}
		c.open[one] = at
	}
	began := time.Now()
	if began.Before(at.retryAt) || began.Before(c.next[one.compared]) {
		return
	}
	l := c.lines[one.line]
	result, err := c.verify(ctx, l, one.view, &at.place)
	log := c.log.With("view", one.view, "source", l.source.Name())
	switch {
	case ctx.Err() != nil, errors.Is(err, verify.ErrNotNow):
	case err != nil:
		at.retryAt = time.Now().Add(compareAgain)
		log.Error("comparing a view with its source failed and will be retried",
			"retry_in", compareAgain, "error", err)
	default:
		l.Compared(one.view, one.at)
		maps.DeleteFunc(c.open, func(other comparison, _ *comparing) bool { return other.compared == one.compared })
		// A server that goes on logging statements makes the next one due at once: it is not compared more than half of the
		// time.
		c.next[one.compared] = time.Now().Add(time.Since(began))
		level := slog.LevelInfo
		if result.Missing+result.Stale+result.Extra > 0 {
			level = slog.LevelWarn
		}
		log.Log(ctx, level, "a view was compared with its source", "checked", result.Checked,
			"missing", result.Missing, "stale", result.Stale, "extra", result.Extra, "repaired", result.Repaired)
	}
}

// compareAgain is how long it takes until a comparison that failed is tried again.
const compareAgain = 10 * time.Second

// compared waits until none of the views (all, if none is named) is left to be compared with its source.
func (l line) compared(ctx context.Context, views []string) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		left := slices.Collect(maps.Keys(l.Swapped()))
		if len(views) > 0 {
			left = slices.DeleteFunc(left, func(name string) bool { return !slices.Contains(views, name) })
		}
		if len(left) == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("view %s is still being compared with its source: %w", slices.Min(left), ctx.Err())
		}
	}
}
