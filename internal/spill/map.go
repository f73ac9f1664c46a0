// Package spill is a sorted map of byte strings that may outgrow memory. It lives as long as the process: its files
// have no names.
//
// New values gather in memory. Once they take spillAt bytes, they become a run: a file, sorted by key, that never
// changes. If several runs have a key, the newest run counts.
//
// A goroutine merges runs of similar sizes, so that there are few. Close waits for it. Each run has a filter in memory,
// which excludes nearly all keys that the run lacks. So a look-up reads few blocks from files. Filters and the first
// keys of blocks take about 4 bytes of memory a key.
//
// If a file can't be written, a call fails. Nothing is lost then, and a later call tries again.
package spill

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"math/bits"
	"slices"
	"sync"
)

// spillAt is how many bytes of entries gather in memory before they are written to a file, which is called a run.
const spillAt = 8 << 20

// Map is a sorted map of byte strings. Nothing can be removed from it. It is safe for concurrent use.
type Map struct {
	dir     string
	spillAt int
	seed    maphash.Seed

	mu      sync.Mutex
	changed sync.Cond         // signalled when a merge ends
	fresh   map[string][]byte // entries that are in no file yet
	size    int               // the size of the entries that are in no file yet, in bytes
	runs    []*run            // files of entries, the oldest first
	merging bool
	closed  bool
	err     error  // the error of a failed merge, until a call returns it; the merge is then tried again
	block   []byte // the last block read, whose memory is used again
}

// New makes an empty map. dir is the directory for its files; "": the system's directory for temporary files.
func New(dir string) *Map {
	m := &Map{dir: dir, spillAt: spillAt, seed: maphash.MakeSeed(), fresh: map[string][]byte{}}
	m.changed.L = &m.mu
	return m
}

// entryOverhead is the memory that an entry takes in addition to its key and value.
const entryOverhead = 64

// Put sets the value of a key. The caller must not change value afterwards, because the map does not copy it. If Put
// fails, the key has either the new or the old value.
func (m *Map) Put(key, value []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.usable(); err != nil {
		return err
	}
	m.size += len(key) + len(value) + entryOverhead // a replaced value is counted, too
	m.fresh[string(key)] = value
	if m.size < m.spillAt {
		return nil
	}
	return m.spill()
}

// usable returns an error if the map is closed or a merge failed. It returns a merge's error only once. m.mu is held.
func (m *Map) usable() error {
	if m.closed {
		return errors.New("the map is closed")
	}
	err := m.err
	m.err = nil
	return err
}

// Get looks up keys, and calls `each` with the value of every key; ok is false for a key without a value. The value is
// valid until `each` returns. `each` must not use the map.
func (m *Map) Get(keys [][]byte, each func(i int, value []byte, ok bool)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.usable(); err != nil {
		return err
	}
	for i, key := range keys {
		value, ok, err := m.get(key)
		if err != nil {
			return err
		}
		each(i, value, ok)
	}
	return nil
}

// get looks a key up. The value is valid until the next call. m.mu is held.
func (m *Map) get(key []byte) (value []byte, ok bool, err error) {
	if value, ok = m.fresh[string(key)]; ok {
		return value, true, nil
	}
	hash := maphash.Bytes(m.seed, key)
	for _, r := range slices.Backward(m.runs) {
		if !r.filter.may(hash) {
			continue
		}
		if value, ok, m.block, err = r.get(key, m.block); ok || err != nil {
			return value, ok, err
		}
	}
	return nil, false, nil
}

// Walk calls `each` for every entry after the key `after`, in key order, until `each` returns false. If `after` is nil,
// Walk begins at the first key. The entry is valid until `each` returns. `each` must not use the map.
func (m *Map) Walk(after []byte, each func(key, value []byte) bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.usable(); err != nil {
		return err
	}
	all := make([]input, 0, len(m.runs)+1)
	for _, r := range m.runs {
		all = append(all, &cursor{run: r, block: max(r.blockOf(after), 0)})
	}
	fresh := &inMemory{values: m.fresh, keys: make([]string, 0, len(m.fresh)), at: -1}
	for key := range m.fresh {
		if key >= string(after) {
			fresh.keys = append(fresh.keys, key)
		}
	}
	slices.Sort(fresh.keys)
	return merge(append(all, fresh), func(key, value []byte) (bool, error) {
		return after != nil && bytes.Compare(key, after) <= 0 || each(key, value), nil
	})
}

