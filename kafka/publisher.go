package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"replicator"
	"replicator/internal/changelog"
)

// Publisher is what a topic of marks says of one that writes a changelog.
type Publisher struct {
	Source     string // the origin's shard
	Partitions int    // that cells are spread over: those that were added later hold none
}

// Publishers asks who writes a topic.
func (c *Cluster) Publishers(ctx context.Context, topic string) ([]Publisher, error) {
	name := topic + changelog.MarksSuffix
	if _, err := c.Topic(ctx, name); err != nil {
		return nil, err
	}
	end, err := c.end(ctx, name, 0)
	if err != nil {
		return nil, err
	}
	found := map[string]Publisher{}
	err = changelog.Read(ctx, c.options, name, nil, map[int32]int64{0: end}, func(records []*kgo.Record) error {
		for _, r := range records {
			view, source, mark, err := changelog.DecodeMark(r)
			if err != nil {
				return fmt.Errorf("topic %s, offset %d: %w", name, r.Offset, err)
			}
			if delete(found, view+"\x00"+source); mark != nil {
				found[view+"\x00"+source] = Publisher{Source: source, Partitions: mark.Partitions}
			}
		}
		return nil
	})
	var all []Publisher
	for _, p := range found {
		if p.Partitions <= 0 {
			err = errors.Join(err, fmt.Errorf("topic %s does not say over how many partitions cells are spread", name))
		}
		all = append(all, p)
	}
	return all, err
}

// PartitionOf is the number of a cell's partition.
func (p Publisher) PartitionOf(c replicator.Cell) int { return changelog.Partition(c, p.Partitions) }

// Origin is how far a position of a partition is with a shard of the origin ("": of one without shards); zero if
// nothing is known of that.
func Origin(p replicator.Position, shard string) replicator.Position {
	t, err := parseToken(p.Token)
	if err != nil {
		return replicator.Position{}
	}
	return t.Marks[shard]
}
