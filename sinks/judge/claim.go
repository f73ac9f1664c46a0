package judge

import (
	"fmt"
	"slices"

	"replicator"
)

// Fellow is a cell's counterpart at another source that feeds the view: the same table, column and key, in another
// shard for example. Known is what the sink knows of it.
type Fellow struct {
	Source string
	Known

	// Barren: the fellow's row is waiting (Waits), but the view can't hold that row. When its turn comes, the view
	// shows nothing, and the fellow's cell stays a dead letter.
	Barren bool
}

// Leads reports whether the view shows the row of f's source, even if that row contributes nothing. The row must not be
// waiting for another source's row to be deleted. It must exist, or the view must still have its contribution.
func (f Fellow) Leads() bool { return !f.Waits && (f.Shown || f.State.Version != replicator.NoVersion) }

// Claim is the rule for a cell that has a row at several sources, as while an entity moves between shards. A view shows
// the row of the source that came first. A later source's row waits, as a dead letter. When the first row is deleted,
// the same step shows a waiting one.
//
// A sink calls Claim after Judge, with the state that Judge returned (next). fellows are the same cell at other
// sources. yields: the view shows another source's row, so the target must not change. waits: the op's row must wait.
// heir is the index of the fellow whose waiting row the view must now show, because the op's source has no row any
// more; -1 if there is none.
func (b *Batch) Claim(op, value int, next replicator.State, fellows []Fellow) (yields, waits bool, heir int) {
	v := &b.verdicts[b.first[op]+value]
	leader, row := slices.IndexFunc(fellows, Fellow.Leads), next.Version != replicator.NoVersion
	yields, heir = leader >= 0, -1
	if waits = yields && row && v.applied; waits && b.ops[op].Values[value].Err == nil {
		v.claimed = claimed(fellows[leader])
	}
	switch {
	case yields && !row && !fellows[leader].Dead:
		v.elsewhere = fellows[leader].Source
	case !yields && v.applied && !row:
		heir = slices.IndexFunc(fellows, func(f Fellow) bool { return f.Waits })
		if heir >= 0 && !fellows[heir].Barren {
			v.elsewhere = fellows[heir].Source
		}
	}
	return yields, waits, heir
}

// Claimed returns an error if a re-read found a row, but the view shows another source's row of the same cell.
// Otherwise it returns nil.
func Claimed(look replicator.Op, fellows []Fellow) error {
	leader := slices.IndexFunc(fellows, Fellow.Leads)
	if leader < 0 || look.Version == replicator.NoVersion {
		return nil
	}
	return claimed(fellows[leader])
}

func claimed(by Fellow) error {
	return fmt.Errorf("%w: the view shows the row of shard %s. Once that row is deleted, the view shows this shard's "+
		"row. Unless the entity is moving, delete the row in one of the two shards", replicator.ErrClaimed, by.Source)
}
