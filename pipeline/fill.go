package pipeline

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"replicator"
)

// fill scans the tables of views that are being filled, while the tail goes on. Its rows are puts at the place before
// their chunk was read, so that whatever the tail brings later is judged against them by State.Next like everything
// else.
func (s *session) fill(ctx context.Context) error {
	if err := s.reachFillStart(ctx); err != nil {
		return err
	}
	for _, table := range s.run.unfilledTables() {
		if err := s.scan(ctx, table); err != nil {
			return fmt.Errorf("filling from table %s: %w", table, err)
		}
	}
	if !s.run.filling() {
		return nil
	}
	if err := s.sweep(ctx); err != nil {
		return fmt.Errorf("sweeping after the fill: %w", err)
	}
	s.run.filled()
	return s.advance(ctx, saveNow)
}

// reachFillStart waits until the tail stands where the fill begins. It may have to go on from an earlier place first,
// and a row that is put there would be older than what the views' states have seen.
func (s *session) reachFillStart(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for s.run.filling() && s.committed.Load() < s.run.fillStart() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// chunkTime is how long reading a chunk should take: short reads leave no long snapshots behind in the source.
const chunkTime = 200 * time.Millisecond

// chunkRows is how many rows of a table a chunk passes at most.
const chunkRows = 32000

// mostRows is chunkRows, or as many as may be scanned in a second.
func (s *session) mostRows() int {
	if rate := s.run.pipeline.Rate; rate > 0 {
		return min(max(rate, 100), chunkRows)
	}
	return chunkRows
}

// scan puts all rows of a table, chunk by chunk, from where the saved progress stands. The lanes work on a chunk while
// the next is read, and nobody waits in between; but progress is what they have applied.
func (s *session) scan(ctx context.Context, table string) error {
	columns := s.run.columns(table)
	progress := s.run.progress(table)
	if progress.Total == 0 {
		n, err := s.reader.Estimate(ctx, table)
		if err != nil {
			return err
		}
		progress.Total = n
	}
	limit := replicator.ScanLimit{Rows: min(1000, s.mostRows()), Bytes: s.budget.total / 4}
	before := func() error { return nil } // waits until the chunk before is applied, and says so
	for !progress.Done {
		began := time.Now()
		chunk, err := s.chunk(ctx, table, columns, progress.After, limit)
		if err != nil {
			return err
		}
		took := time.Since(began)
		for _, row := range chunk.Rows {
			if err := s.put(ctx, row); err != nil {
				return err
			}
		}
		applied := s.applied()
		if err := before(); err != nil {
			return err
		}
		progress.After, progress.Done = chunk.Next, chunk.Done
		progress.Rows += int64(chunk.Passed)
		reached := progress
		before = func() error {
			err := applied(ctx)
			if err == nil {
				s.run.setProgress(table, reached)
			}
			return err
		}
		s.scanned(table, chunk.Passed)
		if err := s.throttle(ctx, chunk.Passed, began); err != nil {
			return err
		}
		switch {
		case took < chunkTime/2 && limit.Rows < s.mostRows():
			limit.Rows = min(2*limit.Rows, s.mostRows())
		case took > chunkTime*2 && limit.Rows > 100:
			limit.Rows /= 2
		}
	}
	return before()
}

// chunk reads the next rows of a table, without those that are left to the tail.
func (s *session) chunk(ctx context.Context, table string, columns []string, after string, limit replicator.ScanLimit) (replicator.Chunk, error) {
	s.window.open()
	defer s.window.close()
	chunk, err := s.reader.Scan(ctx, table, columns, after, limit)
	if err == nil {
		chunk.Rows, err = s.settled(ctx, chunk)
	}
	return chunk, err
}

// settled returns the rows of a chunk that can be put at its Low. Where a row's version is its own, that is all of
// them. Where the position is the version, a row that changed while the chunk was read might hold more than Low, and
// the tail would then step back behind it: the chunk waits until the tail has passed High, and what the tail touched is
// left to it.
func (s *session) settled(ctx context.Context, chunk replicator.Chunk) ([]*replicator.Row, error) {
	cells := map[replicator.Cell]bool{}
	for _, r := range chunk.Rows {
		if r.Version == r.Order {
			cells[r.Cell] = true
		}
	}
	if len(cells) == 0 {
		return chunk.Rows, nil
	}
	touched, err := s.window.wait(ctx, chunk.Low, chunk.High, cells, &s.committed)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(chunk.Rows, func(r *replicator.Row) bool { return touched[r.Cell] }), nil
}

// put hands a scanned row to its lane.
func (s *session) put(ctx context.Context, row *replicator.Row) error {
	if !s.run.feeds(row.Cell) {
		return nil
	}
	size := s.budget.cost(row.Size())
	if err := s.budget.take(ctx, size); err != nil {
		return err
	}
	c := &replicator.Change{Kind: replicator.Insert, Cell: row.Cell, Version: row.Version, Order: row.Order, Row: row}
	s.add(c, size)
	return s.spelt(ctx, c)
}

// look asks for a full look at cells: what the source holds of them now is put in place of whatever the sink holds. It
// fails where the session ends before that is done.
func (s *session) look(ctx context.Context, cells []replicator.Cell) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.over, func() { cancel(replicator.ErrNotServing) })()
	for _, c := range cells {
		if !s.run.feeds(c) {
			continue
		}
		size := s.budget.cost(replicator.RowOverhead)
		if err := s.budget.take(ctx, size); err != nil {
			return err
		}
		s.add(&replicator.Change{Kind: replicator.Delete, Cell: c, Version: look, Rewrite: true}, size)
	}
	return s.barrier(ctx)
}

