package changelog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// silence is after how long without anything new reading fails. The last record before an end is always there to be
// read: it stands in the segment that is written to, which compaction leaves alone, and so does what follows it later.
const silence = 30 * time.Second

// Read reads records of a topic that were committed, by partition from an offset up to, not including, another one, and
// gives them to each, piece by piece. What lies before the log's beginning is passed over. A broker that stalls is an
// error: what was not read might say that a state is another one.
func Read(
	ctx context.Context, options []kgo.Opt, topic string, from, to map[int32]int64, each func([]*kgo.Record) error,
) error {
	at, left := map[int32]kgo.Offset{}, map[int32]int64{}
	for partition, end := range to {
		if from[partition] < end {
			at[partition], left[partition] = kgo.NewOffset().At(from[partition]), end
		}
	}
	if len(left) == 0 {
		return nil
	}
	client, err := kgo.NewClient(append(options[:len(options):len(options)],
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: at}), kgo.KeepControlRecords(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(100*time.Millisecond))...)
	if err != nil {
		return err
	}
	defer client.CloseAllowingRebalance()
	for len(left) > 0 {
		quiet, cancel := context.WithTimeout(ctx, silence)
		fetches := client.PollFetches(quiet)
		cancel()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := fetches.Err(); errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("reading topic %s: nothing came for %s, and partitions %v are not read to their end", topic,
				silence, slices.Sorted(maps.Keys(left)))
		} else if err != nil {
			return fmt.Errorf("reading topic %s: %w", topic, err)
		}
		var records []*kgo.Record
		fetches.EachRecord(func(r *kgo.Record) {
			end, reading := left[r.Partition]
			if reading && r.Offset < end && !r.Attrs.IsControl() {
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
