package changelog

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"replicator"
)

// Record is what a changelog says about a cell.
type Record struct {
	Cell replicator.Cell

	// State is the cell's state from this record on. If State.Order equals State.AsOf and is not 0, the record comes
	// from a re-read. Otherwise it is a put, and State.AsOf is the log position of an earlier re-read; 0: there was
	// none.
	State replicator.State

	// Row is the newest row; nil if the cell is gone or the view leaves it out. Its Cell, Version and Order are equal
	// to those of Record.Cell and Record.State.
	Row *replicator.Row

	// Codec is the configured codec of Row.Body.
	Codec string

	// Body is the decoded Row.Body, for readers without the codec; nil if it can't be decoded. Decode does not set it.
	Body any

	Source string // the name of the shard that the row is from; "" without shards

	// Dead says why the row could not be published; "" if it was published. With Dead, Row is nil.
	Dead string
}

// Reset reports whether the record comes from a re-read.
func (r *Record) Reset() bool { return r.State.AsOf != 0 && r.State.Order == r.State.AsOf }

// ErrNotOurs means that a record does not have a changelog's form.
var ErrNotOurs = errors.New("it is not a record of a changelog")

// ErrOtherOrigin means that a topic for one source holds another source's record.
var ErrOtherOrigin = errors.New("it is a record of another source")

// Origin names a record's source for users.
func Origin(source string) string {
	if source == "" {
		return "a source without shards"
	}
	return "shard " + source
}

func notOurs(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrNotOurs, fmt.Sprintf(format, args...))
}

const (
	opPut   = "put"
	opReset = "reset"
	opGone  = "gone" // instead of put or reset: the cell has no row left
	opDead  = "dead" // instead of put or reset: the row can't be published
	opMark  = "mark"
)

const (
	headerOp      = "op"
	headerVersion = "version"
	headerOrder   = "order"
	headerAsOf    = "as_of"
	headerSource  = "source" // the name of the shard that the row is from; empty without shards
)

// Partition returns a cell's partition in a topic that had n partitions when it was first written. It hashes the key's
// values, as the JSON array in a record's key, with 64-bit FNV-1a, folds the hash to 32 bits, and takes it modulo n.
// The table's name does not count, because a view may merge cells of several tables. The sink can merge them only in
// one partition, because each partition is read as a separate source.
func Partition(cell replicator.Cell, n int) int {
	h := uint64(14695981039346656037)
	for _, c := range appendKeyValues(make([]byte, 0, 128), cell.Key) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return int((h ^ h>>32) & 0xffffffff % uint64(n))
}

// SourceOf returns the origin that a record names.
func SourceOf(r *kgo.Record) string { return string(header(r, headerSource)) }

// IsMark reports whether a record's headers say that it is a mark.
func IsMark(r *kgo.Record) bool { return string(header(r, headerOp)) == opMark }

func header(r *kgo.Record, name string) []byte {
	for _, h := range r.Headers {
		if h.Key == name {
			return h.Value
		}
	}
	return nil
}
