package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"replicator"
	"replicator/internal/changelog"
)

// Publisher is the program that writes a changelog, as TOPIC.marks describes it.
type Publisher struct {
	Source     string              // name of the shard that the publisher reads; "" without shards
	Partitions int                 // number of partitions that hold cells; partitions added later hold none
	At         replicator.Position // how far the publisher has read its database; zero: it has not recorded a position yet
}

// ErrUnmarked means that a topic has no record of a publisher's progress: no publisher has started yet, or the record
// was deleted.
var ErrUnmarked = errors.New("no publisher (a sink of type kafka) has recorded its progress in the topic yet")

// Publisher tells who writes a topic. The error wraps ErrUnmarked if no publisher has recorded its progress yet. It is
// Fatal if the topic holds rows of several databases.
func (c *Cluster) Publisher(ctx context.Context, topic string) (p Publisher, err error) {
	name := topic + changelog.MarksSuffix
	if _, err := c.Topic(ctx, name); errors.Is(err, errNoTopic) {
		return p, fmt.Errorf("topic %s: %w: %w", topic, ErrUnmarked, err)
	} else if err != nil {
		return p, err
	}
	end, err := c.end(ctx, name, 0)
	if err != nil {
		return p, err
	}
	type owner struct{ view, source string }
	found := map[owner]*changelog.Mark{}
	err = changelog.Read(ctx, c.options, name, nil, map[int32]int64{0: end}, func(records []*kgo.Record) error {
		for _, r := range records {
			view, source, mark, err := changelog.DecodeMark(r)
			if err != nil {
				return fmt.Errorf("topic %s, offset %d: %w", name, r.Offset, err)
			}
			if delete(found, owner{view, source}); mark != nil {
				found[owner{view, source}] = mark
			}
		}
		return nil
	})
	marked := false
	for of, mark := range found {
		if marked && p.Source != of.source {
			return p, twoOrigins(topic, min(p.Source, of.source), max(p.Source, of.source))
		}
		marked, p = true, Publisher{of.source, mark.Partitions, mark.Standing.Position}
	}
	switch {
	case err != nil:
	case !marked:
		err = fmt.Errorf("topic %s: %w", topic, ErrUnmarked)
	case p.Partitions <= 0:
		err = fmt.Errorf("topic %s: the publisher's mark does not say how many partitions hold cells. Make sure that "+
			"no other program writes to the topic", name)
	}
	return p, err
}

// PartitionOf returns the number of a cell's partition.
func (p Publisher) PartitionOf(c replicator.Cell) int { return changelog.Partition(c, p.Partitions) }

// Origin returns how far the publisher has read its database, according to a partition's position; zero: not known.
func Origin(p replicator.Position) replicator.Position {
	t, err := parseToken(p.Token)
	if err != nil {
		return replicator.Position{}
	}
	return t.Mark.Position
}

// Partitions returns the names of the topics' sources, one for each partition that holds cells. A topic whose publisher
// has recorded no progress yet has no sources.
func (c *Cluster) Partitions(ctx context.Context, topics ...string) (names []string, err error) {
	for _, topic := range topics {
		p, err := c.Publisher(ctx, topic)
		if err != nil && !errors.Is(err, ErrUnmarked) {
			return nil, err
		}
		for n := range p.Partitions {
			names = append(names, name(topic, int32(n)))
		}
	}
	return names, nil
}
