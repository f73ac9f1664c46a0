package changelog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"replicator"
	"replicator/internal/spill"
)

// Table is the newest record of every cell of a topic, or of some of its partitions. Most of it is in files without a
// name, so that memory stays small whatever the topic holds. It is filled from the topic, and lost with the process. It
// is safe for concurrent use.
type Table struct {
	cells *spill.Map

	mu     sync.Mutex
	next   map[int32]int64 // by partition: where reading goes on
	spread int             // the fewest partitions that a mark said; 0: there was none
}

// Entry is what a Table knows of a cell.
type Entry struct {
	State     replicator.State
	Shown     bool  // something is left of the cell
	Dead      bool  // its row could not be published
	Partition int32 // where the record stands
	Offset    int64
	Value     []byte // of the record; nil if nothing is left
}

// NewTable makes an empty table. dir is where its files take room; "": the system's place for such.
func NewTable(dir string) *Table { return &Table{cells: spill.New(dir), next: map[int32]int64{}} }

// Close removes the table.
func (t *Table) Close() error { return t.cells.Close() }

// Next is the offset at which reading a partition goes on: 0 at first.
func (t *Table) Next(partition int32) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.next[partition]
}

// Spread is over how many partitions cells are spread, as the marks say that were added, of whatever source; 0 if there
// was none. Partitions are only ever added to a topic, so the fewest are those that it began with. held reports whether
// anything was added.
func (t *Table) Spread() (partitions int, held bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.spread, len(t.next) > 0
}

// Add notes records of a source in the order of their partitions. Of marks it notes what Spread tells. The error names
// the record's place; it wraps ErrNotOurs for a record of another form, and ErrOtherOrigin for one of another source.
func (t *Table) Add(source string, records []*kgo.Record) error {
	for _, r := range records {
		if IsMark(r) {
			continue
		}
		if err := t.add(source, r); err != nil {
			return fmt.Errorf("the table of a topic's newest records: %w", err)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range records {
		t.next[r.Partition] = max(t.next[r.Partition], r.Offset+1)
		if !IsMark(r) {
			continue
		}
		if _, _, m, err := DecodeMark(r); err == nil && m != nil {
			t.spread = Fewest(t.spread, m.Partitions)
		}
	}
	return nil
}

func (t *Table) add(source string, r *kgo.Record) error {
	what, state, err := decodeHeaders(r)
	if err != nil || len(r.Key) == 0 {
		return fmt.Errorf("topic %s, partition %d, offset %d: %w", r.Topic, r.Partition, r.Offset,
			errors.Join(err, ErrNotOurs))
	}
	if of := SourceOf(r); of != source {
		return fmt.Errorf("topic %s, partition %d, offset %d: %w, of %s", r.Topic, r.Partition, r.Offset,
			ErrOtherOrigin, Origin(of))
	}
	return t.cells.Put(r.Key, appendEntry(make([]byte, 0, len(r.Value)+40), Entry{State: state, Partition: r.Partition,
		Offset: r.Offset, Shown: what == opPut || what == opReset, Dead: what == opDead, Value: r.Value}))
}

// Get gives each the entries of keys; ok is false for one that the table has none of. What each is given lives until it
// returns. It must not use the table.
func (t *Table) Get(keys [][]byte, each func(i int, e Entry, ok bool)) error {
	var wrong error
	err := t.cells.Get(keys, func(i int, stored []byte, ok bool) {
		e := Entry{State: replicator.Unseen}
		if ok {
			var err error
			if e, err = readEntry(stored); err != nil {
				wrong = err
			}
		}
		if wrong == nil {
			each(i, e, ok)
		}
	})
	return errors.Join(err, wrong)
}

// Walk gives each the entries behind a key in the order of their keys, until each returns false; nil is before all keys.
// What each is given lives until it returns. It must not use the table.
func (t *Table) Walk(after []byte, each func(key []byte, e Entry) bool) error {
	var wrong error
	err := t.cells.Walk(after, func(key, stored []byte) bool {
		e, err := readEntry(stored)
		if err != nil {
			wrong = err
			return false
		}
		return each(key, e)
	})
	return errors.Join(err, wrong)
}

const (
	flagShown = 1 << iota
	flagDead
)

func appendEntry(b []byte, e Entry) []byte {
	var flags byte
	if e.Shown {
		flags |= flagShown
	}
	if e.Dead {
		flags |= flagDead
	}
	b = append(b, flags)
	for _, n := range []int64{e.State.Version + 1, e.State.Order, e.State.AsOf, int64(e.Partition), e.Offset} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return append(b, e.Value...)
}

func readEntry(b []byte) (e Entry, err error) {
	if len(b) == 0 {
		return e, errors.New("an entry is empty")
	}
	e.Shown, e.Dead, b = b[0]&flagShown != 0, b[0]&flagDead != 0, b[1:]
	var numbers [5]int64
	for i := range numbers {
		n, used := binary.Uvarint(b)
		if used <= 0 {
			return e, errors.New("an entry is cut short")
		}
		numbers[i], b = int64(n), b[used:]
	}
	e.State = replicator.State{Version: numbers[0] - 1, Order: numbers[1], AsOf: numbers[2]}
	e.Partition, e.Offset = int32(numbers[3]), numbers[4]
	if len(b) > 0 {
		e.Value = b
	}
	return e, nil
}
