package kafka

import (
	"context"
	"fmt"

	"replicator"
	"replicator/internal/changelog"
)

// A topic is kept for one view and one source. Readers take its last mark for how far all of it is published, and the
// last record of a key for what the cell is: a second view's mark would stand for what the first has yet to write, and
// the places of two sources are no one order.

// rival says which other view or source the topic is kept for, and what to do; nil if there is none. Marks of a topic
// that was made anew since are of nothing that stands there.
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
			error: fmt.Errorf("topic %s is kept for view %s of %s, and a topic holds the cells of one source", t.name,
				other.view, changelog.Origin(other.source)),
			level: replicator.Fail,
			fix:   "name another topic; with [source.shards] its name holds " + sourceName,
		}
	}
	return &fault{
		error: fmt.Errorf("topic %s is kept for view %s, and members can't tell two views' marks apart", t.name,
			other.view),
		level: replicator.Fail,
		fix: fmt.Sprintf("name a topic of its own for each view; or, if nothing publishes %[1]s any more (it was "+
			"renamed, say), free the topic: `replicator checkpoint forget %[1]s`, by a configuration that has %[1]s",
			other.view),
	}
}

// alone fails if some of the marks are another view's or source's.
func (k *keeper) alone(marks map[place]found) error {
	rival := k.topic.rival(marks, place{k.source, k.view.Name})
	if rival == nil {
		return nil
	}
	return replicator.OfView(replicator.Fatal(fmt.Errorf("sink %s: view %s: %w: %s", k.sink.cfg.Name, k.view.Name,
		rival.error, rival.fix)), k.view.Name)
}

// checkMarks looks for a view or a source that a topic is kept for besides v and its source.
func (s *Sink) checkMarks(ctx context.Context, t *topic, of place) *fault {
	if t.id == "" || t.marks == nil {
		return nil
	}
	marks, _, err := s.allMarks(ctx, t)
	if err != nil {
		return &fault{err, replicator.Fail, "let the user read the topics, and nothing else write to them"}
	}
	return t.rival(marks, of)
}
