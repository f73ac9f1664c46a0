package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// pollEvery is how often a reader polls a sink without notifications. It is short enough to be a small part of the
	// figures, and long enough not to load the server.
	pollEvery = 500 * time.Microsecond

	timeout = 10 * time.Minute // how long to wait for a step that normally takes moments

	writers = 4 // connections; several, because a commit sometimes takes longer than a millisecond
)

// live is a writer of rows, and readers that note when each row is visible in a sink. The rows' emails sort in writing
// order, so that a reader finds the newer rows by a range.
type live struct {
	cells    *workload
	database string // the source's database
	rate     int
	warm     int // how many of the first rows don't count: they warm the servers up
	begin    time.Time
	next     atomic.Int64    // the number of the last row that was written, or is being written
	commits  []time.Duration // when each row's commit returned, as time since begin; the index is the row's number
	sights   []*sight
	finished time.Duration // when the last commit returned, as time since begin

	put   func(ctx context.Context, conn *sql.Conn, n int) error // commits the nth row
	ready func(ctx context.Context) error                        // called when the first row has been seen; may be nil
}

// sight is what a reader has seen of the rows in one sink.
type sight struct {
	name  string
	watch watcher
	seen  []time.Duration // when each row was seen, as time since begin; 0: not seen yet
	first chan struct{}   // closed when the first row was seen
	all   chan struct{}   // closed when all rows were seen
}

// watcher reads a sink until all rows have been seen. It prepares a function `look`, passes it to `poll`, and returns
// when `poll` does. `poll` calls `look` until all rows have been seen, with the number of the oldest row that has not
// been seen. Each call waits until it is time to read, reads the sink once, and records the rows that the sink shows.
type watcher func(ctx context.Context, s *sight, poll func(look func(oldest int) error) error) error

func newLive(o options, database string) *live {
	warm := o.rate // the rows of the first second, which warm the servers up
	n := warm + o.rate*o.seconds
	v := &live{
		cells: &workload{
			entities: min(o.entities, n), body: o.body, begin: time.Now().UnixNano(), order: round,
		},
		database: database,
		rate:     o.rate,
		warm:     warm,
		commits:  make([]time.Duration, n),
	}
	v.put = func(ctx context.Context, conn *sql.Conn, n int) error {
		return v.cells.insert(ctx, conn, v.database, n, n+1)
	}
	return v
}

// addReader adds a reader of one sink. The method `run` starts it, and waits until the reader has seen all rows.
func (v *live) addReader(name string, watch watcher) {
	v.sights = append(v.sights, &sight{
		name: name, watch: watch, seen: make([]time.Duration, v.total()),
		first: make(chan struct{}), all: make(chan struct{}),
	})
}

func (v *live) now() time.Duration { return time.Since(v.begin) }

// issued returns how many rows were written or are being written.
func (v *live) issued() int { return min(int(v.next.Load())+1, v.total()) }

func (v *live) total() int { return len(v.commits) }

// run writes every row, and returns when all have been seen in every sink. It writes the first row alone: once every
// sink shows it, the program is ready for the others. If the program ends early, run returns an error.
func (v *live) run(ctx context.Context, source *sql.DB, p *program) error {
	ctx, cancel := context.WithCancelCause(ctx)
	v.begin = time.Now()
	var wg sync.WaitGroup
	for _, s := range v.sights {
		wg.Go(func() {
			err := s.watch(ctx, s, func(look func(oldest int) error) error { return v.poll(ctx, s, look) })
			if err != nil {
				cancel(err)
			}
		})
	}
	wg.Go(func() {
		select {
		case <-p.Done():
			cancel(errors.Join(errors.New("the program ended before it was asked to"), p.Wait()))
		case <-ctx.Done():
		}
	})
	err := connected(ctx, source, func(conn *sql.Conn) error { return v.write(ctx, conn, 0) })
	for _, s := range v.sights {
		if err == nil {
			err = await(ctx, s.first, "the first cell")
		}
	}
	if err == nil && v.ready != nil {
		err = v.ready(ctx)
	}
	if err == nil {
		err = v.writeAll(ctx, source)
	}
	for _, s := range v.sights {
		if err == nil {
			err = await(ctx, s.all, "the last cells")
		}
	}
	cause := context.Cause(ctx)
	cancel(nil)
	wg.Wait()
	if err != nil && cause != nil {
		return cause
	}
	return err
}

