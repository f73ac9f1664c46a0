package pipeline_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"replicator"
)

// seeds returns how many random histories a test tries: n in `make soak`, fewer otherwise.
func seeds(n uint64) uint64 {
	if os.Getenv("REPLICATOR_SOAK") != "" {
		return n
	}
	return n / 3
}

// fakeSource is a source in memory: a log of transactions over one table, whose cells may have several versions. The
// n-th transaction (from 0) begins at Order 1000*n. Its i-th row (from 1) has Order 1000*n + i.
type fakeSource struct {
	mu      sync.Mutex
	log     [][]fakeChange
	rows    map[fakeRow]int64 // the present rows, with the Order of their insert
	moved   chan struct{}     // commit closes and replaces it
	purged  int               // transactions no longer in the log
	broken  error             // the error of Open
	mute    error             // the error of a reader's next Latest
	breaks  int               // number of transactions after which Read fails; 0: never
	single  bool              // one row per key, updated in place: the order is the version
	emptied int               // the transaction that empties the table "other" without saying which rows went; 0: none
	untold  int               // the transaction whose changes the log does not list; 0: none
	cells   string            // the definition of cells and versions; "": unknown
	behind  int               // how many transactions at the end of the log are hidden from readers
	file    int               // number of the log's latest file that readers have reached; positions name it
	looks   int               // how often rows were read again since the last transaction
}

// tooManyLooks is the number of re-reads without a change after which re-reads fail. Without that limit, an endless
// loop of re-reads would hang its test, because synctest's clock stops while a goroutine runs.
const tooManyLooks = 10_000

type fakeRow struct {
	key, version int64
	body         string
}

type fakeChange struct {
	kind replicator.ChangeKind
	row  fakeRow
}

func newFakeSource() *fakeSource {
	return &fakeSource{rows: map[fakeRow]int64{}, moved: make(chan struct{})}
}

// commit appends a transaction.
func (f *fakeSource) commit(changes ...fakeChange) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, c := range changes {
		if f.single {
			maps.DeleteFunc(f.rows, func(r fakeRow, _ int64) bool { return r.key == c.row.key })
		}
		if c.kind == replicator.Insert {
			f.rows[c.row] = int64(len(f.log)*1000 + i + 1)
		} else {
			delete(f.rows, c.row)
		}
	}
	f.log = append(f.log, changes)
	f.looks = 0
	close(f.moved)
	f.moved = make(chan struct{})
}

// newest returns the newest row of a cell, if there is one.
func (f *fakeSource) newest(key int64) (best fakeRow, found bool) {
	for r := range f.rows {
		if r.key == key && (!found || r.version > best.version) {
			best, found = r, true
		}
	}
	return best, found
}

// model returns the expected contents of an index of the bodies: the body of each key's newest row.
func (f *fakeSource) model() map[int64]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := map[int64]string{}
	for r := range f.rows {
		if best, _ := f.newest(r.key); best == r {
			m[r.key] = r.body
		}
	}
	return m
}

func fakePosition(n int) replicator.Position {
	return replicator.Position{Order: int64(n) * 1000, Token: strconv.Itoa(n)}
}

func (f *fakeSource) Name() string { return "" }

func (f *fakeSource) Latest(context.Context, []replicator.Position) (replicator.Position, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fakePosition(len(f.log)), nil
}

func (f *fakeSource) Oldest(context.Context, []replicator.Position) (replicator.Position, error) {
	return fakePosition(f.purged), nil
}

func (f *fakeSource) Open(_ context.Context, at []replicator.Position, tables ...string) (replicator.Reader, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken != nil {
		return nil, f.broken
	}
	start := slices.MinFunc(at, func(a, b replicator.Position) int { return int(a.Order - b.Order) })
	if start.Order < int64(f.purged)*1000 {
		return nil, fmt.Errorf("transaction %s is gone: %w", start.Token, replicator.ErrLost)
	}
	return &fakeReader{fakeSource: f, start: start, tables: tables, cells: f.cells}, nil
}

// Identities implements replicator.Source. The table "other" is always the same.
func (f *fakeSource) Identities(_ context.Context, tables []string) (map[string]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cells == "" {
		return nil, nil
	}
	return map[string]string{"cell": f.cells, "other": "p"}, nil
}

// Includes implements replicator.Source.
func (f *fakeSource) Includes(p, q replicator.Position) bool { return p.Order >= q.Order }

// SameKeys implements replicator.Source. All tables have the same keys.
func (f *fakeSource) SameKeys(context.Context, []string) error { return nil }

type fakeReader struct {
	*fakeSource
	start  replicator.Position
	tables []string
	cells  string // the definition of the table when the reader was opened
}

func (r *fakeReader) Start() replicator.Position { return r.start }
func (r *fakeReader) Close() error               { return nil }

func (r *fakeReader) Latest(ctx context.Context) (replicator.Position, error) {
	r.mu.Lock()
	err := r.mute
	r.mute = nil
	r.mu.Unlock()
	if err != nil {
		return replicator.Position{}, err
	}
	return r.fakeSource.Latest(ctx, nil)
}

