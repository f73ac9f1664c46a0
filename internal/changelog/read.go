package changelog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"replicator/internal/kafkaclient"
)

// silence is how long a read waits for the next record before it fails. A read of a partition ends at the first record
// at or after the last offset to read. Such a record always exists: Kafka does not compact the active segment, which
// has the partition's last record.
const silence = 30 * time.Second

// Read reads committed records of a topic, in each partition from one offset up to another, which it excludes. It
// passes them in batches to `each`. A broker that stalls and a transaction that stays open are errors, because a record
// that is not read might change a state.
func Read(
	ctx context.Context, options []kgo.Opt, topic string, from, to map[int32]int64, each func([]*kgo.Record) error,
) error {
	return read(ctx, options, kgo.ReadCommitted(), topic, from, to, func(records []*kgo.Record) error {
		return each(slices.DeleteFunc(records, func(r *kgo.Record) bool { return r.Attrs.IsControl() }))
	})
}

// ReadPast is like Read for one partition, but leaves out the records of open transactions instead of waiting. A killed
// publisher leaves such a transaction until its successor or the cluster ends it. ReadPast returns the offset at which
// to continue later: the end, or the start of the first open transaction.
func ReadPast(ctx context.Context, options []kgo.Opt, topic string, partition int32, from, to int64,
	each func([]*kgo.Record) error) (next int64, err error) {
	open := map[int64][]*kgo.Record{} // the records of open transactions, by producer
	err = read(ctx, options, kgo.ReadUncommitted(), topic,
		map[int32]int64{partition: from}, map[int32]int64{partition: to}, func(records []*kgo.Record) error {
			var settled []*kgo.Record
			for _, r := range records {
				switch {
				case r.Attrs.IsControl():
					if isCommit(r) {
						settled = append(settled, open[r.ProducerID]...)
					}
					delete(open, r.ProducerID)
				case r.Attrs.IsTransactional():
					open[r.ProducerID] = append(open[r.ProducerID], r)
				default:
					settled = append(settled, r)
				}
			}
			return each(settled)
		})
	next = max(from, to)
	for _, records := range open {
		next = min(next, records[0].Offset)
	}
	return next, err
}

// isCommit reports whether a control record is a commit, not an abort. The record's key is a version and a type, of 16
// bits each (EndTransactionMarker in Kafka's protocol).
func isCommit(r *kgo.Record) bool { return len(r.Key) >= 4 && binary.BigEndian.Uint16(r.Key[2:]) == 1 }

// read reads all records that an isolation level shows, and the control records. It passes them in batches to `each`.
func read(ctx context.Context, options []kgo.Opt, isolation kgo.IsolationLevel, topic string, from, to map[int32]int64,
	each func([]*kgo.Record) error) error {
	at, left := map[int32]kgo.Offset{}, map[int32]int64{}
	for partition, end := range to {
		if from[partition] < end {
			at[partition], left[partition] = kgo.NewOffset().At(from[partition]), end
		}
	}
	if len(left) == 0 {
		return nil
	}
	client, err := kafkaclient.New(append(options[:len(options):len(options)],
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: at}), kgo.KeepControlRecords(),
		kgo.FetchIsolationLevel(isolation), kgo.FetchMaxWait(100*time.Millisecond))...)
	if err != nil {
		return err
	}
	defer client.Close()
	for len(left) > 0 {
		quiet, cancel := context.WithTimeout(ctx, silence)
		fetches := client.PollFetches(quiet)
		cancel()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := fetches.Err(); errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("reading topic %s: no records came for %s, and partitions %v have not been read to "+
				"their ends", topic, silence, slices.Sorted(maps.Keys(left)))
		} else if err != nil {
			return fmt.Errorf("reading topic %s: %w", topic, err)
		}
		var records []*kgo.Record
		fetches.EachRecord(func(r *kgo.Record) {
			end, reading := left[r.Partition]
			if reading && r.Offset < end {
				records = append(records, r)
			}
			if reading && r.Offset >= end-1 {
				delete(left, r.Partition)
			}
		})
		if err := each(records); err != nil {
			return err
		}
	}
	return nil
}
