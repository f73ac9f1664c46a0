package kafka

import (
	"context"
	"fmt"

	"replicator"
	"replicator/internal/changelog"
)

// Why a topic holds one view of one source: readers trust that all changes up to the position in the last mark are
// published. A second view's mark would cover changes that the first view has not written yet, and the positions of two
// sources can't be ordered.

// rival returns a fault if any of the marks belongs to another view or source than `of`, and nil otherwise. Marks of a
// deleted topic of the same name don't count.
func (t *topic) rival(marks map[place]found, of place) *fault {
	var other *place
	for at, m := range marks {
		stands := m.err != nil || m.mark != nil && m.mark.Topic == t.id
		if at != of && stands && (other == nil || at.view < other.view) {
			other = &at
		}
	}
	switch {
	case other == nil:
		return nil
	case other.source != of.source:
		return &fault{
			error: fmt.Errorf("topic %s belongs to view %s of %s, and a topic can hold the cells of only one "+
				"source", t.name,
				other.view, changelog.Origin(other.source)),
			level: replicator.Fail,
			fix:   "name another topic. With [source.shards], the topic's name must contain " + sourceName,
		}
	}
	return &fault{
		error: fmt.Errorf("topic %s belongs to view %s, and readers can't tell the marks of two views apart", t.name,
			other.view),
		level: replicator.Fail,
		fix: fmt.Sprintf("name a separate topic for each view. If view %[1]s is gone (it was renamed, for example), "+
			"run `replicator checkpoint forget %[1]s` with a configuration file that still has this view", other.view),
	}
}

// alone returns an error if any of the topic's records of progress (marks) belongs to a different view or source.
func (k *keeper) alone(marks map[place]found) error {
	rival := k.topic.rival(marks, place{k.source, k.view.Name})
	if rival == nil {
		return nil
	}
	return replicator.OfView(replicator.Fatal(fmt.Errorf("sink %s: view %s: %w: %s", k.sink.cfg.Name, k.view.Name,
		rival.error, rival.fix)), k.view.Name)
}

// checkMarks returns a fault if a topic's marks can't be read, or if one belongs to another view or source than `of`.
func (s *Sink) checkMarks(ctx context.Context, t *topic, of place) *fault {
	if t.id == "" || t.marks == nil {
		return nil
	}
	marks, _, err := s.allMarks(ctx, t)
	if err != nil {
		return &fault{err, replicator.Fail, "allow the user to read the topics, and let nothing else write to them"}
	}
	return t.rival(marks, of)
}
