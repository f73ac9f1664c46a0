package pipeline

import (
	"fmt"
	"maps"

	"replicator"
)

// beginning decides at which log position a session begins for a view: at the lower one of `saved`, the view's last
// checkpoint, and `mark`, the progress that the sink keeps with the data (nil: none). Changes that are then repeated do
// no harm. Special cases:
//
//   - saved is Unmarked, because it was not yet saved in the sink: saved counts, until the sink has a mark of the same
//     definition, and of the same fill or a later one.
//   - Otherwise, if mark is missing or has another definition, the sink lost the view. The error wraps ErrSinkLost.
//   - mark is in a later fill than saved: the view continues that fill. If mark is in an earlier fill, the fill of
//     saved starts again.
//   - The source is a Changelog: outside of fills, mark alone counts. saved may be old, because another process may
//     have had the partition since.
func beginning(saved replicator.Checkpoint, mark *replicator.Mark, changelog bool) (replicator.Standing, error) {
	same := mark != nil && replicator.SameDefinition(mark.Fingerprint, saved.Fingerprint)
	known := same && !mark.Position.IsZero()
	switch {
	case saved.Unmarked && (!known || mark.Epoch < saved.Epoch):
		return saved.Standing, nil
	case mark != nil && !same:
		return saved.Standing, fmt.Errorf("the view in the sink now has another definition (another replicator "+
			"rebuilt it, or the sink was restored from a backup): %w", replicator.ErrSinkLost)
	case !known && mark != nil && mark.Lost != nil:
		return saved.Standing, mark.Lost
	case !known:
		return saved.Standing, fmt.Errorf("the view's mark in the sink is gone, or its table, keys or index were "+
			"dropped or emptied: %w", replicator.ErrSinkLost)
	}
	if changelog && !mark.Filling() && mark.Epoch >= saved.Epoch {
		return mark.Standing, nil
	}
	at := saved.Standing
	at.Position = saved.Position.Lower(mark.Position)
	switch {
	case mark.Filling() && !saved.Filling(), (mark.Filling() || saved.Filling()) && saved.Epoch < mark.Epoch:
		at.Fill, at.FillFrom, at.Repair, at.Epoch = mark.Fill, mark.FillFrom, mark.Repair, mark.Epoch
	case saved.Filling() && mark.Epoch < saved.Epoch:
		at.Fill = map[string]replicator.Progress{}
	case saved.Filling() && mark.Filling():
		at.Fill = replicator.CommonFill(saved.Fill, mark.Fill)
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
			if c.Unmarked { // after `checkpoint reset`, see afterReset: marks with a lower epoch are ignored
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