func (s *session) scanned(table string, rows int) {
	for _, v := range s.run.views {
		if slices.ContainsFunc(v.From, func(f replicator.Feed) bool { return f.Table == table }) {
			s.run.observer().Scanned(v.ShownAs(), rows)
		}
	}
}

// throttle waits so that no more rows a second are scanned than configured.
func (s *session) throttle(ctx context.Context, rows int, began time.Time) error {
	rate := s.run.pipeline.Rate
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

// sweep looks at whatever the target holds that the fill has not confirmed: entries from before the program kept the
// view, and cells whose last row was deleted while nobody read the source's log.
func (s *session) sweep(ctx context.Context) error {
	page := func(read func(after string) ([]replicator.Cell, string, error)) error {
		for after := ""; ; {
			cells, next, err := read(after)
			if err != nil {
				return err
			}
			if err := s.look(ctx, cells); err != nil {
				return err
			}
			if after = next; after == "" {
				return nil
			}
		}
	}
	const limit = 500
	if tidier, ok := s.target.(replicator.Tidier); ok {
		for i := range s.run.views {
			unclaimed := func(after string) ([]replicator.Cell, string, error) {
				cells, next, err := tidier.Unclaimed(ctx, i, after, limit)
				return cells, next, s.ofView(i, err)
			}
			if err := page(unclaimed); err != nil {
				return err
			}
		}
	}
	if err := s.sweepLetters(ctx, limit); err != nil {
		return err
	}
	var renamed []replicator.Cell // the page's before
	err := page(func(after string) ([]replicator.Cell, string, error) {
		if err := s.lookAtRenamed(ctx, renamed); err != nil {
			return nil, "", err
		}
		cells, next, err := s.target.Outdated(ctx, s.run.fillStart(), after, limit)
		renamed = cells
		return cells, next, err
	})
	if err == nil {
		err = s.lookAtRenamed(ctx, renamed)
	}
	if err != nil || !s.run.repairing() {
		return err
	}
	return s.tidy(ctx, limit)
}

// sweepLetters looks at the cells of dead letters from before the fill, which may be gone from the source by now.
func (s *session) sweepLetters(ctx context.Context, limit int) error {
	p := s.run.pipeline
	var cells []replicator.Cell
	for _, v := range s.run.views {
		for l, err := range p.Store.List(ctx, v.Name) {
			if err != nil {
				return err
			}
			if l.Source != p.Source.Name() || l.Order >= s.run.fillStart() {
				continue
			}
			if cells = append(cells, l.Cell); len(cells) < limit {
				continue
			}
			if err := s.look(ctx, cells); err != nil {
				return err
			}
			cells = nil
		}
	}
	return s.look(ctx, cells)
}

// lookAtRenamed has the entities written again whose keys were others before an ALTER (the number 1, and now the text
// '1'): where both are shown in one place, what was taken away there with the old cell is the new one's.
func (s *session) lookAtRenamed(ctx context.Context, gone []replicator.Cell) error {
	keys := map[string][]replicator.Key{}
	for _, c := range gone {
		if !slices.Contains(keys[c.Table], c.Key) {
			keys[c.Table] = append(keys[c.Table], c.Key)
		}
	}
	for table, old := range keys {
		cells, err := s.reader.Siblings(ctx, table, old)
		if err != nil {
			return err
		}
		cells = slices.DeleteFunc(cells, func(c replicator.Cell) bool { return slices.Contains(old, c.Key) })
		if err := s.look(ctx, cells); err != nil {
			return err
		}
	}
	return nil
}

// tidy removes from views that are rebuilt in place what came from no cell.
func (s *session) tidy(ctx context.Context, limit int) error {
	tidier, ok := s.target.(replicator.Tidier)
	if !ok {
		return nil
	}
	for i := range s.run.views {
		for after := ""; ; {
			strays, next, err := tidier.Strays(ctx, i, after, limit)
			if err == nil {
				_, err = tidier.Tidy(ctx, i, strays)
			}
			if err != nil {
				return s.ofView(i, err)
			}
			if after = next; after == "" {
				break
			}
		}
	}
	return nil
}

// ofView is an error of what was asked of one view.
func (s *session) ofView(i int, err error) error { return replicator.OfView(err, s.run.views[i].Name) }

// window notes which cells the tail touches while a chunk of a scan is read. While the chunk is on its way that may be
// any; once it is here only its own cells matter, and only what stands behind its Low: a tail that comes from far
// behind would else have the window hold all that it passes.
type window struct {
	active  atomic.Bool
	mu      sync.Mutex
	touched map[replicator.Cell]int64 // the latest order
	cells   map[replicator.Cell]bool  // of the chunk; nil: it is not here yet
	low     int64
	high    int64         // 0: not known yet
	passed  chan struct{} // closed once the tail has passed high
}

func (w *window) open() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.touched, w.cells, w.high, w.passed = map[replicator.Cell]int64{}, nil, 0, make(chan struct{})
	w.active.Store(true)
}

