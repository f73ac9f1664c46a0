package pipeline

import (
	"fmt"
	"maps"

	"replicator"
)

// beginning decides where a view begins, for every session of every run, whatever its cause: start, retry, renewal,
// pause and resume, join, part, take-out, swap, rebuild. A view begins at the lower of two: its checkpoint, that is,
// what was marked last as this process or the store remembers it (c), and the sink's mark (m; nil: the sink has none).
// A position that was not marked never counts: changes up to it are in the sink, or are read again.
//
//   - Nothing of c was marked yet. It says where a new view, or a fill that was asked for, is to begin. It counts until
//     the sink has marks of it.
//   - c was marked, and the sink has no mark, or none since it registered the view again. The sink lost the view. The
//     error wraps ErrSinkLost, and on_lost decides.
//   - The mark is lower. The sink was set back. The view goes back to the mark's position and the mark's progress of
//     the fill.
//   - The mark is higher. Another replicator also keeps the view, or the store is older. c counts; repeated changes are
//     stale. The source's log must also have the mark's position: see above.ahead.
//   - The mark is that of a later fill, running or complete. Another replicator began it, or this one did and its store
//     is older. The view continues with that fill, because the reason for it is unknown here. That fill reads
//     everything that c's fill would read.
//   - The source is a partition of a Changelog. Such a partition moves between processes, each with its own store,
//     which may be old. c says only that the view was kept, so the mark counts. But not during a fill, which reads the
//     log from its beginning while the mark's position stays.
//   - The mark is that of an earlier fill than c's. Nothing of c's fill is left, so it scans its tables from the start.
func beginning(c replicator.Checkpoint, m *replicator.Mark, changelog bool) (replicator.Standing, error) {
	same := m != nil && replicator.SameDefinition(m.Fingerprint, c.Fingerprint)
	known := same && !m.Position.IsZero()
	switch {
	case c.Unmarked && (!known || m.Epoch < c.Epoch):
		return c.Standing, nil
	case m != nil && !same:
		return c.Standing, fmt.Errorf("another definition of it is kept there now: %w", replicator.ErrSinkLost)
	case !known && m != nil && m.Lost != nil:
		return c.Standing, m.Lost
	case !known:
		return c.Standing, fmt.Errorf("its mark is gone, or what holds it was dropped or emptied: %w", replicator.ErrSinkLost)
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

// lowestOf is where views that run together begin, given where each of them would. Changes that some have applied
// already are repeated.
func lowestOf(views []*replicator.View, begin []replicator.Checkpoint) replicator.Standing {
	lowest := replicator.Standing{Position: begin[0].Position}
	fill := map[string]replicator.Progress{}
	for i, c := range begin {
		lowest.Position = lowest.Position.Lower(c.Position)
		if !c.Filling() {
			if c.Unmarked { // it replaces a fill that was to begin
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
