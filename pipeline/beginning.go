package pipeline

import (
	"fmt"
	"maps"

	"replicator"
)

// beginning decides at which log position a view begins. It is used for every session of every run, whether after a
// start, a retry, a pause or a rebuild. It compares the view's checkpoint c, which is its last mark as this process or
// the store remembers it, with the sink's own mark m (nil: the sink has none). The view begins at the lower one. A
// position that was saved without a mark is never used: changes up to it are in the sink, or are read again. The cases:
//
//   - c was never marked. It is the beginning of a new view, or of a requested fill. The view begins at c until the
//     sink has a mark of that view or fill.
//   - c was marked, but the sink has no usable mark. The mark is gone, or belongs to another definition of the view, or
//     the sink registered the view again and has no mark since. So the sink lost the view. The error wraps ErrSinkLost,
//     and the option on_lost decides what happens.
//   - m is lower. The sink was set back. The view goes back to m's position and to m's progress of the fill.
//   - m is higher. Another replicator also maintains the view, or the store was restored from an older copy. The view
//     begins at c, and the sink ignores repeated changes as stale. The source's log must also contain m's position: see
//     above.ahead.
//   - m belongs to a later fill than c, and that fill is running or complete. Another replicator began it, or this one
//     did and its store was restored from an older copy. The view continues with the later fill, which reads everything
//     that c's fill would read.
//   - The source is a partition of a Changelog. A partition moves between processes, each with its own store, so c may
//     be old, and the view begins at m. During a fill it begins at c, because the fill reads the log from the log's
//     beginning, while m's position stays the same.
//   - m belongs to an earlier fill than c. Nothing of c's fill is left in the sink, so c's fill scans its tables from
//     the start.
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
			if c.Unmarked { // the new beginning replaces an earlier fill, so the beginning's epoch counts
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

// eachAt returns checkpoints for views that all begin at one position.
func eachAt(views []*replicator.View, c replicator.Checkpoint) []replicator.Checkpoint {
	each := make([]replicator.Checkpoint, len(views))
	for i, v := range views {
		each[i] = c
		each[i].View, each[i].Fingerprint, each[i].Fill = v.Name, v.Fingerprint, maps.Clone(c.Fill)
	}
	return each
}
