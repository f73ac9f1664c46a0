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

	// State is the cell's state after this record. If State.Order equals State.AsOf and is not 0, the record is the result
	// of a re-read of the cell in the source. Otherwise State.AsOf is the log position of an earlier re-read, or 0.
	State replicator.State

	// Row is the newest row; nil if the cell is gone or the view leaves it out.
	Row *replicator.Row

	// Codec is the configured codec of Row.Body.
	Codec string

	// Body is the decoded Row.Body, for readers without the codec; nil if it can't be decoded. Decode does not set it.
	Body any

	Source string // the name of the shard that the row is from; "" without shards

	// Dead says why the row could not be published; "" if it was published. With Dead, Row is nil.
	Dead string
}

// Reset reports whether the record is the result of a re-read of the cell in the source.
func (r *Record) Reset() bool { return r.State.AsOf != 0 && r.State.Order == r.State.AsOf }

// ErrNotOurs means that a record does not have a changelog's form.
var ErrNotOurs = errors.New("it is not a record of a changelog")

// ErrOtherOrigin means that a topic for one source holds another source's record.
var ErrOtherOrigin = errors.New("it is a record of another source")

// Origin describes a shard, or a source without shards, for messages.
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
	opGone  = "gone" // only in the header: the cell has no row that the view shows
	opDead  = "dead" // only in the header: the row can't be published
	opMark  = "mark"
)

const (
	headerOp      = "op"
	headerVersion = "version"
	headerOrder   = "order"
	headerAsOf    = "as_of"
	headerSource  = "source"
)

// Partition returns a cell's partition in a topic that had n partitions when it was first written: a hash of the key's
// values (64-bit FNV-1a, folded to 32 bits), modulo n. The table's name does not count, because a view may merge cells
// of several tables, and can merge them only in one partition.
func Partition(cell replicator.Cell, n int) int {
	h := uint64(14695981039346656037)
	for _, c := range appendKeyValues(make([]byte, 0, 128), cell.Key) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return int((h ^ h>>32) & 0xffffffff % uint64(n))
}

// SourceOf returns the name of the shard that a record is from; "" without shards.
func SourceOf(r *kgo.Record) string { return string(header(r, headerSource)) }

// IsMark reports whether a record is a mark, which is a view's progress, and not a cell's record.
func IsMark(r *kgo.Record) bool { return string(header(r, headerOp)) == opMark }

func header(r *kgo.Record, name string) []byte {
	for _, h := range r.Headers {
		if h.Key == name {
			return h.Value
		}
	}
	return nil
}