func (r *fakeReader) Position(order int64) replicator.Position {
	p := fakePosition(int(order / 1000))
	if file := r.File(); file > 0 {
		p.Token += "+" + strconv.FormatInt(file, 10)
	}
	return p
}

// File implements replicator.Reader.
func (r *fakeReader) File() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int64(r.file)
}

func (r *fakeReader) Locate(order int64) string { return "log:" + strconv.FormatInt(order, 10) }

func (r *fakeReader) Includes(_ context.Context, p replicator.Position, fence string) (bool, error) {
	n, err := strconv.Atoi(fence)
	return p.Order >= int64(n)*1000, err
}

func (r *fakeReader) Read(ctx context.Context, h replicator.Handler) error {
	h.Commit(r.start.Order, time.Time{})
	for n, read := int(r.start.Order/1000), 0; ; n, read = n+1, read+1 {
		r.mu.Lock()
		for n >= len(r.log)-r.behind {
			moved := r.moved
			r.mu.Unlock()
			select {
			case <-moved:
			case <-ctx.Done():
				return ctx.Err()
			}
			r.mu.Lock()
		}
		tx, breaks, emptied, untold := r.log[n], r.breaks, r.emptied, r.untold
		altered := r.fakeSource.cells != r.cells && slices.Contains(r.tables, "cell")
		r.mu.Unlock()
		if altered {
			return replicator.OfTable("cell", replicator.Fatal(fmt.Errorf("table cell was altered: %w",
				replicator.ErrRedefined)))
		}
		if n == emptied && n > 0 && slices.Contains(r.tables, "other") {
			return replicator.OfTable("other", fmt.Errorf("table other was truncated: %w", replicator.ErrUnlogged))
		}
		if breaks > 0 && read >= breaks {
			return fmt.Errorf("the link broke")
		}
		if n == untold && n > 0 {
			if err := h.Unlogged("cell", int64(n+1)*1000, replicator.ErrUnlogged); err != nil {
				return err
			}
			tx = nil
		}
		for i, c := range tx {
			if err := h.Change(ctx, r.change(c, int64(n*1000+i+1))); err != nil {
				return err
			}
		}
		h.Commit(int64(n+1)*1000, time.Now())
	}
}

func fakeCell(key int64) replicator.Cell {
	k, _ := replicator.MakeKey(key)
	return replicator.Cell{Table: "cell", Key: k}
}

func (f *fakeSource) change(c fakeChange, order int64) *replicator.Change {
	change := &replicator.Change{Kind: c.kind, Cell: fakeCell(c.row.key), Version: c.row.version,
		Order: order, Time: time.Now()}
	if f.single {
		change.Version, change.Last = order, c.kind == replicator.Delete
	}
	if c.kind == replicator.Insert {
		change.Row = f.row(c.row, order)
	}
	return change
}

func (f *fakeSource) row(r fakeRow, order int64) *replicator.Row {
	row := &replicator.Row{Cell: fakeCell(r.key), Version: r.version, Order: order, Time: time.Now(), Body: []byte(r.body)}
	if f.single {
		row.Version = order
	}
	return row
}

func (r *fakeReader) Newest(_ context.Context, cells []replicator.Cell, bytes int64) ([]*replicator.Row, int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.looks++; r.looks > tooManyLooks {
		return nil, 0, fmt.Errorf("rows were read again %d times while nothing changed", r.looks)
	}
	asOf := int64(len(r.log)) * 1000
	var rows []*replicator.Row
	size := int64(0)
	for _, c := range cells {
		key, _ := c.Key.Values()
		var row *replicator.Row
		if best, ok := r.newest(key[0].(int64)); ok {
			row = r.row(best, asOf)
			size += row.Size()
		}
		if rows = append(rows, row); bytes > 0 && size >= bytes {
			break
		}
	}
	return rows, asOf, nil
}

func (r *fakeReader) Scan(_ context.Context, table string, _ []string, after string,
	_ replicator.ScanLimit) (replicator.Chunk, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	low := int64(len(r.log)) * 1000
	if table != "cell" {
		return replicator.Chunk{Low: low, High: low, Done: true}, nil
	}
	place, err := strconv.ParseInt(cmp.Or(after, "0"), 10, 64)
	if err != nil {
		return replicator.Chunk{}, replicator.Fatal(err)
	}
	rows := slices.SortedFunc(maps.Keys(r.rows), func(a, b fakeRow) int { return int(r.rows[a] - r.rows[b]) })
	chunk := replicator.Chunk{Low: low, High: low, Next: after}
	for _, row := range rows {
		if r.rows[row] <= place {
			continue
		}
		if len(chunk.Rows) == 3 { // small chunks, so that there are many points to crash at
			return chunk, nil
		}
		chunk.Rows = append(chunk.Rows, r.row(row, low))
		chunk.Passed++
		chunk.Next = strconv.FormatInt(r.rows[row], 10)
	}
	chunk.Done = true
	return chunk, nil
}

