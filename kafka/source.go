package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"replicator"
	"replicator/internal/changelog"
	"replicator/internal/kafkaclient"
)

// Config says which partition to read, and how.
type Config struct {
	Topic     string
	Partition int32
	Tables    []replicator.Table // the tables to deliver; their Database, Table, Version and Offset are ignored
	Covers    Covers
}

// Source is one partition of a changelog topic. Several goroutines may use it.
type Source struct {
	cluster *Cluster
	cfg     Config
	stats   stats

	partitions atomic.Int32 // number of partitions that hold cells, as the publisher has recorded it; 0: not read yet
}

var (
	_ replicator.Changelog = (*Source)(nil)
	_ replicator.Reader    = (*Reader)(nil)
)

type stats struct{ records, bytes, changes atomic.Int64 }

// Stats counts what a source's readers have read since the source was made.
type Stats struct {
	Records, Bytes int64
	Changes        int64
}

// Source makes the source of a partition. It sends no request.
func (c *Cluster) Source(cfg Config) *Source { return &Source{cluster: c, cfg: cfg} }

// Name returns the source's name: TOPIC/PARTITION.
func (s *Source) Name() string { return name(s.cfg.Topic, s.cfg.Partition) }

// Close does nothing, because the connections belong to the cluster and the readers.
func (s *Source) Close() error { return nil }

// Stats returns what the source's readers have read so far.
func (s *Source) Stats() Stats {
	return Stats{Records: s.stats.records.Load(), Bytes: s.stats.bytes.Load(), Changes: s.stats.changes.Load()}
}

// Latest implements replicator.Source. It is the offset after the last committed record.
func (s *Source) Latest(ctx context.Context, _ []replicator.Position) (replicator.Position, error) {
	topic, at, err := s.ask(ctx)
	if err != nil {
		return replicator.Position{}, err
	}
	return s.token(topic, at.next, mark{}, time.Now()).position(), nil
}

// Oldest implements replicator.Source. It fails if the partition no longer begins at its first record, because views
// would lack the removed records.
func (s *Source) Oldest(ctx context.Context, _ []replicator.Position) (replicator.Position, error) {
	topic, at, err := s.ask(ctx)
	if err != nil {
		return replicator.Position{}, err
	}
	if at.first > 0 {
		return replicator.Position{}, replicator.Fatal(fmt.Errorf("the partition begins at offset %d: "+
			"earlier records were removed, so no view can be filled from it. Set cleanup.policy=compact, and have the "+
			"publisher's view rebuilt in a new topic", at.first))
	}
	return s.token(topic, 0, mark{}, time.Time{}).position(), nil
}

// ask returns the topic, and the partition's first and next offsets. It fails if the topic's cleanup.policy may remove
// the newest row of a cell.
func (s *Source) ask(ctx context.Context) (Topic, ends, error) {
	topic, err := s.cluster.Topic(ctx, s.cfg.Topic)
	if err != nil {
		return topic, ends{}, err
	}
	if !topic.Compacted || topic.Deletes {
		return topic, ends{}, replicator.Fatal(fmt.Errorf("topic %s does not keep the newest row of every "+
			"cell, because its cleanup.policy is not compact alone. Set cleanup.policy=compact, and have the "+
			"publisher's view rebuilt",
			topic.Name))
	}
	at, err := s.cluster.ends(ctx, s.cfg.Topic, s.cfg.Partition)
	return topic, at, err
}

func (s *Source) token(topic Topic, offset int64, m mark, at time.Time) token {
	t := token{Topic: topic.Name, ID: topic.ID, Partition: s.cfg.Partition, Offset: offset, Mark: m,
		Partitions: s.partitions.Load()}
	if !at.IsZero() {
		t.Time = at.Truncate(timeStep).Unix()
	}
	return t
}

