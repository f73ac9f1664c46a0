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
}

// Claim is the rule for a cell that several sources have a row of, as shards do while an entity moves. A view shows the
// cell of the source that came first. The cell of a source that comes later waits: it is a dead letter, and what it
// would contribute is kept in its state. Once the source that came first has nothing to show any more, the same step
// shows what a waiting cell has kept.
//
// A sink calls Claim after Judge where there are fellows. contributes says whether the value has something that can be
// held. yields says that the view shows a fellow, so the target must stay as it is; heir is the place of the fellow
// that is to be shown in this cell's place, or -1.
func (b *Batch) Claim(op, value int, known Known, contributes bool, fellows []Fellow) (yields bool, heir int) {
	v := &b.verdicts[b.first[op]+value]
	shown := ""
	heir = -1
	for i, f := range fellows {
		switch {
		case f.Shown:
			yields, shown = true, f.Source
		case f.Waits && heir < 0:
			heir = i
		}
	}
	if yields || contributes || !v.applied {
		heir = -1
	}
	switch {
	case yields && contributes && v.applied:
		v.claimed = Claimed(true, fellows)
	case heir >= 0:
		v.elsewhere = fellows[heir].Source
	case yields && (v.applied || !known.Dead):
		v.elsewhere = shown
	}
	return yields, heir
}

// Claimed says why a view does not show a cell that contributes something: because it shows a fellow. nil: it does not.
func Claimed(contributes bool, fellows []Fellow) error {
	i := slices.IndexFunc(fellows, func(f Fellow) bool { return f.Shown })
	if i < 0 || !contributes {
		return nil
	}
	return fmt.Errorf("%w: the view shows that of shard %s, and this one once that is gone. If the entity does not move, "+
		"delete the row in one of the two shards", replicator.ErrClaimed, fellows[i].Source)
}

// OthersOf returns the sources, among all that feed a sink, that an entity of one of them may move to.
func OthersOf(source string, sources []string) []string {
	if source == "" || !slices.Contains(sources, source) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(sources), func(s string) bool { return s == source })
}