// Cells implements replicator.Reader.
func (r *fakeReader) Cells(_ context.Context, _ string, _ []string, after string,
	limit int) ([]replicator.Cell, string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, _ := strconv.ParseInt(after, 10, 64)
	keys := map[int64]bool{}
	for row := range r.rows {
		if after == "" || row.key > last {
			keys[row.key] = true
		}
	}
	sorted := slices.Sorted(maps.Keys(keys))
	next := ""
	if len(sorted) > limit {
		sorted = sorted[:limit]
		next = strconv.FormatInt(sorted[limit-1], 10)
	}
	var cells []replicator.Cell
	for _, k := range sorted {
		cells = append(cells, fakeCell(k))
	}
	return cells, next, nil
}

// MixesSpellings implements replicator.Reader. No two keys are variants of each other.
func (r *fakeReader) MixesSpellings(string) bool { return false }

func (r *fakeReader) Referring(context.Context, []replicator.Reference, string, int) ([]replicator.Cell, string, error) {
	return nil, "", errors.New("no view has joins")
}

// Spellings implements replicator.Reader.
func (r *fakeReader) Spellings(context.Context, string, []replicator.Key) ([][]replicator.Cell, error) {
	return nil, nil
}

// Siblings implements replicator.Reader: entities have one cell.
func (r *fakeReader) Siblings(_ context.Context, _ string, keys []replicator.Key) (cells []replicator.Cell, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for row := range r.rows {
		if c := fakeCell(row.key); slices.Contains(keys, c.Key) && !slices.Contains(cells, c) {
			cells = append(cells, c)
		}
	}
	return cells, nil
}

// Estimate implements replicator.Reader.
func (r *fakeReader) Estimate(context.Context, string) (int64, error) { return 10, nil }

// memoryStore is a store that outlives a pipeline but not the test.
type memoryStore struct {
	mu          sync.Mutex
	checkpoints map[string]replicator.Checkpoint
	letters     map[string]replicator.DeadLetter
	numbers     map[string]int64 // the letters' numbers, by id
	buried      int64
}

func newMemoryStore() *memoryStore {
	return &memoryStore{checkpoints: map[string]replicator.Checkpoint{}, letters: map[string]replicator.DeadLetter{},
		numbers: map[string]int64{}}
}

func (m *memoryStore) Checkpoints(context.Context) ([]replicator.Checkpoint, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.checkpoints)), nil
}

func (m *memoryStore) Save(_ context.Context, checkpoints []replicator.Checkpoint) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range checkpoints {
		m.checkpoints[c.View] = c
	}
	return nil
}

func (*memoryStore) KeepLayouts(context.Context, map[string]string) error { return nil }

func (*memoryStore) Layout(context.Context, string) (string, error) { return "", nil }

func (m *memoryStore) Forget(_ context.Context, view string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.checkpoints, view)
	return nil
}

func (m *memoryStore) Bury(_ context.Context, letters []replicator.DeadLetter) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range letters {
		l.ID = l.View + " " + l.Source + " " + l.Cell.String()
		m.buried++
		m.letters[l.ID], m.numbers[l.ID] = l, m.buried
	}
	return nil
}

func (m *memoryStore) Raise(_ context.Context, view, source string, cells []replicator.Cell) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range cells {
		delete(m.letters, view+" "+source+" "+c.String())
	}
	return nil
}

func (m *memoryStore) Known(_ context.Context, view, source string, cell replicator.Cell) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	id := view + " " + source + " " + cell.String()
	if _, has := m.letters[id]; !has {
		return 0, nil
	}
	return m.numbers[id], nil
}

func (m *memoryStore) RaiseKnown(_ context.Context, view, source string, cell replicator.Cell, number int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if id := view + " " + source + " " + cell.String(); m.numbers[id] == number {
		delete(m.letters, id)
	}
	return nil
}

func (m *memoryStore) List(_ context.Context, view string) iter.Seq2[replicator.DeadLetter, error] {
	m.mu.Lock()
	list := slices.Collect(maps.Values(m.letters))
	m.mu.Unlock()
	return func(yield func(replicator.DeadLetter, error) bool) {
		for _, l := range list {
			if (view == "" || l.View == view) && !yield(l, nil) {
				return
			}
		}
	}
}

// lettersOf returns the dead letters of a view.
func (m *memoryStore) lettersOf(view string) (letters []replicator.DeadLetter) {
	for l := range m.List(context.Background(), view) {
		letters = append(letters, l)
	}
	return letters
}

func (m *memoryStore) Drop(_ context.Context, ids []string) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		delete(m.letters, id)
	}
	return len(ids), nil
}

func (m *memoryStore) Count(context.Context) (map[string]int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	counts := map[string]int{}
	for _, l := range m.letters {
		counts[l.View]++
	}
	return counts, nil
}

func (m *memoryStore) Close() error { return nil }
