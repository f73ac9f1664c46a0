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
	// liveDatabase is the source database of the latency stage: empty at first, so that the program is soon ready.
	liveDatabase = "live"

	// pollEvery is how often the reader of the index looks: often enough to be no part of the figures, seldom enough to
	// leave the server alone.
	pollEvery = 500 * time.Microsecond

	timeout = time.Minute // how long anything may take that should be done at once

	writers = 4 // connections: a commit takes longer than a millisecond now and then
)

// latency runs the program beside a writer of single-row transactions at a steady rate.
func (l *lab) latency(ctx context.Context) error {
	if err := create(ctx, l.sourceDB, liveDatabase, cellDDL); err != nil {
		return err
	}
	s, err := l.setUp(ctx, liveDatabase, "snapshot", oneView())
	if err != nil {
		return err
	}
	live := newLive(l.options, s)
	what := fmt.Sprintf("commit to visible, %d transactions a second", l.rate)
	bar := l.show.bar(what, live.total())
	took, err := l.measureProgram(ctx, s.dir, []string{"run"}, func(p *program) error {
		if err := live.run(ctx, l.sourceDB, l.sinkDB, p, bar); err != nil {
			return err
		}
		return p.Stop()
	})
	bar.done()
	if err != nil {
		return err
	}
	r := result{Stage: "latency", What: "the program: " + what, Unit: "cell", Units: live.total(), Latency: live.latency()}
	if r.Checked, err = l.check(ctx, s, live.cells, live.total()); err != nil {
		return err
	}
	l.add(r, took)
	return nil
}

// live is a writer, and a reader of what becomes of its cells. The cells' emails sort as they are written.
type live struct {
	cells    *workload
	rate     int
	index    string // the index table
	warm     int    // so many cells are written before those that count
	begin    time.Time
	commits  []time.Duration // after begin; by the cell's number
	seen     []time.Duration // after begin; 0: not yet
	first    chan struct{}   // closed when the first cell was seen
	all      chan struct{}   // closed when all were
	finished time.Duration   // when the last commit returned
}

func newLive(o options, s *setup) *live {
	warm := o.rate // a second's worth
	n := warm + o.rate*o.seconds
	return &live{
		cells:   &workload{entities: o.entities, body: o.body, begin: time.Now().UnixNano(), order: round},
		rate:    o.rate,
		index:   s.database + "." + s.tables[0].name,
		warm:    warm,
		commits: make([]time.Duration, n),
		seen:    make([]time.Duration, n),
		first:   make(chan struct{}),
		all:     make(chan struct{}),
	}
}

func (v *live) total() int { return len(v.commits) }

// run writes every cell and returns when all were seen. The first one shows that the program is ready; it ends early if
// the program does.
func (v *live) run(ctx context.Context, source, sink *sql.DB, p *program, bar *bar) error {
	ctx, cancel := context.WithCancelCause(ctx)
	v.begin = time.Now()
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := connected(ctx, sink, func(conn *sql.Conn) error { return v.read(ctx, conn) }); err != nil {
			cancel(err)
		}
	})
	wg.Go(func() {
		select {
		case <-p.Done():
			cancel(errors.Join(errors.New("the program ended before it was asked to"), p.Wait()))
		case <-ctx.Done():
		}
	})
	err := connected(ctx, source, func(conn *sql.Conn) error { return v.write(ctx, conn, 0) })
	if err == nil {
		err = await(ctx, v.first, "the first cell")
	}
	if err == nil {
		err = v.writeAll(ctx, source, bar)
	}
	if err == nil {
		err = await(ctx, v.all, "the last cells")
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
		return fmt.Errorf("%s can't be seen in the sink after %v", what, timeout)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// writeAll writes all cells but the first at a steady rate: each has its time, whatever became of those before.
func (v *live) writeAll(ctx context.Context, db *sql.DB, bar *bar) error {
	var next atomic.Int64
	errs := make([]error, writers)
	begin := time.Now()
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			errs[i] = connected(ctx, db, func(conn *sql.Conn) error {
				for {
					n := int(next.Add(1))
					if n >= v.total() {
						return nil
					}
					if err := sleep(ctx, time.Until(begin.Add(time.Duration(n)*time.Second/time.Duration(v.rate)))); err != nil {
						return err
					}
					if err := v.write(ctx, conn, n); err != nil {
						return err
					}
					bar.add(1)
				}
			})
		})
	}
	wg.Wait()
	v.finished = time.Since(v.begin)
	return errors.Join(errs...)
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// write commits one cell and notes when that returned.
func (v *live) write(ctx context.Context, conn *sql.Conn, n int) error {
	err := v.cells.insert(ctx, conn, liveDatabase, n, n+1)
	v.commits[n] = time.Since(v.begin)
	return err
}

// read looks at the index, from the oldest cell on that it has not seen, until it has seen all.
func (v *live) read(ctx context.Context, conn *sql.Conn) error {
	query, err := conn.PrepareContext(ctx, "SELECT email FROM "+v.index+" WHERE email >= ? ORDER BY email")
	if err != nil {
		return err
	}
	defer query.Close()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for oldest := 0; ; {
		if err := v.look(ctx, query, oldest); err != nil {
			return err
		}
		if oldest == 0 && v.seen[0] != 0 {
			close(v.first)
		}
		for oldest < v.total() && v.seen[oldest] != 0 {
			oldest++
		}
		if oldest == v.total() {
			close(v.all)
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// look notes which cells the index shows. A cell also shows that its entity's older ones were there, or were passed
// over because it came with them.
func (v *live) look(ctx context.Context, query *sql.Stmt, oldest int) error {
	rows, err := query.QueryContext(ctx, fmt.Sprintf("%010d", oldest))
	if err != nil {
		return err
	}
	defer rows.Close()
	now := time.Since(v.begin)
	var email sql.RawBytes
	for rows.Next() {
		if err := rows.Scan(&email); err != nil {
			return err
		}
		n, err := strconv.Atoi(string(email[:10]))
		if err != nil {
			return fmt.Errorf("the index holds something else than was written: %w", err)
		}
		for ; n >= 0 && v.seen[n] == 0; n -= v.cells.entities {
			v.seen[n] = now
		}
	}
	return rows.Err()
}

// latency sums up what was seen after the warm-up.
func (v *live) latency() *latency {
	var all []float64 // ms
	bySecond := map[int][]float64{}
	begin := slices.Min(v.commits[v.warm:]) // writers commit out of order
	for n := v.warm; n < v.total(); n++ {
		took := max(v.seen[n]-v.commits[n], 0).Seconds() * 1000
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

// quantilesOf sorts what took how long, which is something.
func quantilesOf(took []float64) quantiles {
	slices.Sort(took)
	at := func(share float64) float64 { return took[int(share*float64(len(took)-1))] }
	return quantiles{Samples: len(took), P50: at(0.5), P90: at(0.9), P99: at(0.99), Max: at(1)}
}
