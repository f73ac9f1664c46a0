package kafka

import (
	"context"
	"fmt"

	"replicator"
	"replicator/internal/changelog"
)

// A topic holds one view of one source. Readers take its last mark for the position up to which all is published, and
// the last record of a key for the cell's content. A second view's mark would cover changes that the first has not
// written yet. The positions of two sources can't be ordered.

// rival names the other view or source that the topic holds, and says what to do; nil if there is none. If the topic
// was deleted and created again, older marks don't count.
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

// alone fails if any of the marks belongs to another view or source.
func (k *keeper) alone(marks map[place]found) error {
	rival := k.topic.rival(marks, place{k.source, k.view.Name})
	if rival == nil {
		return nil
	}
	return replicator.OfView(replicator.Fatal(fmt.Errorf("sink %s: view %s: %w: %s", k.sink.cfg.Name, k.view.Name,
		rival.error, rival.fix)), k.view.Name)
}

// checkMarks checks whether a topic holds another view or source than v and its source.
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