// Open implements replicator.Source. The reader begins at the lowest of the positions `at`.
func (s *Source) Open(ctx context.Context, at []replicator.Position, tables ...string) (replicator.Reader, error) {
	if len(at) == 0 {
		return nil, errors.New("kafka: Source.Open was called without a position")
	}
	topic, log, err := s.ask(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range at {
		if err := s.mayGoOn(p, topic, log); err != nil {
			return nil, err
		}
	}
	start, err := parseToken(slices.MinFunc(at, func(a, b replicator.Position) int {
		return cmp.Compare(a.Order, b.Order)
	}).Token)
	if err != nil {
		return nil, err
	}
	client, err := s.cluster.consume(s.cfg.Topic, s.cfg.Partition, start.Offset)
	if err != nil {
		return nil, err
	}
	return newReader(s, client, topic, start, tables), nil
}

// mayGoOn returns an error that wraps ErrLost if the log can't be read from a position.
func (s *Source) mayGoOn(p replicator.Position, topic Topic, log ends) error {
	t, err := parseToken(p.Token)
	if err != nil {
		return err
	}
	lost := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", replicator.ErrLost, fmt.Sprintf(format, args...))
	}
	age := time.Since(time.Unix(t.Time, 0))
	switch {
	case t.Topic != topic.Name || t.Partition != s.cfg.Partition:
		return replicator.Fatal(fmt.Errorf("the checkpoint is a position in %s, but the source is %s. To read another "+
			"topic, see docs/scale.md, \"Another topic\"", name(t.Topic, t.Partition), s.Name()))
	case t.ID != topic.ID:
		return lost("the topic was deleted and created again since it was read")
	case t.Offset > log.next:
		return lost("the partition ends at offset %d, and was read up to %d: the brokers lost records that they had "+
			"acknowledged",
			log.next, t.Offset)
	case t.Offset < log.first:
		return lost("the partition was read up to offset %d, and now begins at %d: the records between were removed, "+
			"so no view can be filled from it. First let the publisher publish to another topic, and list that topic "+
			"in [source] topics of all replicators that read it (docs/scale.md, \"Another topic\")",
			t.Offset, log.first)
	case t.Offset > 0 && t.Time > 0 && t.Offset < log.next && age > topic.Tombstones:
		return lost("the partition was last read %s ago, but keeps the records of deleted cells only for %s "+
			"(delete.retention.ms), so deletes may have been missed", age.Round(time.Minute), topic.Tombstones)
	}
	return nil
}

// fetchBytes is how much a fetch returns, before decompression. A process has a client for each partition that it
// reads. With the default of 1 MiB, fetched records that wait to be handled would make up most of the heap.
const fetchBytes = 256 << 10

func (c *Cluster) consume(topic string, partition int32, from int64) (*kafkaclient.Client, error) {
	options := append(slices.Clip(c.options),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(from)}}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(),                    // the last offset of a partition may be a control record's
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), // if the offset is out of range, fail
		kgo.FetchMaxWait(500*time.Millisecond),
		kgo.FetchMaxPartitionBytes(fetchBytes),
	)
	client, err := kafkaclient.New(options...)
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	return client, nil
}

// Includes implements replicator.Source. A partition is one log, so a higher offset includes a lower one.
func (s *Source) Includes(p, q replicator.Position) bool { return p.Order >= q.Order }

// Identities implements replicator.Source. It returns none, because the publisher decides which rows are one cell.
func (s *Source) Identities(context.Context, []string) (map[string]string, error) { return nil, nil }

// Holds implements replicator.Changelog. It reports whether the publisher writes the cell to this partition.
func (s *Source) Holds(c replicator.Cell) bool {
	n := s.partitions.Load()
	return n > 0 && changelog.Partition(c, int(n)) == int(s.cfg.Partition)
}

// SameKeys implements replicator.Source. It checks nothing, because only the publisher's source knows the column types.
func (s *Source) SameKeys(context.Context, []string) error { return nil }