func (w *window) close() {
	w.active.Store(false)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.touched, w.cells, w.passed = nil, nil, nil
}

// touch is called by the tail for every change.
func (w *window) touch(c *replicator.Change) {
	if !w.active.Load() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.touched == nil || w.cells != nil && (c.Order <= w.low || !w.cells[c.Cell]) {
		return
	}
	w.touched[c.Cell] = max(w.touched[c.Cell], c.Order)
}

// reached is called by the tail for every transaction end.
func (w *window) reached(order int64) {
	if !w.active.Load() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.passed != nil && w.high != 0 && order >= w.high {
		close(w.passed)
		w.passed = nil
	}
}

// wait returns which of a chunk's cells the tail, which stands at committed, touched after low, once it has passed
// high.
func (w *window) wait(ctx context.Context, low, high int64, cells map[replicator.Cell]bool, committed *atomic.Int64) (map[replicator.Cell]bool, error) {
	w.mu.Lock()
	w.low, w.high, w.cells = low, high, cells
	passed := w.passed
	maps.DeleteFunc(w.touched, func(c replicator.Cell, order int64) bool { return order <= low || !cells[c] })
	w.mu.Unlock()
	if committed.Load() < high { // read after high was set: the tail either stands there already, or will see high
		select {
		case <-passed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	touched := make(map[replicator.Cell]bool, len(w.touched))
	for c := range w.touched {
		touched[c] = true
	}
	return touched, nil
}