func await(ctx context.Context, seen <-chan struct{}, what string) error {
	select {
	case <-seen:
		return nil
	case <-time.After(timeout):
		return fmt.Errorf("%s did not become visible in the sink within %v", what, timeout)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// writeAll writes all rows but the first at a steady rate. Each row has a scheduled time, which does not change if
// earlier rows are late.
func (v *live) writeAll(ctx context.Context, db *sql.DB) error {
	errs := make([]error, writers)
	begin := time.Now()
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			errs[i] = connected(ctx, db, func(conn *sql.Conn) error {
				for {
					n := int(v.next.Add(1))
					if n >= v.total() {
						return nil
					}
					if err := sleepUntil(ctx, begin.Add(time.Duration(n)*time.Second/time.Duration(v.rate))); err != nil {
						return err
					}
					if err := v.write(ctx, conn, n); err != nil {
						return err
					}
				}
			})
		})
	}
	wg.Wait()
	v.finished = time.Since(v.begin)
	return errors.Join(errs...)
}

func sleepUntil(ctx context.Context, at time.Time) error {
	for ctx.Err() == nil {
		d := time.Until(at)
		if d <= 0 {
			return nil
		}
		nap(d)
	}
	return context.Cause(ctx)
}

// write commits one row and notes when the commit returned.
func (v *live) write(ctx context.Context, conn *sql.Conn, n int) error {
	err := v.put(ctx, conn, n)
	v.commits[n] = time.Since(v.begin)
	return err
}

// poll calls `look`, which reads a sink once, until all rows have been seen in the sink.
func (v *live) poll(ctx context.Context, s *sight, look func(oldest int) error) error {
	for oldest := 0; ; {
		if err := look(oldest); err != nil {
			return err
		}
		if oldest == 0 && s.seen[0] != 0 {
			close(s.first)
		}
		for oldest < v.total() && s.seen[oldest] != 0 {
			oldest++
		}
		if oldest == v.total() {
			close(s.all)
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// note records that a sink showed an email. The user's older rows count as seen, too: they were visible earlier, or
// the program skipped them because they arrived together with this one.
func (v *live) note(s *sight, now time.Duration, email string) error {
	n, err := strconv.Atoi(email[:min(10, len(email))])
	if err != nil {
		return fmt.Errorf("the sink contains a value that was not written: %w", err)
	}
	for ; n >= 0 && s.seen[n] == 0; n -= v.cells.entities {
		s.seen[n] = now
	}
	return nil
}

// latency summarizes how long each row took from the end of its commit until it was seen in a sink. The first rows,
// which warm the servers up, don't count.
func (v *live) latency(s *sight) *latency {
	var all []float64 // in milliseconds
	bySecond := map[int][]float64{}
	begin := slices.Min(v.commits[v.warm:]) // not the first one: several writers commit out of order
	for n := v.warm; n < v.total(); n++ {
		took := max(s.seen[n]-v.commits[n], 0).Seconds() * 1000
		all = append(all, took)
		at := int((v.commits[n] - begin) / time.Second)
		bySecond[at] = append(bySecond[at], took)
	}
	d := &latency{Rate: float64(len(all)) / (v.finished - begin).Seconds(), quantiles: quantilesOf(all)}
	for _, at := range slices.Sorted(maps.Keys(bySecond)) {
		d.Over = append(d.Over, second{at, quantilesOf(bySecond[at])})
	}
	return d
}

// quantilesOf sorts durations, at least one, and returns their quantiles.
func quantilesOf(took []float64) quantiles {
	slices.Sort(took)
	at := func(share float64) float64 { return took[int(share*float64(len(took)-1))] }
	return quantiles{Samples: len(took), P50: at(0.5), P90: at(0.9), P99: at(0.99), Max: at(1)}
}
