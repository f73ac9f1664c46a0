package changelog

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"replicator"
)

// Record is what a changelog says of a cell.
type Record struct {
	Cell replicator.Cell

	// State is that of the cell from here on. Where Order is AsOf, and not 0, the record is what a look found; else it is
	// a put, and AsOf tells of the last look before it.
	State replicator.State

	// Row is the newest row; nil if nothing is left of the cell, or its view leaves it out. Of the row's own fields Cell,
	// Version and Order are those above.
	Row *replicator.Row

	// Codec is how Row.Body is encoded: a codec's name in the configuration.
	Codec string

	// Body is Row.Body decoded, for readers that don't know the codec; nil if it can't be. What Decode returns has none.
	Body any

	Source string // the origin: the shard's name; "" where there are no shards

	// Dead says why the row could not be published; "" if it was. There is no Row then.
	Dead string
}

// Reset reports whether the record is what a look found.
func (r *Record) Reset() bool { return r.State.AsOf != 0 && r.State.Order == r.State.AsOf }

// Op is the operation that the record stands for, without values.
func (r *Record) Op() replicator.Op {
	if r.Reset() {
		return replicator.Op{Cell: r.Cell, Version: r.State.Version, AsOf: r.State.AsOf}
	}
	return replicator.Op{Cell: r.Cell, Version: r.State.Version, Order: r.State.Order}
}

// ErrNotOurs: a record has not the form of a changelog's.
var ErrNotOurs = errors.New("it is no record of a changelog")

// ErrOtherOrigin: a topic that is kept for one source holds a record of another one.
var ErrOtherOrigin = errors.New("it is a record of another source")

// Origin names a record's source to a person.
func Origin(source string) string {
	if source == "" {
		return "a source without shards"
	}
	return "shard " + source
}

func notOurs(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrNotOurs, fmt.Sprintf(format, args...))
}

// What the header op says.
const (
	opPut   = "put"
	opReset = "reset"
	opGone  = "gone" // of either: nothing is left
	opDead  = "dead" // of either: it can't be published
	opMark  = "mark"
)

// The names of headers.
const (
	headerOp      = "op"
	headerVersion = "version"
	headerOrder   = "order"
	headerAsOf    = "as_of"
	headerSource  = "source" // the origin: the shard's name, empty where there are no shards
)

// Partition is the partition of a cell in a topic that had n when it was first written to: that of its key's values,
// […], by FNV-1a of 64 bits, folded to 32, modulo n. The table does not count: a view may merge what several tables
// have of an entity, and a sink merges only what comes from one source, which a partition is.
func Partition(cell replicator.Cell, n int) int {
	h := uint64(14695981039346656037)
	for _, c := range appendKeyValues(make([]byte, 0, 128), cell.Key) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return int((h ^ h>>32) & 0xffffffff % uint64(n))
}

// SourceOf is the origin that a record names.
func SourceOf(r *kgo.Record) string { return header(r, headerSource) }

// IsMark reports whether a record is a mark, by its headers.
func IsMark(r *kgo.Record) bool { return header(r, headerOp) == opMark }

func header(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}
