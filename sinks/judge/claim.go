package judge

import (
	"fmt"
	"slices"

	"replicator"
)

// Fellow is the same cell (table, column and key) at another source that feeds the view, with the sink's knowledge of
// that cell.
type Fellow struct {
	Source string
	Known

	// Barren: the fellow's row waits (see Claim), but the view can't show its contribution. When the shown row is
	// deleted and this one is next, the view shows nothing, and the fellow stays a dead letter.
	Barren bool
}

// Leads reports whether the view shows the fellow's row, even if that row contributes nothing. It does if the fellow's
// row doesn't wait (see Claim), and the fellow's source has a row or the view still has a contribution of it.
func (f Fellow) Leads() bool { return !f.Waits && (f.Shown || f.State.Version != replicator.NoVersion) }

// Claim is the rule for a cell that has a row at several sources, such as shards while an entity moves. A view shows
// only the row of the source that came first, even if that row contributes nothing. A later source's row waits: it is a
// dead letter, and its contribution is kept in its state. When the first source's row is deleted, the same step shows a
// waiting row instead.
//
// A sink calls Claim after Judge if there are fellows. next is Judge's result. yields reports that the view shows a
// fellow's row, so the target must not change. waits reports that the op's row therefore waits. heir is the index of
// the fellow whose waiting row the view must now show, because this source's row is gone; -1 if there is none.
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

// Claimed returns an error if a view shows another source's row (a fellow's) instead of the row that a re-read found.
// It returns nil if the view shows no fellow's row, or if the re-read found no row.
func Claimed(look replicator.Op, fellows []Fellow) error {
	leader := slices.IndexFunc(fellows, Fellow.Leads)
	if leader < 0 || look.Version == replicator.NoVersion {
		return nil
	}
	return claimed(fellows[leader])
}

func claimed(by Fellow) error {
	return fmt.Errorf("%w: the view shows the row of shard %s, and this one once that row is deleted. If the "+
		"entity does not move, delete the row in one of the two shards", replicator.ErrClaimed, by.Source)
}