// Close ends merging, and removes the files.
func (m *Map) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	for m.merging {
		m.changed.Wait()
	}
	err := closeAll(m.runs)
	m.runs, m.fresh = nil, nil
	return err
}

func closeAll(runs []*run) (err error) {
	for _, r := range runs {
		err = errors.Join(err, r.file.Close())
	}
	return err
}

// spill writes the entries in memory to a run, which is a sorted file. m.mu is held.
func (m *Map) spill() error {
	for m.merging && len(m.runs) >= mostRuns {
		m.changed.Wait()
	}
	if err := m.usable(); err != nil {
		return err
	}
	w, err := newRun(m.dir, m.seed, len(m.fresh))
	if err != nil {
		return fmt.Errorf("a file of new entries: %w", err)
	}
	for _, key := range slices.Sorted(maps.Keys(m.fresh)) {
		if err := w.add([]byte(key), m.fresh[key]); err != nil {
			return errors.Join(fmt.Errorf("writing new entries: %w", err), w.file.Close())
		}
	}
	r, err := w.end()
	if err != nil {
		return errors.Join(fmt.Errorf("writing new entries: %w", err), w.file.Close())
	}
	m.runs = append(m.runs, r)
	clear(m.fresh)
	m.size = 0
	m.tidy()
	return nil
}

// mostRuns limits the number of runs, the map's files: if there are that many, a new run waits for a merge.
const mostRuns = 40

// mergedAtOnce is how many runs (files) of similar sizes are merged into one.
const mergedAtOnce = 4

// tidy starts a merge, if one is due and none is running. m.mu is held.
func (m *Map) tidy() {
	from := m.due()
	if m.merging || m.closed || from < 0 {
		return
	}
	m.merging = true
	old := slices.Clone(m.runs[from:])
	go m.mergeRuns(from, old)
}

// due returns the index of the oldest run to merge; -1 if no merge is due. All later runs are to be merged with it. If
// the runs after the first are together as large as the first, all are due, so the files hold little more than twice
// the current entries. Otherwise the newest runs are due, once mergedAtOnce of them have similar sizes.
func (m *Map) due() int {
	newer := int64(0)
	for _, r := range m.runs[min(1, len(m.runs)):] {
		newer += r.size
	}
	if len(m.runs) > 1 && newer >= m.runs[0].size {
		return 0
	}
	from, tier, same := -1, 0, 0
	for i, r := range slices.Backward(m.runs) {
		switch t := m.tier(r); {
		case t > tier && from >= 0:
			return from
		case t > tier:
			tier, same = t, 1
		case t == tier:
			same++
		}
		if same >= mergedAtOnce { // from i on, enough runs are of this tier, and none is of a higher one
			from = i
		}
	}
	return from
}

// tier rates a run (a file of entries) by its size: 0 for a file that was never merged, 1 for about mergedAtOnce of
// these in one file, 2 for about mergedAtOnce files of tier 1, and so on.
func (m *Map) tier(r *run) int { return bits.Len64(uint64(r.size)/uint64(m.spillAt)) / 2 }

// mergeRuns merges the files `old`, which are those of m.runs from the index `from` on, into one file. Meanwhile,
// m.runs may get more files at its end, but does not change otherwise.
func (m *Map) mergeRuns(from int, old []*run) {
	merged, err := m.mergeAll(old)
	m.mu.Lock()
	defer m.mu.Unlock()
	defer m.changed.Broadcast()
	m.merging = false
	if err != nil {
		if !errors.Is(err, errClosed) {
			m.err = fmt.Errorf("merging files: %w", err)
		}
		return
	}
	m.runs = slices.Replace(m.runs, from, from+len(old), merged)
	if err := closeAll(old); err != nil {
		m.err = err
	}
	m.tidy()
}

var errClosed = errors.New("closed")

func (m *Map) mergeAll(old []*run) (*run, error) {
	all, count := make([]input, len(old)), 0
	for i, r := range old {
		all[i], count = &cursor{run: r}, count+r.count
	}
	w, err := newRun(m.dir, m.seed, count)
	if err != nil {
		return nil, err
	}
	passed := 0
	err = merge(all, func(key, value []byte) (bool, error) {
		if passed++; passed%1000 == 0 && m.isClosed() {
			return false, errClosed
		}
		return true, w.add(key, value)
	})
	if err == nil {
		var r *run
		if r, err = w.end(); err == nil {
			return r, nil
		}
	}
	return nil, errors.Join(err, w.file.Close())
}

func (m *Map) isClosed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.closed
}
