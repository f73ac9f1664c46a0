package pipeline

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"replicator"
)

// filler scans the tables of new views while the log is read. A scanned row counts as a change at the log position from
// before its chunk was read, so that later changes in the log win. Only one goroutine uses it.
type filler struct {
	*group
	reader  replicator.Reader
	intake  *intake
	reach   *reach
	window  *window
	sweeper *sweeper
}

func (f *filler) fill(ctx context.Context) (ended bool, err error) {
	if err := f.reachStart(ctx); err != nil {
		return false, err
	}
	tables := f.progress.current().Fill
	for _, table := range slices.Sorted(maps.Keys(tables)) {
		if tables[table].Done {
			continue
		}
		if err := f.scan(ctx, table); err != nil {
			return false, fmt.Errorf("filling from table %s: %w", table, err)
		}
	}
	if !f.progress.current().Filling() {
		return false, nil
	}
	if err := f.sweeper.sweep(ctx); err != nil {
		return false, fmt.Errorf("re-reading cells that the fill did not confirm: %w", err)
	}
	f.progress.filled()
	f.cfg.Log.Info("filled", "sink", f.cfg.Name, "views", f.views.names())
	return true, nil
}

// reachStart waits until the log reader has reached the position where the fill begins. Before that, the sink may still
// hold a row whose delete the log reader has not delivered. The scan may find an older row of the same cell, which the
// sink would refuse as stale.
func (f *filler) reachStart(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	start := f.progress.current().FillFrom // 0 if no view is being filled
	for f.reach.committed.Load() < start {
		select {
		case <-tick.C:
			f.replayed(start)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// replayed records the progress of a fill from a Changelog, which ends once the log was read up to a position (to). For
// other sources, it does nothing.
func (f *filler) replayed(to int64) {
	tables := slices.Sorted(maps.Keys(f.progress.current().Fill))
	if low := f.intake.lanes.low(); f.cfg.changelog() != nil && len(tables) > 0 {
		if at := f.progress.current().Fill[tables[0]]; low > at.Rows && !at.Done {
			at.Rows, at.Total = low, to
			f.progress.setTable(tables[0], at)
		}
	}
}

// chunkTime is how long reading a chunk should take. Short reads don't keep snapshots open in the source for long.
const chunkTime = 200 * time.Millisecond

// chunkRows is the highest number of rows of one chunk of a table scan.
const chunkRows = 32000

func (f *filler) mostRows() int {
	if rate := f.cfg.Rate; rate > 0 {
		return min(max(rate, 100), chunkRows)
	}
	return chunkRows
}

// scan hands the rows of a table to the workers (lanes), chunk by chunk, beginning after the saved progress. The
// workers apply a chunk while scan reads the next one. The progress includes only chunks that are applied.
func (f *filler) scan(ctx context.Context, table string) error {
	columns := f.views.columns(table)
	progress := f.progress.current().Fill[table]
	if progress.Total == 0 {
		n, err := f.reader.Estimate(ctx, table)
		if err != nil {
			return err
		}
		progress.Total = n
	}
	limit := replicator.ScanLimit{Rows: min(1000, f.mostRows()), Bytes: f.intake.budget.total / 4}
	before := func() error { return nil } // waits until the previous chunk is applied, and records the progress
	for !progress.Done {
		began := time.Now()
		chunk, err := f.chunk(ctx, table, columns, progress.After, limit)
		if err != nil {
			return err
		}
		took := time.Since(began)
		for _, row := range chunk.Rows {
			if err := f.intake.put(ctx, row); err != nil {
				return err
			}
		}
		applied := f.intake.lanes.applied()
		if err := before(); err != nil {
			return err
		}
		progress.After, progress.Done = chunk.Next, chunk.Done
		if chunk.Total > 0 {
			progress.Total = chunk.Total
		}
		progress.Rows += int64(chunk.Passed)
		reached := progress
		before = func() error {
			err := applied(ctx)
			if err == nil {
				f.progress.setTable(table, reached)
			}
			return err
		}
		for _, v := range f.views.fedBy(table) {
			f.cfg.Observer.Scanned(v.ShownAs(), chunk.Passed)
		}
		if err := f.throttle(ctx, chunk.Passed, began); err != nil {
			return err
		}
		switch {
		case took < chunkTime/2 && limit.Rows < f.mostRows():
			limit.Rows = min(2*limit.Rows, f.mostRows())
		case took > chunkTime*2 && limit.Rows > 100:
			limit.Rows /= 2
		}
	}
	return before()
}

// chunk reads the next rows of a table, without those that changed while the chunk was read (see puttable).
func (f *filler) chunk(ctx context.Context, table string, columns []string, after string, limit replicator.ScanLimit) (
	replicator.Chunk, error,
) {
	f.window.open()
	defer f.window.close()
	chunk, err := f.reader.Scan(ctx, table, columns, after, limit)
	if err == nil {
		chunk.Rows, err = f.puttable(ctx, chunk)
	}
	return chunk, err
}

// puttable returns the rows of a chunk that can be applied. If log positions are the versions, a scanned row looks as
// old as the chunk's start, even if it changed while the chunk was read. So puttable leaves out rows that, by the log,
// changed in that time: the log reader applies them.
func (f *filler) puttable(ctx context.Context, chunk replicator.Chunk) ([]*replicator.Row, error) {
	cells := map[replicator.Cell]bool{}
	for _, r := range chunk.Rows {
		if r.Version == r.Order {
			cells[r.Cell] = true
		}
	}
	if len(cells) == 0 {
		return chunk.Rows, nil
	}
	touched, err := f.window.wait(ctx, chunk.Low, chunk.High, cells, &f.reach.committed)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(chunk.Rows, func(r *replicator.Row) bool { return touched[r.Cell] }), nil
}

func (f *filler) throttle(ctx context.Context, rows int, began time.Time) error {
	rate := f.cfg.Rate
	if rate <= 0 {
		return nil
	}
	due := time.Duration(float64(rows) / float64(rate) * float64(time.Second))
	timer := time.NewTimer(due - time.Since(began))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
