package judge

import (
	"fmt"
	"slices"

	"replicator"
)

// Fellow is a cell of the same table, column and key at another source that feeds the view, and its known state.
type Fellow struct {
	Source string
	Known

	// Barren: it waits, and the view can't hold its contribution. It stays a dead letter when it no longer waits.
	Barren bool
}

// Leads reports whether the view shows the fellow: its source has a row of the cell, or some contribution of one is
// left.
func (f Fellow) Leads() bool { return !f.Waits && (f.Shown || f.State.Version != replicator.NoVersion) }

// Claim is the rule for a cell of which several sources have a row, as shards do while an entity moves. A view shows
// the row of the source that came first, whatever the row contributes. So all views show the row of one source. The row
// of a later source waits: it is a dead letter, and its contribution is kept in its state. The step that removes the
// first source's row shows a waiting one instead.
//
// A sink calls Claim after Judge if there are fellows; next is Judge's result. yields says that the view shows a
// fellow, so the target must not change. waits says that this source's row then waits. heir is the index of the fellow
// that replaces this cell, or -1.
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

// Claimed says why a view does not show what a re-read found of a cell: it shows a fellow. nil: it shows the cell.
func Claimed(look replicator.Op, fellows []Fellow) error {
	leader := slices.IndexFunc(fellows, Fellow.Leads)
	if leader < 0 || look.Version == replicator.NoVersion {
		return nil
	}
	return claimed(fellows[leader])
}

func claimed(by Fellow) error {
	return fmt.Errorf("%w: the view shows that of shard %s, and this one once that is gone. If the entity does not move, "+
		"delete the row in one of the two shards", replicator.ErrClaimed, by.Source)
}
