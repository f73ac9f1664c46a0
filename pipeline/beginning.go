package pipeline

import (
	"fmt"
	"maps"

	"replicator"
)

// beginning decides at which log position a session begins for a view. c is the view's last checkpoint, and m the
// progress that the sink keeps with the data (nil: none). The lower of the two counts, because repeated changes do no
// harm. Special cases:
//
//   - c has never been saved in the sink: c counts, until the sink has progress of that view or fill.
//   - m is missing or has another definition: the sink lost the view, and the error wraps ErrSinkLost.
//   - m is in a later fill than c: the view continues that fill. If m is in an earlier one, c's fill starts again.
//   - The source is a Changelog: m counts outside of fills. Processes hand its partitions on, so c may be old.
func beginning(c replicator.Checkpoint, m *replicator.Mark, changelog bool) (replicator.Standing, error) {
	same := m != nil && replicator.SameDefinition(m.Fingerprint, c.Fingerprint)
	known := same && !m.Position.IsZero()
	switch {
	case c.Unmarked && (!known || m.Epoch < c.Epoch):
		return c.Standing, nil
	case m != nil && !same:
		return c.Standing, fmt.Errorf("the sink now has another definition of the view: %w", replicator.ErrSinkLost)
	case !known && m != nil && m.Lost != nil:
		return c.Standing, m.Lost
	case !known:
		return c.Standing, fmt.Errorf("the view's mark in the sink is gone, or its table, keys or index were "+
			"dropped or emptied: %w", replicator.ErrSinkLost)
	}
	if changelog && !m.Filling() && m.Epoch >= c.Epoch {
		return m.Standing, nil
	}
	at := c.Standing
	at.Position = c.Position.Lower(m.Position)
	switch {
	case m.Filling() && !c.Filling(), (m.Filling() || c.Filling()) && c.Epoch < m.Epoch:
		at.Fill, at.FillFrom, at.Repair, at.Epoch = m.Fill, m.FillFrom, m.Repair, m.Epoch
	case c.Filling() && m.Epoch < c.Epoch:
		at.Fill = map[string]replicator.Progress{}
	case c.Filling() && m.Filling():
		at.Fill = replicator.CommonFill(c.Fill, m.Fill)
	}
	return at, nil
}

// isNew reports whether a view begins at a log position without a fill, and never had a position before.
func isNew(c replicator.Checkpoint) bool { return c.Unmarked && !c.Filling() && c.Epoch == 0 }

// lowestOf returns where views that run together begin: at the lowest of the views' positions. Views with a higher
// position repeat changes that they have applied.
func lowestOf(views []*replicator.View, begin []replicator.Checkpoint) replicator.Standing {
	lowest := replicator.Standing{Position: begin[0].Position}
	fill := map[string]replicator.Progress{}
	for i, c := range begin {
		lowest.Position = lowest.Position.Lower(c.Position)
		if !c.Filling() {
			if c.Unmarked { // after a reset, the view has a new epoch, so that its earlier marks are ignored
				lowest.Epoch = max(lowest.Epoch, c.Epoch)
			}
			continue
		}
		for _, table := range replicator.Feeding(views[i : i+1]) {
			if p, ok := fill[table]; !ok || c.Fill[table].Less(p) {
				fill[table] = c.Fill[table]
			}
		}
		lowest.Fill = fill
		lowest.FillFrom = max(lowest.FillFrom, c.FillFrom)
		lowest.Epoch = max(lowest.Epoch, c.Epoch)
		lowest.Repair = lowest.Repair || c.Repair
	}
	lowest.Fill = maps.Clone(lowest.Fill)
	return lowest
}

func eachAt(views []*replicator.View, c replicator.Checkpoint) []replicator.Checkpoint {
	each := make([]replicator.Checkpoint, len(views))
	for i, v := range views {
		each[i] = c
		each[i].View, each[i].Fingerprint, each[i].Fill = v.Name, v.Fingerprint, maps.Clone(c.Fill)
	}
	return each
}
