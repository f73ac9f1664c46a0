package kafka

import (
	"context"
	"fmt"

	"replicator"
)

// A topic is one view's. Readers take the last mark of a source, of whatever view, for how far that is published: what
// one of two views has yet to write the other one's mark would say is there.

// rival says which other view of a source the topic is kept for, and what to do; nil if there is none. Marks of a topic
// that was made anew since are of nothing that stands there.
func (t *topic) rival(marks map[place]found, of place) *fault {
	other := ""
	for at, m := range marks {
		stands := m.err != nil || m.mark != nil && m.mark.Topic == t.id
		if at.source == of.source && at.view != of.view && stands && (other == "" || at.view < other) {
			other = at.view
		}
	}
	if other == "" {
		return nil
	}
	return &fault{
		error: fmt.Errorf("topic %s is kept for view %s, and members can't tell two views' marks apart", t.name, other),
		level: replicator.Fail,
		fix: fmt.Sprintf("name a topic of its own for each view; or, if nothing publishes %[1]s any more (it was "+
			"renamed, say), free the topic: `replicator checkpoint forget %[1]s`, by a configuration that has %[1]s",
			other),
	}
}

// alone fails if some of the marks are another view's.
func (k *keeper) alone(marks map[place]found) error {
	rival := k.topic.rival(marks, place{k.source, k.view.Name})
	if rival == nil {
		return nil
	}
	return replicator.OfView(replicator.Fatal(fmt.Errorf("sink %s: view %s: %w: %s", k.sink.cfg.Name, k.view.Name,
		rival.error, rival.fix)), k.view.Name)
}

// checkMarks looks for a view that a topic is kept for besides v.
func (s *Sink) checkMarks(ctx context.Context, t *topic, v *replicator.View) *fault {
	if t.id == "" || t.marks == nil {
		return nil
	}
	marks, _, err := s.allMarks(ctx, t)
	if err != nil {
		return &fault{err, replicator.Fail, "let the user read the topics, and nothing else write to them"}
	}
	for _, source := range s.cfg.Sources {
		if rival := t.rival(marks, place{source, v.Name}); rival != nil {
			return rival
		}
	}
	return nil
}
