package pipeline

import (
	"fmt"
	"maps"

	"replicator"
)

// beginning is where a view begins, for every session of every run, however it came about: start, retry, renewal, pause
// and resume, join, part, take-out, swap, rebuild. It is the lowest of what was marked, as this process remembers it or
// the store does (c), and of what the sink says that it holds (m; nil: it has no mark of the view). A position that was
// not marked never counts: what was applied on the way there is in the sink, or it is read again.
//
//   - Nothing of c was marked yet: it says where a view is to begin that nothing was kept of, or a fill that somebody
//     asked for. It counts until the sink has marks of it.
//   - Something was marked and the mark is gone, or was never set since the sink opened the view anew: the sink lost
//     the view. That is an error that wraps ErrSinkLost, and on_lost says what follows.
//   - The mark is lower: the sink was set back. The view goes back with it, to the mark's position and to what it tells
//     of the fill.
//   - The mark is higher: another replicator keeps the view, too, or the store is older. c counts; what is repeated is
//     stale. The source's log must have the mark's position, too: above.ahead.
//   - The mark is that of a later fill, under way or complete: another replicator began it, or this one did, and its
//     store is older. The view goes on with that fill: what made it necessary is not known here. It has read all that
//     c's fill is to read.
//   - A partition of a Changelog goes from one process to another, each with a store of its own, which may be old: c
//     says no more than that the view was kept, and the mark counts. Not during a fill, which reads the log from its
//     beginning while the mark's position stays where it was.
//   - The mark is that of an earlier fill than c's: nothing of c's fill is there any more, and it scans its tables from
//     the start.
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

// isNew reports whether a view begins at a place of the log, without a fill and without having stood anywhere before.
func isNew(c replicator.Checkpoint) bool { return c.Unmarked && !c.Filling() && c.Epoch == 0 }

// lowestOf is where views begin that run together, given where each of them does. What the others have applied of it
// already is repeated.
func lowestOf(views []*replicator.View, begin []replicator.Checkpoint) replicator.Standing {
	lowest := replicator.Standing{Position: begin[0].Position}
	fill := map[string]replicator.Progress{}
	for i, c := range begin {
		lowest.Position = lowest.Position.Lower(c.Position)
		if !c.Filling() {
			if c.Unmarked { // it takes the place of a fill that was to begin
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

// eachAt are the checkpoints of views that all begin at one place.
func eachAt(views []*replicator.View, c replicator.Checkpoint) []replicator.Checkpoint {
	each := make([]replicator.Checkpoint, len(views))
	for i, v := range views {
		each[i] = c
		each[i].View, each[i].Fingerprint, each[i].Fill = v.Name, v.Fingerprint, maps.Clone(c.Fill)
	}
	return each
}
