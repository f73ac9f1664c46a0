package pipeline_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"replicator"
	"replicator/pipeline"
	"replicator/sinks/sinktest"
)

// fakeLog is a changelog that a publisher makes of a fakeSource's only table. A log position in it is the number of a
// record. Rows keep the Orders of the origin (the fakeSource). A fence is a number of published transactions of the
// origin.
type fakeLog struct {
	origin *fakeSource
	asked  atomic.Int64 // number of calls of Lacks

	forgetful atomic.Bool // the log has dropped records of deleted cells

	mu      sync.Mutex
	records []replicator.Change // a compacted record has no table
	upTo    []int               // by record: how many transactions of the origin the log contains up to there
	next    int                 // the next transaction of the origin to be published
	moved   chan struct{}
	states  map[replicator.Cell]replicator.State // decide whether the publisher appends a change
}

var (
	_ replicator.Changelog = (*fakeLog)(nil)
	_ replicator.Reader    = (*fakeLogReader)(nil)
)

func newFakeLog(origin *fakeSource) *fakeLog {
	return &fakeLog{origin: origin, moved: make(chan struct{}), states: map[replicator.Cell]replicator.State{}}
}

// publish appends the unpublished transactions of the origin, and wakes readers.
func (l *fakeLog) publish() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.origin.mu.Lock()
	defer l.origin.mu.Unlock()
	for ; l.next < len(l.origin.log); l.next++ {
		for i, c := range l.origin.log[l.next] {
			change := l.origin.change(c, int64(l.next*1000+i+1))
			if change.Row == nil { // like a publisher, re-read the cell
				change.Kind, change.AsOf, change.Version = replicator.Update, int64(len(l.origin.log)*1000), replicator.NoVersion
				if best, ok := l.origin.newest(c.row.key); ok {
					change.Row = l.origin.row(best, change.AsOf)
					change.Version = change.Row.Version
				} else {
					change.Kind = replicator.Delete
				}
				change.Last = false
			}
			l.append(*change)
		}
	}
	if n := len(l.upTo); n > 0 {
		l.upTo[n-1] = l.next
	}
	close(l.moved)
	l.moved = make(chan struct{})
}

// append adds a record, unless it is stale. The last record of a cell gives the cell's present row. A put after a
// re-read also has the re-read's AsOf, because compaction may remove the record of the re-read.
func (l *fakeLog) append(c replicator.Change) {
	was, known := l.states[c.Cell]
	if !known {
		was = replicator.Unseen
	}
	state, news := was.Next(replicator.Op{Version: c.Version, Order: c.Order, AsOf: c.AsOf})
	if l.states[c.Cell] = state; !news {
		return
	}
	c.AsOf = state.AsOf
	if c.Row != nil {
		c.Row.Place = int64(len(l.records) + 1)
	}
	before := 0
	if n := len(l.upTo); n > 0 {
		before = l.upTo[n-1]
	}
	l.records, l.upTo = append(l.records, c), append(l.upTo, before)
}

// goBack makes the publisher begin again at an earlier transaction.
func (l *fakeLog) goBack(transactions int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = max(0, l.next-transactions)
}

// lose removes all records, and the publisher's memory of them. The publisher then fills the log with the origin's
// present rows.
func (l *fakeLog) lose() {
	l.remove(func(replicator.Change) bool { return true })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.origin.mu.Lock()
	defer l.origin.mu.Unlock()
	clear(l.states)
	l.next = len(l.origin.log)
	for r := range l.origin.rows {
		row := l.origin.row(r, int64(l.next*1000))
		l.append(replicator.Change{Kind: replicator.Insert, Cell: row.Cell, Version: row.Version, Order: row.Order,
			Row: row})
	}
	if n := len(l.upTo); n > 0 {
		l.upTo[n-1] = l.next
	}
	close(l.moved)
	l.moved = make(chan struct{})
}

// compact keeps only the last record of each cell.
func (l *fakeLog) compact() { l.remove(func(replicator.Change) bool { return false }) }

// removeTombstones compacts the log, and also removes the records of deleted cells.
func (l *fakeLog) removeTombstones() {
	l.remove(func(c replicator.Change) bool { return c.Row == nil })
}

func (l *fakeLog) remove(last func(replicator.Change) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := map[replicator.Cell]int{}
	for i, c := range l.records {
		at[c.Cell] = i
	}
	for i, c := range l.records {
		if at[c.Cell] != i || last(c) {
			l.records[i] = replicator.Change{}
		}
	}
}

