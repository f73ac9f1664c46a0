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

// comparisons compares running views with their source and repairs the differences. A comparison is needed when rows
// changed in a way that the log didn't describe. Pending comparisons are saved in the checkpoints, so a restart
// continues with them.
type comparisons struct {
	lines  []line
	log    *slog.Logger
	verify compareView
	views  map[compared]*comparing
	next   map[int]time.Time // by index in lines: time before which the line's views are not compared again
}

// compareView compares a view with its source and repairs the differences. It begins at the place in `from`, and stores
// there the place where it stops.
type compareView func(ctx context.Context, l line, view string, from *verify.Place) (verify.Result, error)

func newComparisons(lines []line, log *slog.Logger, verify compareView) *comparisons {
	return &comparisons{
		lines: lines, log: log, verify: verify, views: map[compared]*comparing{}, next: map[int]time.Time{},
	}
}

// comparisons returns the loop that compares views with their source when rows have changed that the log doesn't
// describe. It reads at most at the `rate` of [rebuild].
func (s *Service) comparisons() *comparisons {
	return newComparisons(s.lines.all(), s.Log,
		func(ctx context.Context, l line, view string, from *verify.Place) (verify.Result, error) {
			result, err := liveRepair{Service: s, line: l, view: s.Config.View(view)}.run(ctx, from)
			if err == nil {
				err = s.lookAtLetters(ctx, l, view)
			}
			return result, err
		})
}

// lookAtLetters makes a pipeline re-read the cells that have dead letters in a view. A comparison skips these cells,
// but their rows may have changed, too.
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

type compared struct {
	line int // an index into comparisons.lines
	view string
}

type comparing struct {
	at      int64
	place   verify.Place
	retryAt time.Time
}

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
			c.round(ctx, i, l)
		}
	}
}

// round compares each view of the pipeline l that has a pending comparison. Then l's comparisons pause for as long as
// the round took, so that they burden the source at most half of the time.
func (c *comparisons) round(ctx context.Context, line int, l line) {
	began := time.Now()
	if began.Before(c.next[line]) {
		return
	}
	for _, view := range slices.Sorted(maps.Keys(l.Swapped())) {
		at, due := l.Swapped()[view] // the view may no longer be due, because comparing the previous views took time
		if one := c.progressOf(compared{line, view}, at); due && !time.Now().Before(one.retryAt) && ctx.Err() == nil {
			c.compare(ctx, l, view, one)
		}
	}
	c.next[line] = time.Now().Add(time.Since(began))
}

// progressOf returns the progress of a view's comparison. `at` is the log position of the change that made the
// comparison necessary. If `at` differs from that of the last call, the comparison starts from the beginning.
func (c *comparisons) progressOf(view compared, at int64) *comparing {
	one := c.views[view]
	if one == nil {
		one = &comparing{}
		c.views[view] = one
	}
	if one.at != at {
		one.at, one.place = at, verify.Place{}
	}
	return one
}

func (c *comparisons) compare(ctx context.Context, l line, view string, one *comparing) {
	result, err := c.verify(ctx, l, view, &one.place)
	log := c.log.With("view", view, "source", l.source.Name())
	switch {
	case ctx.Err() != nil, errors.Is(err, verify.ErrNotNow):
	case err != nil:
		one.retryAt = time.Now().Add(compareAgain)
		log.Error("the running process could not compare a view with its source, and will retry",
			"retry_in", compareAgain, "error", err)
	default:
		l.Compared(view, one.at)
		one.place = verify.Place{} // drop the old resume point, because it may use much memory
		level := slog.LevelInfo
		if result.Missing+result.Stale+result.Extra > 0 {
			level = slog.LevelWarn
		}
		log.Log(ctx, level, "a view was compared with its source", "checked", result.Checked,
			"missing", result.Missing, "stale", result.Stale, "extra", result.Extra, "repaired", result.Repaired)
	}
}

// compareAgain is the delay before a failed comparison is retried.
const compareAgain = 10 * time.Second

// compared waits until none of the named views has a pending comparison with its source. Without names, it waits for
// all views.
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
