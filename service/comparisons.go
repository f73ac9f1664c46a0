package service

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"replicator/config"
	"replicator/verify"
)

// comparisons compares views with a table that was renamed into a watched one's place, and repairs what differs, while
// they go on. What is still to be compared stands in the checkpoints: a restart goes on with it.
type comparisons struct {
	service *Service
	open    map[comparison]*comparing
}

// comparison is one view of one source, since the place where the table was replaced.
type comparison struct {
	line int // of the service's
	view string
	at   int64
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
		for i, l := range c.service.lines {
			for name, at := range l.Swapped() {
				c.compare(ctx, comparison{i, name, at})
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
	if time.Now().Before(at.retryAt) {
		return
	}
	l, cfg := c.service.lines[one.line], c.service.Config
	w := watch{Service: c.service, line: l, view: cfg.View(one.view),
		settings: config.Verify{Sample: 1, Rate: cfg.Rebuild.Rate, Repair: true}}
	result, err := w.verify(ctx, &at.place)
	log := c.service.Log.With("view", one.view, "source", l.source.Name())
	switch {
	case ctx.Err() != nil, errors.Is(err, verify.ErrNotNow):
	case err != nil:
		at.retryAt = time.Now().Add(compareAgain)
		log.Error("comparing a view with the table that took another's place failed and will be retried",
			"retry_in", compareAgain, "error", err)
	default:
		l.Compared(one.view, one.at)
		delete(c.open, one)
		level := slog.LevelInfo
		if result.Missing+result.Stale+result.Extra > 0 {
			level = slog.LevelWarn
		}
		log.Log(ctx, level, "a view was compared with the table that took another's place", "checked", result.Checked,
			"missing", result.Missing, "stale", result.Stale, "extra", result.Extra, "repaired", result.Repaired)
	}
}

// compareAgain is how long it takes until a comparison that failed is tried again.
const compareAgain = 10 * time.Second

// compared waits until no view is left to be compared with a table that took another's place.
func (s *Service) compared(ctx context.Context) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for _, l := range s.lines {
		for len(l.Swapped()) > 0 {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return errors.New("stopped before every view was compared with the table that took another's place")
			}
		}
	}
	return nil
}