func (l *fakeLog) Name() string { return "" }

func logPosition(place int) replicator.Position {
	return replicator.Position{Order: int64(place), Token: "log " + strconv.Itoa(place)}
}

func (l *fakeLog) Latest(context.Context, []replicator.Position) (replicator.Position, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return logPosition(len(l.records)), nil
}

func (l *fakeLog) Oldest(context.Context, []replicator.Position) (replicator.Position, error) {
	return logPosition(0), nil
}

func (l *fakeLog) Open(_ context.Context, at []replicator.Position, _ ...string) (replicator.Reader, error) {
	start := slices.MinFunc(at, func(a, b replicator.Position) int { return int(a.Order - b.Order) })
	return &fakeLogReader{fakeReader: &fakeReader{fakeSource: l.origin}, log: l, start: start}, nil
}

func (l *fakeLog) Identities(context.Context, []string) (map[string]string, error) { return nil, nil }
func (l *fakeLog) SameKeys(context.Context, []string) error                        { return nil }
func (l *fakeLog) Includes(p, q replicator.Position) bool                          { return p.Order >= q.Order }

// newest returns a cell's present row according to the log.
func (l *fakeLog) newest(c replicator.Cell) (row *replicator.Row, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.records {
		if r.Cell != c {
			continue
		}
		known = true
		row = r.Row
	}
	return row, known
}

func (l *fakeLog) Lacks(_ context.Context, cells []replicator.Cell, versions []int64) (
	lacking []replicator.Cell, err error,
) {
	l.asked.Add(1)
	for i, c := range cells {
		row, known := l.newest(c)
		version := replicator.NoVersion
		if row != nil {
			version = row.Version
		}
		if !known || version < versions[i] {
			lacking = append(lacking, c)
		}
	}
	return lacking, nil
}

func (l *fakeLog) Holds(replicator.Cell) bool { return true }

func (l *fakeLog) Remembers(context.Context, time.Time) (bool, error) {
	return !l.forgetful.Load(), nil
}

// fakeLogReader reads a fakeLog.
type fakeLogReader struct {
	*fakeReader
	log   *fakeLog
	start replicator.Position
}

func (r *fakeLogReader) Start() replicator.Position               { return r.start }
func (r *fakeLogReader) Position(order int64) replicator.Position { return logPosition(int(order)) }
func (r *fakeLogReader) Locate(order int64) string                { return logPosition(int(order)).Token }

func (r *fakeLogReader) Latest(ctx context.Context) (replicator.Position, error) {
	return r.log.Latest(ctx, nil)
}

func (r *fakeLogReader) Includes(_ context.Context, p replicator.Position, fence string) (bool, error) {
	n, err := strconv.Atoi(fence)
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	return n == 0 || p.Order > 0 && r.log.upTo[p.Order-1] >= n, err
}

func (r *fakeLogReader) Read(ctx context.Context, h replicator.Handler) error {
	h.Commit(r.start.Order, time.Time{})
	for n := int(r.start.Order); ; n++ {
		r.log.mu.Lock()
		for n >= len(r.log.records) {
			moved := r.log.moved
			r.log.mu.Unlock()
			select {
			case <-moved:
			case <-ctx.Done():
				return ctx.Err()
			}
			r.log.mu.Lock()
		}
		c := r.log.records[n]
		r.log.mu.Unlock()
		if c.Cell.Table != "" {
			if err := h.Change(ctx, &c); err != nil {
				return err
			}
			if c.AsOf != 0 && c.Row != nil && c.Row.Order > c.AsOf {
				put := c
				put.AsOf = 0
				if err := h.Change(ctx, &put); err != nil {
					return err
				}
			}
		}
		h.Commit(int64(n+1), time.Now())
	}
}

func (r *fakeLogReader) Newest(_ context.Context, cells []replicator.Cell, _ int64) (
	rows []*replicator.Row, asOf int64, err error,
) {
	for _, c := range cells {
		row, _ := r.log.newest(c)
		rows = append(rows, row)
	}
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	return rows, int64(r.log.next * 1000), nil
}

func (r *fakeLogReader) Scan(context.Context, string, []string, string, replicator.ScanLimit) (
	replicator.Chunk, error,
) {
	return replicator.Chunk{Done: true}, nil
}

func (r *fakeLogReader) Estimate(context.Context, string) (int64, error) { return 1, nil }

