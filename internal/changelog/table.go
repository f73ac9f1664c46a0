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

// Table holds the newest record of every cell of a topic, or of some partitions. Most of it is in temporary files, so
// it takes little memory. It is safe for concurrent use.
type Table struct {
	cells *spill.Map

	mu     sync.Mutex
	next   map[int32]int64 // by partition: the offset at which to continue reading
	spread int             // the lowest Mark.Partitions of all marks read; 0: no mark yet
}

// Entry is the content of a cell's newest record.
type Entry struct {
	State     replicator.State
	Shown     bool // the cell has a row that the view shows
	Dead      bool // the cell's row could not be published
	Partition int32
	Offset    int64
	Value     []byte // the record's value; nil if the cell is gone
}

// NewTable makes an empty table. dir is the directory for its files; "": the system's directory for temporary files.
func NewTable(dir string) *Table { return &Table{cells: spill.New(dir), next: map[int32]int64{}} }

// Close removes the table's temporary files.
func (t *Table) Close() error { return t.cells.Close() }

// Next returns the offset at which to continue reading a partition; 0 at first.
func (t *Table) Next(partition int32) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.next[partition]
}

// Spread returns how many partitions the topic's cells are spread over: the lowest Mark.Partitions of the marks that
// were added, because partitions that a topic gains later get no cells. It returns 0 if no mark was added. held reports
// whether any record was added.
func (t *Table) Spread() (partitions int, held bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.spread, len(t.next) > 0
}

// Add adds records of a source; those of one partition must be in order. The error wraps ErrNotOurs for a record that
// Encode did not make, and ErrOtherOrigin for another source's record.
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

// Get looks up keys, and calls `each` once for every key; ok is false if the key has no entry. The entry is valid until
// `each` returns. `each` must not use the table.
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

// Walk calls `each` for every entry after the key `after`, in key order, until `each` returns false. If `after` is nil,
// Walk begins at the first key. The entry is valid until `each` returns. `each` must not use the table.
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
