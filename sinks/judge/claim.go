package judge

import (
	"fmt"
	"slices"

	"replicator"
)

// Fellow is the cell of the same table, column and key at another source that feeds the view, and what is known of it.
type Fellow struct {
	Source string
	Known

	// Barren: it waits, and the view can't hold what it would contribute. Once it waits no more it is a dead letter still.
	Barren bool
}

// Leads reports whether the view is the fellow's: its source has a row of the cell, or something is left of one.
func (f Fellow) Leads() bool { return !f.Waits && (f.Shown || f.State.Version != replicator.NoVersion) }

// Claim is the rule for a cell that several sources have a row of, as shards do while an entity moves. A view shows the
// row of the source that came first, whatever it makes of that row: so all views show the row of one source. The row
// of a source that comes later waits: it is a dead letter, and what it would contribute is kept in its state. The step
// in which the first source's row goes puts a waiting one in its place.
//
// A sink calls Claim after Judge where there are fellows; next is what Judge returned. yields says that the cell is a
// fellow's, so the target must stay as it is, and waits that this source's row waits then. heir is the place of the
// fellow that takes this cell's place, or -1.
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

// Claimed says why a view does not show what a look found of a cell: because it is a fellow's. nil: it does show it.
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