// ends stops a pipeline, or kills it.
func (s *started) ends(t *testing.T, kill bool) {
	if !kill {
		s.stopped(t)
		return
	}
	s.crash()
	<-s.done
	s.stop()
}

func TestViewsOfAChangelogEqualTheOriginThroughReplaysAndCompaction(t *testing.T) {
	for seed := range seeds(60) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 14))
				f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
				f.single = seed%2 == 1
				log := newFakeLog(f)
				views := []string{"a", "b"}
				slow := &slowSink{Sink: sink, rand: rand.New(rand.NewPCG(seed, 3))}
				for range 6 {
					p := start(newPipeline(log, slow, store, views...))
					history(f, r, r.IntN(20))
					log.publish()
					time.Sleep(time.Duration(r.IntN(400)) * time.Millisecond)
					history(f, r, r.IntN(5))
					log.goBack(r.IntN(10))
					log.publish()
					p.ends(t, r.IntN(3) > 0)
					if r.IntN(3) == 0 {
						log.compact()
						views = append(views, fmt.Sprint("v", len(views)))
					}
				}
				slow.settle()
				p := startCaughtUp(t, f, newPipeline(log, slow, store, views...))
				p.stopped(t)
				for _, v := range views {
					holds(t, f, sink, v)
				}
			})
		})
	}
}

// Each call of Lacks may read the whole log, so there must be few.
func TestAFillFromAChangelogReadsItAFewTimesWhateverTheNumberOfCells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
		log := newFakeLog(f)
		for key := range int64(1500) {
			f.commit(fakeChange{replicator.Insert, fakeRow{key, 1, "a"}})
		}
		log.publish()
		p := startCaughtUp(t, f, newPipeline(log, sink, store, "a"))
		p.rebuild(t, pipeline.InPlace, "a")
		p.rebuilt(t)
		p.endsWith(t, f, sink, "a")
		if n := log.asked.Load(); n != 1 {
			t.Errorf("after a fill of 1,500 cells the log was asked %d times", n)
		}
	})
}

func TestARebuildReadsAChangelogFromItsBeginning(t *testing.T) {
	for seed := range seeds(40) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 15))
				f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
				f.single = seed%2 == 1
				log := newFakeLog(f)
				slow := &slowSink{Sink: sink, rand: rand.New(rand.NewPCG(seed, 3))}
				history(f, r, 40)
				log.publish()
				p := startCaughtUp(t, f, newPipeline(log, slow, store, "a", "b"))
				for key := range int64(8) {
					sink.Corrupt("", "a", fakeCell(key), []replicator.Entry{{Fields: []any{"spoilt"}}})
				}
				log.removeTombstones()
				p.rebuild(t, pipeline.InPlace, "a")
				for range r.IntN(4) {
					time.Sleep(time.Duration(1+r.IntN(2000)) * time.Millisecond)
					history(f, r, 5)
					log.publish()
					p.ends(t, true)
					if r.IntN(4) == 0 {
						store = newMemoryStore() // with only the mark, nothing that must be read again may be skipped
					}
					p = start(newPipeline(log, slow, store, "a", "b"))
					time.Sleep(time.Millisecond)
				}
				slow.settle()
				p.rebuilt(t)
				p.endsWith(t, f, sink, "a", "b")
			})
		})
	}
}

// If a log is lost and its publisher fills it again, the new log has no deletes of versions that were deleted
// meanwhile. It only has puts of the older versions that are left.
func TestARebuildFromALogThatWasLostGoesBackToWhatIsLeft(t *testing.T) {
	for seed := range seeds(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 16))
				f, sink, store := newFakeSource(), sinktest.NewReference(), newMemoryStore()
				f.single = seed%4 == 3
				log := newFakeLog(f)
				f.commit(fakeChange{replicator.Insert, fakeRow{9, 1, "left"}},
					fakeChange{replicator.Insert, fakeRow{9, 2, "gone"}})
				history(f, r, 20)
				log.publish()
				p := startCaughtUp(t, f, newPipeline(log, sink, store, "a", "b"))
				f.commit(fakeChange{replicator.Delete, fakeRow{9, 2, "gone"}})
				history(f, r, 10)
				log.lose()
				for _, view := range []string{"a", "b"} {
					p.rebuild(t, pipeline.InPlace, view)
					p.rebuilt(t)
				}
				history(f, r, 5)
				log.publish()
				p.endsWith(t, f, sink, "a", "b")
			})
		})
	}
}
