package kafka

import (
	"context"
	"fmt"

	"replicator"
)

var _ replicator.Emptier = (*Sink)(nil)

// Left implements replicator.Emptier. A topic is never removed, because other programs may read it and continue from
// its records.
func (s *Sink) Left(_ context.Context, view string) ([]replicator.Leftover, error) {
	for _, v := range s.cfg.Views {
		if v.Name == view {
			return nil, replicator.Fatal(fmt.Errorf("the topic of view %s is not removed, because other programs "+
				"may read it. Delete it with Kafka's own tool (kafka-topics.sh --delete)", view))
		}
	}
	return nil, nil
}

// Empty implements replicator.Emptier. It never removes anything, and fails for a configured view.
func (s *Sink) Empty(ctx context.Context, view string) error {
	_, err := s.Left(ctx, view)
	return err
}
